import assert from "node:assert/strict";
import { test } from "node:test";
import type { Load, Sample } from "../src/api/types";
import { coarsened, grown, guarded, joined } from "../src/state/series";

function sample(at: number): Sample {
  return {
    at_unix_ms: at,
    load_cores: 1,
    others_cores: 0,
    analytics_cores: 0,
    capacity_cores: 1,
    requests_per_s: 1,
    p50_us: 1,
    p99_us: 1,
    p999_us: 1,
    bound_us: null,
  };
}

function load(times: number[]): Load {
  const samples = times.map(sample);
  return { now_unix_ms: 0, cores: 2, objective: null, samples, guard: [], shares: [] };
}

test("shares that came beside the samples are put into the nearest one", () => {
  const asked = load([1000, 2000, 3000]);
  asked.shares = [{ job_id: "7", name: "sort", points: [[1000, 0.5], [2400, 0.25], [9000, 0.1]] }];
  const shares = joined(asked).samples.map((one) => one.shares);
  assert.deepEqual(shares, [{ "7": 0.5 }, { "7": 0.25 }, { "7": 0.1 }]);
});

test("a newer sample is added, an old one goes, and a known one changes nothing", () => {
  const before = load([1000, 2000, 3000]);
  assert.equal(grown(before, sample(3000), 2000), before);
  const after = grown(before, sample(4000), 2000);
  assert.deepEqual(after.samples.map((one) => one.at_unix_ms), [2000, 3000, 4000]);
  assert.equal(after.now_unix_ms, 4000);
});

// Regression: a page that showed a day kept each second of it, and the shares of all jobs in it.
test("a long time span has samples of ten seconds, and the latest seconds", () => {
  const hour = 3_600_000;
  const seconds = (keepMs: number) => {
    let grows = load([]);
    for (let s = 1; s <= 7200; s += 1) {
      grows = grown(grows, { ...sample(1000 * s), load_cores: s, shares: { "7": s } }, keepMs);
    }
    return grows.samples;
  };
  const all = seconds(hour);
  assert.equal(all.length, 3601);
  const coarse = seconds(6 * hour);
  // From 7,190 s on, because the samples of these ten seconds and the next are not all there.
  const fine = coarse.filter((one) => one.at_unix_ms >= 7_190_000);
  assert.deepEqual(fine, all.slice(-11));
  assert.equal(coarse.length, 719 + fine.length);
  const one = coarse[100]!;
  assert.deepEqual([one.at_unix_ms, one.load_cores, one.shares], [1_009_000, 1004.5, { "7": 1004.5 }]);
  // The samples of the server are left as they are.
  const given = load([10_005, 20_005, 30_005]).samples;
  const after = grown({ ...load([]), samples: given }, sample(60_000), 6 * hour);
  assert.deepEqual(after.samples.slice(0, 3), given);
});

// Regression: seconds that came while the page was open became the highest of ten quantiles, so the latency seemed to
// rise when the page was opened.
test("the server's sample of ten seconds takes the place of its seconds in a long time span", () => {
  const hour = 3_600_000;
  let grows = load([5_003, 15_004]);
  for (let s = 16; s <= 25; s += 1) grows = grown(grows, { ...sample(1000 * s + 5), p99_us: s }, 6 * hour);
  const coarse = { ...sample(25_005), p99_us: 17.5 };
  const after = coarsened(grows, coarse, 6 * hour);
  assert.deepEqual(after.samples.map((one) => [one.at_unix_ms, one.p99_us]), [[5_003, 1], [15_004, 1], [25_005, 17.5]]);
  // The second of the same time comes after it.
  assert.equal(grown(after, sample(25_005), 6 * hour), after);
  assert.equal(grown(after, sample(26_006), 6 * hour).samples.length, 4);
  assert.equal(coarsened(grows, coarse, hour), grows, "an hour is shown by the second");
});

test("a job that ended uses nothing from the next sample on", () => {
  const asked = joined({ ...load([1000]), shares: [{ job_id: "7", name: "sort", points: [[1000, 0.5]] }] });
  const working = grown(asked, { ...sample(2000), shares: { "7": 0.25 } }, 9000);
  const after = grown(working, { ...sample(3000), shares: {} }, 9000);
  assert.deepEqual(after.samples.map((one) => one.shares), [{ "7": 0.5 }, { "7": 0.25 }, {}]);
});

test("an action that is known already is not added", () => {
  const action = { at_unix_ms: 5, action: "ease", allowed_ratio: 0.5, slack_ratio: null };
  const once = guarded(load([]), action);
  assert.equal(guarded(once, action), once);
});
