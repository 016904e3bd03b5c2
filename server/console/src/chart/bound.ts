// The bound of the objective over time, and where a quantile is above it.

import type { Objective, Sample } from "../api/types";
import { quantileOf } from "../state/safety";

/** Heights at a place, in pixels from the top; a height that is no number makes a gap. */
export interface Pair {
  x: number;
  /** The quantile. */
  y: number;
  /** The bound at that time. */
  bound: number;
}

/** Returns the bound of a sample's own second, in microseconds; `null` without one, and while it is unknown. */
export function boundOf(objective: Objective | null, sample: Sample): number | null {
  // A report of an older server has no bound in its samples.
  return objective === null ? null : (sample.bound_us ?? objective.bound_us);
}

/** Returns whether the quantile of the objective is above the bound of the sample's own second. */
export function isOver(objective: Objective | null, sample: Sample): boolean {
  const bound = boundOf(objective, sample);
  const us = quantileOf(objective?.quantile ?? "p99")(sample);
  return bound !== null && us !== null && us > bound;
}

/**
 * Returns the parts of the line through the quantiles that are above the bound. Between two points the bound
 * counts as straight, so a part ends where the two lines cross.
 */
export function partsOver(pairs: readonly Pair[]): [number, number][] {
  const parts: [number, number][] = [];
  const end = () => {
    const last = parts.at(-1);
    if (last !== undefined && Number.isFinite(last[1])) parts.push([last[0], Number.NaN]);
  };
  let before: Pair | null = null;
  for (const pair of pairs) {
    // The height of a quantile above the bound, in pixels: y grows downwards.
    const excess = pair.bound - pair.y;
    if (!Number.isFinite(excess)) {
      end();
      before = null;
      continue;
    }
    const crossing = before === null ? null : crossingOf(before, pair);
    if (excess > 0) {
      if (crossing !== null) parts.push(crossing);
      parts.push([pair.x, pair.y]);
    } else {
      if (crossing !== null) parts.push(crossing);
      end();
    }
    before = pair;
  }
  return parts;
}

/** Returns the place between two points in which the quantile crosses the bound; `null` if it does not. */
function crossingOf(a: Pair, b: Pair): [number, number] | null {
  const [from, to] = [a.bound - a.y, b.bound - b.y];
  if (from > 0 === to > 0) return null;
  const part = from / (from - to);
  return [a.x + part * (b.x - a.x), a.y + part * (b.y - a.y)];
}
