import assert from "node:assert/strict";
import { test } from "node:test";
import type { WhatIf } from "../src/api/types";
import { Lanes } from "../src/chart/lanes";
import { linear } from "../src/chart/scale";
import { hypothesisOf } from "../src/state/panels";
import { withClass } from "./vnodes";

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
