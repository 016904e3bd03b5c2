// Fewer samples than pixels: those of each bucket of time as one.

import type { Objective, Sample } from "../api/types";
import { quantileOf } from "../state/safety";
import { boundOf, isOver } from "./bound";

const BUCKETS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600];

/** The length of a bucket, in milliseconds, so that `spanMs` has `most` of them or fewer. */
export function bucketMs(spanMs: number, most: number): number {
  const least = spanMs / 1000 / most;
  return (BUCKETS_S.find((size) => size >= least) ?? BUCKETS_S.at(-1)!) * 1000;
}

/**
 * One sample for each bucket that has any: the mean of cores and rates, the highest of
 * latencies, at the time of the last. Buckets lie at multiples of their length, so that the
 * picture of what is past does not change as time goes on. The latency of a bucket is above its
 * bound if that of one of its samples is above its own.
 */
export function thin(samples: readonly Sample[], bucket: number, objective: Objective | null = null): Sample[] {
  const thinned: Sample[] = [];
  let from = 0;
  while (from < samples.length) {
    const number = Math.floor(samples[from]!.at_unix_ms / bucket);
    let to = from + 1;
    while (to < samples.length && Math.floor(samples[to]!.at_unix_ms / bucket) === number) to += 1;
    thinned.push(to - from === 1 ? samples[from]! : together(samples.slice(from, to), objective));
    from = to;
  }
  return thinned;
}

/** Returns the bound of the highest latency: of those above their bounds, or else of all. */
function boundTogether(samples: readonly Sample[], objective: Objective | null): number | null {
  const of = quantileOf(objective?.quantile ?? "p99");
  const over = samples.filter((sample) => isOver(objective, sample));
  const among = over.length > 0 ? over : samples;
  const highest = among.reduce((most, sample) => ((of(sample) ?? 0) >= (of(most) ?? 0) ? sample : most));
  return boundOf(objective, highest);
}

function together(samples: readonly Sample[], objective: Objective | null): Sample {
  const mean = (of: (sample: Sample) => number) =>
    samples.reduce((sum, sample) => sum + of(sample), 0) / samples.length;
  const highest = (of: (sample: Sample) => number | null) =>
    samples.reduce<number | null>((most, sample) => {
      const value = of(sample);
      return value === null ? most : Math.max(most ?? value, value);
    }, null);
  const shares: Record<string, number> = {};
  for (const sample of samples) {
    for (const [id, cores] of Object.entries(sample.shares ?? {})) {
      shares[id] = (shares[id] ?? 0) + cores / samples.length;
    }
  }
  return {
    at_unix_ms: samples.at(-1)!.at_unix_ms,
    load_cores: mean((s) => s.load_cores),
    others_cores: mean((s) => s.others_cores),
    analytics_cores: mean((s) => s.analytics_cores),
    capacity_cores: mean((s) => s.capacity_cores),
    requests_per_s: mean((s) => s.requests_per_s),
    p50_us: highest((s) => s.p50_us),
    p99_us: highest((s) => s.p99_us),
    p999_us: highest((s) => s.p999_us),
    bound_us: boundTogether(samples, objective),
    shares,
  };
}
