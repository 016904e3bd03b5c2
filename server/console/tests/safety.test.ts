import assert from "node:assert/strict";
import { test } from "node:test";
import type { Load, Objective, Sample } from "../src/api/types";
import { safety, slackOf } from "../src/state/safety";

/** Samples by the second whose p50, p99 and p99.9 are 1, 10 and 100 times a latency; 0 stands for no request. */
function load(objective: Objective | null, latencies: readonly number[]): Load {
  const samples = latencies.map(
    (us, i): Sample => ({
      at_unix_ms: 1000 * i,
      load_cores: 0,
      others_cores: 0,
      analytics_cores: 0,
      capacity_cores: 2,
      requests_per_s: us === 0 ? 0 : 1,
      p50_us: us,
      p99_us: 10 * us,
      p999_us: 100 * us,
      bound_us: objective?.bound_us ?? null,
    }),
  );
  return { now_unix_ms: 1000 * latencies.length, cores: 2, objective, samples, guard: [], shares: [] };
}

const bound = (quantile: string, bound_us: number): Objective => ({ quantile, bound_us, ratio: null });

// Regression: the bound of each quantile was compared with the p99.
test("the quantile of the objective is compared with its bound", () => {
  for (const [quantile, us] of [["p50", 50], ["p99", 500], ["p99.9", 5000]] as const) {
    assert.deepEqual(safety(load(bound(quantile, us + 1), [50])), { us, verdict: "good" });
    assert.deepEqual(safety(load(bound(quantile, us - 1), [50])), { us, verdict: "bad" });
  }
});

// Regression: a second without requests counted as one with a latency of 0.
test("seconds without requests have no latency", () => {
  assert.equal(safety(load(bound("p99", 400), [0, 0, 0])), null);
  const sparse = load(bound("p99", 400), [0, 0, 50, 0, 0, 50, 0, 0]);
  assert.deepEqual(safety(sparse), { us: 500, verdict: "bad" });
});

// Regression: a ratio was judged by the one tenth of a second in which the guard had last changed its action.
test("an objective that is a ratio is judged by the bound of the latest sample", () => {
  const objective: Objective = { quantile: "p99", bound_us: null, ratio: 1.1 };
  const verdict = (bound_us: number | null, latencies: readonly number[]) => {
    const of = load(objective, latencies);
    of.samples.forEach((sample, i) => (sample.bound_us = i === latencies.length - 1 ? bound_us : 1));
    return safety(of)?.verdict;
  };
  assert.deepEqual([501, 499, null].map((bound_us) => verdict(bound_us, [50])), ["good", "bad", "none"]);
  // A bad second among good ones.
  assert.equal(verdict(600, [50, 50, 90, 50]), "good");
  assert.equal(safety(load(null, [50]))?.verdict, "none");
  assert.equal(safety(load(null, [])), null);
});

// Regression: the ten latest samples of a day were a hundred seconds, which were called ten.
test("the median is that of ten seconds, of samples of any length", () => {
  const seconds = load(null, [...Array.from({ length: 20 }, () => 90), ...Array.from({ length: 10 }, () => 50)]);
  assert.equal(safety(seconds)?.us, 500);
  const coarse = load(null, [...Array.from({ length: 9 }, () => 90), 50]);
  coarse.samples.forEach((sample, i) => (sample.at_unix_ms = 10_000 * i));
  assert.equal(safety(coarse)?.us, 500);
});

test("the slack is that of the objective's quantile", () => {
  const slack = (objective: Objective | null, us: number) => slackOf(objective, load(objective, [us]).samples[0]!);
  assert.equal(slack(bound("p50", 100), 75), 0.25);
  assert.equal(slack(bound("p99", 100), 15), -0.5);
  assert.equal(slack(bound("p99", 100), 0), null);
  assert.equal(slack(null, 75), null);
});
