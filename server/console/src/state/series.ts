// The measured load as it grows: what was asked for, and what came since.

import type { GuardAction, Load, Sample } from "../api/types";
import { thin } from "../chart/thin";

/** The longest time span of which the server has a sample each second; of a longer one it has a sample each ten. */
export const FINE_MS = 3_600_000;
/** The length of a sample of a longer time span. */
export const COARSE_MS = 10_000;
/** Guard actions that are kept, at most. */
const ACTIONS_MAX = 2000;

/** A load whose samples carry the shares of jobs, whether they came in them or beside them. */
export function joined(load: Load): Load {
  if (load.samples.some((sample) => sample.shares !== undefined)) return load;
  const samples = load.samples.map((sample) => ({ ...sample, shares: {} as Record<string, number> }));
  const places = new Map(samples.map((sample, place) => [sample.at_unix_ms, place]));
  for (const share of load.shares ?? []) {
    for (const [at, cores] of share.points) {
      const place = places.get(at) ?? nearest(samples, at);
      if (place !== null) samples[place]!.shares[share.job_id] = cores;
    }
  }
  return { ...load, samples };
}

/**
 * The load with a newer sample; what is older than `keepMs` goes. An old or known one changes nothing. In a long time
 * span, samples become coarse after some seconds, or a page that is open for a day would have each second of it.
 */
export function grown(load: Load, sample: Sample, keepMs: number): Load {
  const last = load.samples.at(-1);
  if (last !== undefined && sample.at_unix_ms <= last.at_unix_ms) return load;
  const from = sample.at_unix_ms - keepMs;
  const kept = load.samples.filter((old) => old.at_unix_ms >= from);
  kept.push(sample);
  return { ...load, now_unix_ms: sample.at_unix_ms, samples: keepMs > FINE_MS ? coarse(kept) : kept };
}

/** Makes samples of ten seconds, except of the latest seconds: of these more may come. */
function coarse(samples: readonly Sample[]): Sample[] {
  const lastMs = samples.at(-1)!.at_unix_ms;
  const freshMs = Math.floor((lastMs - COARSE_MS) / COARSE_MS) * COARSE_MS;
  const fresh = samples.findIndex((sample) => sample.at_unix_ms >= freshMs);
  return [...thin(samples.slice(0, fresh), COARSE_MS), ...samples.slice(fresh)];
}

/** The load with one more action of the guard. An old or known one changes nothing. */
export function guarded(load: Load, action: GuardAction): Load {
  const last = load.guard.at(-1);
  if (last !== undefined && action.at_unix_ms <= last.at_unix_ms) return load;
  return { ...load, guard: [...load.guard, action].slice(-ACTIONS_MAX) };
}

function nearest(samples: readonly Sample[], at: number): number | null {
  let low = 0;
  let high = samples.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (samples[middle]!.at_unix_ms < at) low = middle + 1;
    else high = middle;
  }
  const before = samples[low - 1];
  const after = samples[low];
  if (before === undefined) return after === undefined ? null : low;
  if (after === undefined || at - before.at_unix_ms <= after.at_unix_ms - at) return low - 1;
  return low;
}
