import assert from "node:assert/strict";
import { test } from "node:test";
import { tasksOf } from "../src/state/hypothetical";

const job = { maps: "200", map_s: "500 ms", reduces: "4", reduce_s: "1 s", goal_s: "10 min" };

test("a hypothetical job becomes the request that the book describes", () => {
  assert.deepEqual(tasksOf(job), { maps: 200, map_s: 0.5, reduces: 4, reduce_s: 1, goal_s: 600 });
});

// Regression: the number and the time of reduces, which `ebb what-if` does not require, were refused if empty.
test("reduces and the goal may be left out", () => {
  assert.deepEqual(tasksOf({ ...job, reduces: "", reduce_s: " ", goal_s: "" }), { maps: 200, map_s: 0.5 });
});

test("a field that is missing or wrong is named", () => {
  assert.equal(tasksOf({ ...job, maps: "" }), "Map tasks: write a whole number");
  assert.equal(tasksOf({ ...job, reduces: "1.5" }), "Reduce tasks: write a whole number");
  assert.equal(tasksOf({ ...job, map_s: "" }), "A map task takes: write a time such as 10 s");
  assert.equal(tasksOf({ ...job, goal_s: "soon" }), "Done within: write a time such as 10 s");
  assert.equal(tasksOf({ ...job, goal_s: "90" }), "Done within: 90 has no unit: for seconds, write 90s");
});
