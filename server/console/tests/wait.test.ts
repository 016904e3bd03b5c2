import assert from "node:assert/strict";
import { test } from "node:test";
import type { Wait } from "../src/api/types";
import { waitText } from "../src/state/wait";

test("each reason to wait is a clause, in the words of ebb jobs", () => {
  const guard = (allowed_ratio: number, slack_ratio: number): Wait => ({
    kind: "guard",
    quantile: "p99",
    allowed_ratio,
    slack_ratio,
  });
  const clauses: [Wait, string][] = [
    [
      { kind: "jobs", share_cores: 0.7, left_cores: 0.7 },
      "other jobs come first: they get 0.70 of 0.7 cores left for jobs",
    ],
    [{ kind: "others", used_cores: 1.95, cores: 2 }, "other processes use 1.95 of 2 cores"],
    [{ kind: "load", used_cores: 0.8, cores: 1 }, "the load uses 0.80 of 1 core"],
    [guard(0.25, 0.1), "the guard leaves jobs 25% of what is free, to keep p99 below the objective"],
    [guard(0, -0.5), "the guard has stopped jobs, p99 is above the objective"],
    [guard(0, 0.02), "the guard has stopped jobs until p99 is well below the objective"],
    [{ kind: "limit", cores: 0.5, throttled_ratio: 0 }, "the cgroup's limit (cpu.max) is 0.5 cores"],
    [{ kind: "limit", cores: 1, throttled_ratio: 0.6 }, "the cgroup's limit (cpu.max) is used up: 1 core"],
  ];
  for (const [wait, clause] of clauses) assert.equal(waitText(wait), clause);
});
