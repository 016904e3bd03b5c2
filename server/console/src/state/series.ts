// The measured load as it grows: what was asked for, and what came since.

import type { GuardAction, Load, Sample } from "../api/types";
import { thin } from "../chart/thin";

/** The longest time span of which the server has a sample each second; of a longer one it has a sample each ten. */
export const FINE_MS = 3_600_000;
/** The length of a sample of a longer time span. */
export const COARSE_MS = 10_000;
/** Guard actions that are kept, at most: as many as the server keeps. */
const ACTIONS_MAX = 4096;
/** By how much a clock may be set during a coarse sample, in milliseconds, without a second that counts twice. */
const CLOCK_MS = 500;

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
 * span, samples for which the server sent no coarse one become coarse after some seconds, or a page that is open for a
 * day would have each second of it.
 */
export function grown(load: Load, sample: Sample, keepMs: number): Load {
  const last = load.samples.at(-1);
  if (last !== undefined && sample.at_unix_ms <= last.at_unix_ms) return load;
  const from = sample.at_unix_ms - keepMs;
  const kept = load.samples.filter((old) => old.at_unix_ms >= from);
  kept.push(sample);
  const shown = keepMs > FINE_MS ? coarse(kept, load.objective) : kept;
  return { ...load, now_unix_ms: sample.at_unix_ms, samples: shown };
}

/**
 * The load with a coarse sample of the server in place of its seconds, if the time span is a long one. Its quantiles
 * are those of all requests in ten seconds, which do not follow from those of each second.
 */
export function coarsened(load: Load, sample: Sample, keepMs: number): Load {
  if (keepMs <= FINE_MS) return load;
  const from = sample.at_unix_ms - COARSE_MS + CLOCK_MS;
  const older = load.samples.filter(({ at_unix_ms }) => at_unix_ms < from);
  const newer = load.samples.filter(({ at_unix_ms }) => at_unix_ms > sample.at_unix_ms);
  return { ...load, samples: [...older, sample, ...newer] };
}

/** Makes samples of ten seconds, except of the latest seconds: of these more may come. */
function coarse(samples: readonly Sample[], objective: Load["objective"]): Sample[] {
  const lastMs = samples.at(-1)!.at_unix_ms;
  const freshMs = Math.floor((lastMs - COARSE_MS) / COARSE_MS) * COARSE_MS;
  const fresh = samples.findIndex((sample) => sample.at_unix_ms >= freshMs);
  return [...thin(samples.slice(0, fresh), COARSE_MS, objective), ...samples.slice(fresh)];
}

/** The load with one more action of the guard; the oldest of too many go. An old or known one changes nothing. */
export function guarded(load: Load, action: GuardAction): Load {
  const last = load.guard.at(-1);
  if (last !== undefined && action.at_unix_ms <= last.at_unix_ms) return load;
  const guard = [...load.guard, action];
  if (guard.length <= ACTIONS_MAX) return { ...load, guard };
  const kept = guard.slice(-ACTIONS_MAX);
  return { ...load, guard: kept, guard_cut_unix_ms: kept[0]!.at_unix_ms };
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
