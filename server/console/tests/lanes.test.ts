import assert from "node:assert/strict";
import { test } from "node:test";
import type { WhatIf } from "../src/api/types";
import { LANES_MAX, inLanes } from "../src/chart/lane-choice";
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

/** A backup that has a quarter of 1,000 bytes, at this rate. */
function backup(bytesPerS: number): Job {
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

/**
 * A job that started at 10 s, and has a goal 50 s later, or none. `finishMs` is its predicted end, and `null` if that
 * is not within a week.
 */
function running(id: string, hasGoal: boolean, finishMs?: number | null): Job {
  const goal = { goal_unix_ms: hasGoal ? 60_000 : null, method: "lookahead/fair" };
  const around = (atMs: number) => ({ finish_unix_ms: atMs, low_unix_ms: atMs, high_unix_ms: atMs });
  return jobOf({
    record: {
      id,
      application: "sort",
      request: { application: { sort: {} }, directory: "", goal_s: hasGoal ? 50 : null },
      state: "started",
      started_unix_ms: 10_000,
      starts: 1,
      ended_unix_ms: null,
    },
    run: { inputs: [], policy: "", progress: { step: 1, steps: 1, status } },
    end: null,
    prediction: finishMs == null ? null : { ...around(finishMs), ...goal, slack_s: null },
    beyond_horizon: finishMs === null ? { horizon_unix_ms: 604_820_000, ...goal } : null,
  });
}

// Regression: the goal of a job that does not end within a week had the job's colour until it had passed.
test("the lane of a job that does not end within a week has its goal in red", () => {
  const x = linear([0, 100_000], [0, 1000]);
  const lane = (finishMs?: number | null) =>
    Lanes({ jobs: [running("1", true, finishMs)], hypothesis: null, x, nowMs: 20_000, cursorMs: null });
  const goal = (finishMs?: number | null) => withClass(lane(finishMs), "lane-goal")[0]!.props.class;
  assert.equal(goal(null), "lane-goal late");
  assert.equal(goal(), "lane-goal");
  assert.equal(goal(50_000), "lane-goal");
  assert.match(textOf(lane(null)), /not within a week, late/);
  assert.match(textOf(lane()), /no prediction yet/);
});

// Regression: the newest eight jobs had lanes, also if an older one was late.
test("late jobs have lanes first, then others with a goal, then the newest", () => {
  const jobs = [
    ...Array.from({ length: 6 }, (_, i) => running(`9${9 - i}`, false)),
    running("5", true, 50_000),
    running("4", true, 70_000),
    running("3", false),
    running("2", true),
    running("1", true, null),
  ];
  const ids = (of: readonly Job[]) => inLanes(of, 20_000).map((job) => job.id);
  assert.equal(LANES_MAX, 8);
  assert.deepEqual(ids(jobs), ["99", "98", "97", "96", "5", "4", "2", "1"]);
  const withGoals = Array.from({ length: 9 }, (_, i) => running(`9${9 - i}`, true));
  assert.deepEqual(ids([...withGoals, running("1", true, null)]), ["99", "98", "97", "96", "95", "94", "93", "1"]);
  assert.deepEqual(ids(jobs.slice(4, 7)), ["95", "94", "5"]);
});
