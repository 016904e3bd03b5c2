import assert from "node:assert/strict";
import { test } from "node:test";
import type { GuardAction, Load } from "../src/api/types";
import { Guard, decisionAt } from "../src/chart/guard";
import { linear } from "../src/chart/scale";
import { guarded } from "../src/state/series";
import { textOf, withClass } from "./vnodes";

const action = (s: number, allowed_ratio = 0.5, name = "grow"): GuardAction => ({
  at_unix_ms: 1000 * s,
  action: name,
  allowed_ratio,
  slack_ratio: null,
});

function load(guard: GuardAction[], cutMs: number | null): Load {
  return { now_unix_ms: 0, cores: 2, objective: null, samples: [], guard, guard_cut_unix_ms: cutMs, shares: [] };
}

const drawn = (cutMs: number | null, actions = [action(50)]) => {
  const x = linear([0, 100_000], [0, 600]);
  return Guard({ actions, cutMs, x, height: 40, nowMs: 90_000, cursorMs: null });
};

// Regression: a time whose decisions were dropped looked like one in which the guard was not at work.
test("the time whose decisions are not kept is marked, and said", () => {
  const [cut] = withClass(drawn(50_000), "cut");
  assert.match(textOf(cut), /older decisions are not kept/);
  assert.equal(withClass(drawn(null), "cut").length, 0);
  assert.equal(withClass(drawn(-1), "cut").length, 0, "before the picture");
  const known = load([action(50)], 50_000);
  assert.equal(decisionAt(known, 40_000).words, "not kept");
  assert.equal(decisionAt(known, 40_000).clause, "decisions of the guard are not kept");
  assert.equal(decisionAt(known, 60_000).clause, "guard gives more, allows 50%");
  assert.equal(decisionAt(load([], null), 40_000).words, "not at work");
  assert.equal(decisionAt(load([], null), 40_000).clause, null);
});

// Regression: ten decisions to give more showed what the first of them allowed.
test("a repeated action that allows more is a step", () => {
  const [edge] = withClass(drawn(null, [action(10, 0.1), action(20, 0.4), action(30, 1)]), "allowed");
  const heights = [...String(edge!.props.d).matchAll(/[ML][\d.]+ ([\d.]+)/g)].map(([, y]) => Number(y));
  assert.deepEqual([...new Set(heights)], [46, 34, 10]);
});

test("a page that drops old decisions itself marks that", () => {
  let grows = load([], null);
  for (let s = 1; s <= 4096; s += 1) grows = guarded(grows, action(s));
  assert.equal(grows.guard_cut_unix_ms, null);
  grows = guarded(grows, action(4097));
  assert.deepEqual([grows.guard.length, grows.guard_cut_unix_ms], [4096, 2000]);
});
