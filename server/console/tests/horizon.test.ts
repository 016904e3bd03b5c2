import assert from "node:assert/strict";
import { test } from "node:test";
import { type Goal, beyond } from "../src/chart/cores";
import { horizonMs } from "../src/chart/horizon";
import { Entry } from "../src/chart/legend";
import { linear } from "../src/chart/scale";
import { withClass } from "./vnodes";

const PAST = 300_000;
const goal = (goalMs: number) => ({ finishMs: null, goalMs });

test("goals and predicted ends are in sight, with some room behind them", () => {
  assert.equal(horizonMs(PAST, 0, []), 150_000);
  assert.equal(horizonMs(PAST, 0, [{ finishMs: 200_000, goalMs: 250_000 }]), 300_000);
  assert.equal(horizonMs(PAST, 0, [goal(250_000), { finishMs: 400_000, goalMs: null }]), 450_000);
});

// Regression: in the default time span of 5 min, the goal of 10 min that the form has as its example was not drawn.
test("a goal in ten minutes is in sight beside five minutes of the past", () => {
  assert.equal(horizonMs(PAST, 0, [goal(600_000)]), 600_000);
});

test("marks out of reach leave the past its room, and the axis does not jump when they come into reach", () => {
  assert.equal(horizonMs(PAST, 0, [goal(9e9)]), 150_000);
  assert.equal(horizonMs(PAST, 0, [goal(9e9), goal(250_000)]), 300_000);
  const all = Array.from({ length: 200 }, (_, i) => horizonMs(PAST, 0, [goal(1_500_000 - 7500 * i)]));
  assert.equal(Math.max(...all), 600_000);
  assert.ok(all.slice(1).every((at, i) => Math.abs(at - all[i]!) <= PAST / 4), String(all));
});

// Regression: the first two of the list were shown, and none of them was red.
test("of the goals beyond the picture, late ones are the first, and are red", () => {
  const x = linear([0, 600_000], [0, 900]);
  const far = (id: string, atMs: number, isLate: boolean): Goal => ({ id, name: `job${id}`, atMs, isLate });
  const near = far("4", 500_000, true);
  const goals = [far("1", 900_000, false), far("2", 700_000, false), far("3", 3_600_000, true), near];
  const found = beyond(goals, x, 0);
  assert.deepEqual(
    found.map(({ text }) => text),
    ["late: goal job3 in 1 h", "goal job2 in 11 min 40 s", "goal job1 in 15 min"],
  );
  const red = found.map(({ text, isLate }) => withClass(Entry({ name: text, isLate }), "late").length);
  assert.deepEqual(red, [1, 0, 0]);
});
