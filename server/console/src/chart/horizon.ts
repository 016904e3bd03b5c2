// How much of the future the pictures show.

import { frozen } from "../api/frozen";

/** What ends in the future: a job's predicted finish, and its goal. */
export interface Ahead {
  finishMs: number | null;
  goalMs: number | null;
}

/**
 * The future is at least this part of the past that is shown, and at most this, so that the past has a third
 * of the width. A file is about the past.
 */
const LEAST = frozen === null ? 0.5 : 0.05;
const MOST = 2;
/** Room right of the last mark. */
const MARGIN = 1.12;

/**
 * How far ahead of now to look, in milliseconds: so that finishes and goals are in sight,
 * as far as that leaves the past some room. In steps of a quarter of the past, so that the axis
 * stands still while time goes on.
 */
export function horizonMs(pastMs: number, nowMs: number, ahead: readonly Ahead[]): number {
  const marks = ahead.flatMap((one) => [one.finishMs, one.goalMs]).filter((at) => at !== null);
  const most = marks.reduce((most, at) => Math.max(most, lengthFor(at - nowMs, pastMs)), 0);
  const quarter = pastMs / 4;
  return Math.min(Math.max(Math.ceil(most / quarter) * quarter, LEAST * pastMs), MOST * pastMs);
}

/**
 * Returns how much of the future to show for a mark that is so far ahead. For a mark out of reach this gets less
 * with its distance: the mark is not in sight, and the past needs the room. Without this slope, the axis would
 * jump when the mark comes into reach, and jump back when its prediction changes.
 */
function lengthFor(aheadMs: number, pastMs: number): number {
  return Math.min(aheadMs * MARGIN, 2 * MOST * pastMs - aheadMs);
}
