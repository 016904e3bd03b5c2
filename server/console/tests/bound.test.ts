import assert from "node:assert/strict";
import { test } from "node:test";
import type { Objective, Sample } from "../src/api/types";
import { isOver, partsOver } from "../src/chart/bound";
import { Latency } from "../src/chart/latency";
import { linear } from "../src/chart/scale";
import { textOf, withClass } from "./vnodes";

function sample(s: number, p99: number, bound: number | null): Sample {
  return {
    at_unix_ms: 1000 * s,
    load_cores: 0,
    others_cores: 0,
    analytics_cores: 0,
    capacity_cores: 2,
    requests_per_s: 1,
    p50_us: p99 / 10,
    p99_us: p99,
    p999_us: 2 * p99,
    bound_us: bound,
  };
}

const ratio: Objective = { quantile: "p99", bound_us: null, ratio: 1.1 };
const fixed: Objective = { quantile: "p99", bound_us: 1000, ratio: null };

function drawn(objective: Objective | null, samples: Sample[]) {
  const x = linear([0, 10_000], [0, 100]);
  return Latency({ samples, objective, x, height: 100, nowMs: 5000, cursorMs: null, gapMs: 3500 });
}

const pathOf = (objective: Objective | null, samples: Sample[], name: string) =>
  withClass(drawn(objective, samples), name).map(({ props }) => String(props.d));

// Regression: with a ratio as objective, which is the default, no line was drawn, and nothing turned red.
test("the bound of a ratio is drawn as steps from the samples, until now", () => {
  const [objective] = pathOf(ratio, [sample(1, 10, null), sample(2, 100, 1000), sample(3, 100, 100), sample(4, 100, 100)], "objective");
  const [, high, , low] = objective!.match(/M20 ([\d.]+)L30 ([\d.]+)L30 ([\d.]+)/)!;
  assert.ok(Number(high) < Number(low), objective);
  assert.ok(objective!.endsWith(`L50 ${low}`), objective);
  assert.match(textOf(drawn(ratio, [sample(4, 100, 100)])), /objective 100 µs/);
  assert.deepEqual(pathOf(null, [sample(1, 100, null)], "objective"), []);
});

test("a fixed bound is drawn through all times", () => {
  const [objective] = pathOf(fixed, [], "objective");
  assert.match(objective!, /^M0 [\d.]+L100 [\d.]+$/);
});

test("a quantile is red where it is above the bound of its own second", () => {
  const red = (samples: Sample[]) => pathOf(ratio, samples, "broken")[0];
  assert.equal(red([sample(1, 500, 600), sample(2, 300, 400), sample(3, 100, null)]), "");
  const path = red([sample(1, 500, 600), sample(2, 500, 400), sample(3, 300, 400)])!;
  // From a crossing between the first two seconds to one between the last two.
  const places = [...path.matchAll(/[ML]([\d.]+) /g)].map(([, x]) => Number(x));
  assert.equal(places.length, 3);
  assert.ok(places[0]! > 10 && places[0]! < 20 && places[1] === 20 && places[2]! > 20 && places[2]! < 30, path);
});

test("the red parts end where the two lines cross, and at gaps", () => {
  const none = Number.NaN;
  // Heights grow downwards: a quantile is above its bound where it is smaller.
  assert.deepEqual(partsOver([{ x: 0, y: 9, bound: 5 }, { x: 10, y: 1, bound: 5 }, { x: 20, y: 1, bound: none }]), [
    [5, 5],
    [10, 1],
    [10, none],
  ]);
  assert.deepEqual(partsOver([{ x: 0, y: 1, bound: 5 }, { x: 10, y: 9, bound: 5 }]), [
    [0, 1],
    [5, 5],
    [5, none],
  ]);
  assert.deepEqual(partsOver([{ x: 0, y: 5, bound: 5 }, { x: 10, y: 6, bound: 5 }]), []);
});

test("a report without bounds in its samples has that of the objective", () => {
  const old = sample(1, 1001, null);
  Reflect.deleteProperty(old, "bound_us");
  assert.ok(isOver(fixed, old));
  assert.ok(!isOver(ratio, old));
});
