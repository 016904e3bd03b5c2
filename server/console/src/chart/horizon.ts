// How much of the future the pictures show.

import { frozen } from "../api/frozen";

/** What ends in the future: a job's predicted finish, and its goal. */
export interface Ahead {
  finishMs: number | null;
  goalMs: number | null;
}

/** The future is at least this part of the past that is shown, and at most this. A file is about the past. */
const LEAST = frozen === null ? 0.5 : 0.05;
const MOST = 1;
/** Room right of the last mark. */
const MARGIN = 1.12;

/**
 * How far ahead of now to look, in milliseconds: so that finishes and goals are in sight,
 * as far as that leaves the past some room. In steps of a quarter of the past, so that the axis
 * stands still while time goes on.
 */
export function horizonMs(pastMs: number, nowMs: number, ahead: readonly Ahead[]): number {
  const marks = ahead.flatMap((one) => [one.finishMs, one.goalMs]);
  const last = marks.reduce<number>((most, at) => Math.max(most, at === null ? 0 : at - nowMs), 0);
  const quarter = pastMs / 4;
  const wanted = Math.ceil((last * MARGIN) / quarter) * quarter;
  return Math.min(Math.max(wanted, LEAST * pastMs), MOST * pastMs);
}
