import assert from "node:assert/strict";
import { test } from "node:test";
import { area, line, steps } from "../src/chart/path";
import { stack } from "../src/chart/stack";

test("each job lies on those before it", () => {
  const layers = stack([{ a: 1, b: 0.5 }, { b: 0.25 }], ["a", "b", "never"]);
  assert.deepEqual(layers, [
    { id: "a", low: [0, 0], high: [1, 0] },
    { id: "b", low: [1, 0], high: [1.5, 0.25] },
  ]);
});

test("a gap parts a line and an area", () => {
  assert.equal(line([[0, 1], [1, 2], [2, Number.NaN], [3, 3.26], [4, 1]]), "M0 1L1 2M3 3.3L4 1");
  const bands = [
    { x: 0, low: 0, high: 1 },
    { x: 1, low: 0, high: 2 },
    { x: 2, low: Number.NaN, high: Number.NaN },
    { x: 3, low: 0, high: 1 },
  ];
  assert.equal(area(bands), "M0 1L1 2L1 0L0 0ZM2 1L4 1L4 0L2 0Z");
});

// Regression: a point between two gaps was invisible, as are all latencies of a load with a request now and then.
test("a point between two gaps is drawn", () => {
  const none = Number.NaN;
  assert.equal(line([[1, 7], [2, none], [5, 8], [6, 9], [7, none], [9, 3]]), "M0 7L2 7M5 8L6 9M8 3L10 3");
  assert.equal(line([[1, none]]), "");
});

test("steps hold a height until the next point", () => {
  assert.equal(steps([[0, 5], [10, 2]]), "M0 5L10 5L10 2");
});
