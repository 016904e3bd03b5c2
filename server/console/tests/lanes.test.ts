import assert from "node:assert/strict";
import { test } from "node:test";
import type { WhatIf } from "../src/api/types";
import { Lanes } from "../src/chart/lanes";
import { linear } from "../src/chart/scale";
import { type Job, jobOf } from "../src/state/job";
import { hypothesisOf } from "../src/state/panels";
import { textOf, withClass } from "./vnodes";

const answer: WhatIf = {
  finish_unix_ms: 60_000,
  low_unix_ms: null,
  high_unix_ms: null,
  meets_goal: true,
  victims: [],
  answered_in_ms: 1,
};

// Regression: the goal that was asked for with a hypothetical job was not drawn.
test("the goal of a hypothetical job is drawn in its lane", () => {
  const x = linear([0, 100_000], [0, 1000]);
  const goals = (goalS: number | null) => {
    const hypothesis = hypothesisOf("8 maps", answer, goalS, 20_000);
    return withClass(Lanes({ jobs: [], hypothesis, x, nowMs: 20_000, cursorMs: null }), "lane-goal");
  };
  assert.match(String(goals(50)[0]!.props.d), /^M700 /);
  assert.equal(goals(null).length, 0);
});

/** A backup that has a quarter of 1,000 bytes, at this rate. */
function backup(bytesPerS: number): Job {
  const status = {
    name: "backup",
    state: "running",
    share_hundredths: 100,
    tasks_running: 1,
    maps_done: 0,
    maps_total: 0,
    reduces_done: 0,
    reduces_total: 0,
    attempts_failed: 0,
    cpu_s: 0.1,
    cause: null,
  } as const;
  const bytes = { bytes_done: 250, bytes_total: 1000, bytes_per_s: bytesPerS };
  return jobOf({
    record: {
      id: "1795445223688",
      application: "backup",
      request: { application: { backup: { by: "cron" } }, directory: "" },
      state: "started",
      started_unix_ms: 10_000,
      starts: 1,
      ended_unix_ms: null,
    },
    run: { inputs: [], policy: "", progress: { step: 1, steps: 1, status, bytes } },
    end: null,
    prediction: null,
  });
}

// Regression: the lane of a backup had no end and no prediction, although the list of jobs had the end.
test("the lane of a backup ends when its bytes are done at its present rate", () => {
  const x = linear([0, 100_000], [0, 1000]);
  const lanes = (job: Job) => Lanes({ jobs: [job], hypothesis: null, x, nowMs: 20_000, cursorMs: null });
  const running = lanes(backup(25));
  assert.deepEqual(withClass(running, "lane-finish").map(({ props }) => props.cx), [500]);
  assert.doesNotMatch(textOf(running), /no prediction/);
  const waiting = lanes(backup(0));
  assert.equal(withClass(waiting, "lane-finish").length, 0);
  assert.match(textOf(waiting), /no prediction yet/);
});
