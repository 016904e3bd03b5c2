import assert from "node:assert/strict";
import { test } from "node:test";
import { goalsLine } from "../src/state/goals";
import type { Outlook } from "../src/state/job";

function line(ahead: Outlook[], ended: Outlook[] = []): string[] {
  const { value, of, verdict, detail } = goalsLine(ahead, ended, "5 min");
  return [`${value} ${of}`.trim(), verdict, detail];
}

test("goals are counted by their predictions", () => {
  assert.deepEqual(line([]), ["–", "none", "no job runs"]);
  assert.deepEqual(line(["none"]), ["none", "none", "1 job without a goal"]);
  assert.deepEqual(line(["on-time", "on-time"]), ["2 of 2 will be met", "good", "2 jobs with a goal"]);
  const late = line(["late", "on-time", "unknown", "none"]);
  assert.deepEqual(late, ["1 late of 3", "bad", "3 jobs with a goal, 1 not known, 1 job without a goal"]);
});

// Regression: a job without a prediction was shown as "0 of 1 will be met".
test("a goal without a prediction is not counted as one that will be missed", () => {
  assert.deepEqual(line(["unknown"]), ["– not known", "none", "1 job with a goal"]);
  const some = line(["on-time", "unknown"]);
  assert.deepEqual(some, ["1 of 2 will be met", "none", "2 jobs with a goal, 1 not known"]);
});

// Regression: goals were forgotten as soon as their jobs had ended, so that the page of a demo showed none.
test("the goals of jobs that ended are counted apart", () => {
  const beside = line(["on-time"], ["met", "missed", "met", "none"]);
  assert.deepEqual(beside, ["1 of 1 will be met", "good", "1 job with a goal; 2 met and 1 missed in the last 5 min"]);
  assert.deepEqual(line([], ["met", "met", "unknown"]), ["2 of 2 were met", "good", "no job runs; 2 met in the last 5 min"]);
  assert.deepEqual(line([], ["missed"]), ["0 of 1 were met", "bad", "no job runs; 1 missed in the last 5 min"]);
});
