// Whether the online load meets its latency objective.

import type { Load, Objective, Sample } from "../api/types";

/**
 * The latest samples, over this many milliseconds, whose median is compared: a single bad one is in the picture. If
 * samples are of ten seconds it is one, and its quantiles are those of all requests in that time.
 */
const WINDOW_MS = 10_000;

export interface Safety {
  /** The objective's quantile of the latencies, in microseconds. Without an objective it is the p99. */
  us: number;
  /** `none` without an objective, and if it is a ratio of the latency without jobs and that is unknown. */
  verdict: "good" | "bad" | "none";
}

/** Returns the latency of the load and whether it is within the objective; `null` without requests. */
export function safety({ objective, samples }: Load): Safety | null {
  const last = samples.at(-1);
  if (last === undefined) return null;
  const of = quantileOf(objective?.quantile ?? "p99");
  const before = samples.findLastIndex((sample) => sample.at_unix_ms <= last.at_unix_ms - WINDOW_MS);
  const latencies = samples.slice(before + 1).map((sample) => of(sample) ?? 0);
  // A second without requests has no latency. An older server writes 0.
  const sorted = latencies.filter((us) => us > 0).sort((a, b) => a - b);
  const us = sorted[sorted.length >> 1];
  if (us === undefined) return null;
  // A report of an older server has no bound, which is `undefined` here.
  return { us, verdict: last.bound_us == null ? "none" : us > last.bound_us ? "bad" : "good" };
}

/** Returns (bound - latency) / bound of a sample; `null` without requests, and without a known bound. */
export function slackOf(objective: Objective | null, sample: Sample): number | null {
  const us = quantileOf(objective?.quantile ?? "p99")(sample);
  if (us === null || us <= 0 || sample.bound_us == null) return null;
  return (sample.bound_us - us) / sample.bound_us;
}

/** Returns the function that reads a quantile of an objective, such as `p99.9`, from a sample. */
export function quantileOf(quantile: string): (sample: Sample) => number | null {
  if (quantile === "p50") return (sample) => sample.p50_us;
  return quantile === "p99.9" ? (sample) => sample.p999_us : (sample) => sample.p99_us;
}
