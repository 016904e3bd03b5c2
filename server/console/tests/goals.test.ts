import assert from "node:assert/strict";
import { test } from "node:test";
import { placed } from "../src/chart/goals";

const mark = (id: string, x: number, isLate = false) => ({ id, x, text: "goal sort", isLate });

test("labels that would lie over each other get rows of their own", () => {
  const marks = placed([mark("a", 200), mark("b", 210), mark("c", 220)], 0, 260, 3);
  assert.equal(new Set(marks.map((one) => `${one.row} ${one.side}`)).size, 3);
});

test("a label stays inside", () => {
  const marks = placed([mark("a", 5), mark("b", 395)], 0, 400, 1);
  assert.deepEqual(marks.map((one) => one.side), ["right", "left"]);
});

test("where there is no room for all, that of a late job stays", () => {
  const marks = placed([mark("a", 70), mark("late", 75, true)], 0, 80, 1);
  assert.deepEqual(marks.map((one) => [one.id, one.row]), [["a", null], ["late", 0]]);
});
