import assert from "node:assert/strict";
import { test } from "node:test";
import { linear, logarithmic, powers, ticks, timeTicks } from "../src/chart/scale";

test("a scale and its inverse undo each other", () => {
  for (const scale of [linear([0, 5000], [200, 0]), logarithmic([10, 1e6], [200, 0])]) {
    for (const value of [11, 350, 3999]) {
      assert.ok(Math.abs(scale.invert(scale(value)) - value) < 1e-6);
    }
  }
});

test("what is too small for a logarithm is at the lower end", () => {
  assert.equal(logarithmic([10, 1000], [100, 0])(0), 100);
});

test("a scale of one value does not divide by nothing", () => {
  assert.equal(linear([2, 2], [0, 100])(2), 0);
});

test("ticks are round and inside", () => {
  assert.deepEqual(ticks(0, 2, 4), [0, 0.5, 1, 1.5, 2]);
  assert.deepEqual(ticks(0, 96, 4), [0, 50]);
  assert.deepEqual(ticks(0, 0.3, 3), [0, 0.1, 0.2, 0.3]);
});

test("powers of ten include the ends", () => {
  assert.deepEqual(powers(100, 1e5), [100, 1000, 10_000, 100_000]);
});

test("times are at round minutes of the local day", () => {
  const from = new Date(2026, 10, 24, 16, 58, 7).getTime();
  const { at, stepS } = timeTicks(from, from + 900_000, 6);
  assert.equal(stepS, 300);
  assert.deepEqual(
    at.map((t) => new Date(t).toTimeString().slice(0, 8)),
    ["17:00:00", "17:05:00", "17:10:00"],
  );
});
