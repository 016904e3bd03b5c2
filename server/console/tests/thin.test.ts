import assert from "node:assert/strict";
import { test } from "node:test";
import type { Sample } from "../src/api/types";
import { bucketMs, thin } from "../src/chart/thin";

function sample(s: number, load: number, p99: number | null, shares = {}): Sample {
  return {
    at_unix_ms: s * 1000,
    load_cores: load,
    others_cores: 0,
    analytics_cores: 0,
    capacity_cores: 2,
    requests_per_s: load,
    p50_us: null,
    p99_us: p99,
    p999_us: null,
    bound_us: s,
    shares,
  };
}

test("a bucket has the mean of cores and the highest of latencies", () => {
  const samples = [sample(10, 1, 5, { a: 1 }), sample(11, 3, 50, {}), sample(12, 7, null)];
  const thinned = thin(samples, 2000, { quantile: "p99", bound_us: null, ratio: 1.1 });
  assert.equal(thinned.length, 2);
  assert.deepEqual(
    [thinned[0]!.at_unix_ms, thinned[0]!.load_cores, thinned[0]!.p99_us, thinned[0]!.shares],
    [11_000, 2, 50, { a: 0.5 }],
  );
  assert.deepEqual([thinned[0]!.p50_us, thinned[0]!.bound_us], [null, 11]);
});

test("a bucket is above its bound if one of its samples is above its own", () => {
  const objective = { quantile: "p99", bound_us: null, ratio: 1.1 };
  const one = (pairs: [number, number][]) => {
    const samples = pairs.map(([p99, bound], i) => ({ ...sample(10 + i, 1, p99), bound_us: bound }));
    const { p99_us, bound_us } = thin(samples, 10_000, objective)[0]!;
    return [p99_us, bound_us];
  };
  assert.deepEqual(one([[500, 600], [450, 400]]), [500, 400]);
  assert.deepEqual(one([[500, 600], [300, 320]]), [500, 600]);
});

test("the past looks the same when a sample is added", () => {
  const samples = Array.from({ length: 40 }, (_, i) => sample(i, i, i));
  const before = thin(samples.slice(0, 31), 5000);
  const after = thin(samples, 5000);
  assert.deepEqual(after.slice(0, 6), before.slice(0, 6));
});

test("a day fits into a picture", () => {
  assert.equal(bucketMs(86_400_000, 600), 300_000);
  assert.equal(bucketMs(300_000, 600), 1000);
});
