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
  assert.equal(line([[0, 1], [1, Number.NaN], [2, 3.26]]), "M0 1M2 3.3");
  const bands = [
    { x: 0, low: 0, high: 1 },
    { x: 1, low: 0, high: 2 },
    { x: 2, low: Number.NaN, high: Number.NaN },
    { x: 3, low: 0, high: 1 },
  ];
  assert.equal(area(bands), "M0 1L1 2L1 0L0 0ZM3 1L3 0Z");
});

test("steps hold a height until the next point", () => {
  assert.equal(steps([[0, 5], [10, 2]]), "M0 5L10 5L10 2");
});
