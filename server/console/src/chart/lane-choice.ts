// The jobs that have lanes in the picture.

import { type Job, outlook } from "../state/job";

/** The most lanes of jobs; the list has the others. */
export const LANES_MAX = 8;

/**
 * Returns the jobs that have lanes, in the order of `unended`, which has the newest job first. If there are too many,
 * late jobs come before others with a goal, and these before jobs without one; of equal jobs the newest come first.
 */
export function inLanes(unended: readonly Job[], nowMs: number): Job[] {
  const ranks = unended.map((job, place) => ({ place, rank: rankOf(job, nowMs) }));
  ranks.sort((a, b) => a.rank - b.rank || a.place - b.place);
  const chosen = new Set(ranks.slice(0, LANES_MAX).map(({ place }) => place));
  return unended.filter((_, place) => chosen.has(place));
}

function rankOf(job: Job, nowMs: number): number {
  switch (outlook(job, nowMs)) {
    case "late":
      return 0;
    case "none":
      return 2;
    default:
      return 1;
  }
}
