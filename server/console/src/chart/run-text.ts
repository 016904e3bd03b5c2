// A run and a run list in words, and how the keyboard goes from run to run.

import type { Run, TableDetail } from "../api/types";
import { bytes, counted, percent, short } from "../text/number";

type Runs = Pick<TableDetail, "runs" | "bookmarks" | "merges">;

/** The number of snapshots that a run's text names. */
const NAMES_MAX = 5;
/** The number of runs whose sizes the text of a run list has. */
const SIZES_MAX = 8;

/**
 * Returns all that the drawing has of a run: its place, size, commits and stratum, its snapshots, merge and damage.
 * Places begin at 0, with the newest run.
 */
export function runText(table: Runs, place: number, strata = strataOf(table.runs)): string {
  const { runs, merges } = table;
  const run = runs[place]!;
  const merge = merges.find(({ inputs }) => inputs.includes(run.id));
  return [
    `run ${place + 1} of ${runs.length}${placeText(place, runs.length)}`,
    `${bytes(run.bytes)}, ${counted(run.files, "file")}, ${short(run.keys)} ${run.keys === 1 ? "key" : "keys"}`,
    `commits ${run.min_sequence} to ${run.max_sequence}`,
    `stratum ${strata.indexOf(run.stratum) + 1} of ${strata.length}`,
    seenText(table, run),
    ...(merge === undefined ? [] : [`in a merge of ${counted(merge.inputs.length, "run")}, ${percent(doneOf(merge))} done`]),
    ...(run.damaged_files > 0 ? [counted(run.damaged_files, "damaged file")] : []),
  ].join("; ");
}

/** Returns a run list in words, with the sizes of its newest runs. */
export function runListText(table: TableDetail): string {
  const { runs, bookmarks, merges } = table;
  const { keyspace, table: name, damaged_files } = table.summary;
  const names = bookmarks.map((bookmark) => bookmark.snapshot);
  const total = runs.reduce((sum, run) => sum + run.bytes, 0);
  const strata = strataOf(runs).length;
  const sizes = runs.slice(0, SIZES_MAX).map((run) => bytes(run.bytes));
  if (runs.length > SIZES_MAX) sizes.push(`${runs.length - SIZES_MAX} more`);
  return [
    `${keyspace}.${name}: ${counted(runs.length, "run")} of ${bytes(total)} in all`,
    ...(runs.length === 0 ? [] : [`in ${strata === 1 ? "1 stratum" : `${strata} strata`}, from the newest: ${sizes.join(", ")}`]),
    names.length === 0 ? "no snapshot" : `cut by ${names.join(", ")}`,
    merges.length === 0 ? "no merge under way" : `${counted(merges.length, "merge")} under way`,
    ...(damaged_files > 0 ? [counted(damaged_files, "damaged file")] : []),
  ].join("; ");
}

/** Returns the place to which a key leads from a place among `count`; `null` for other keys. */
export function placeAfter(key: string, place: number, count: number): number | null {
  switch (key) {
    case "ArrowLeft":
      return Math.max(0, place - 1);
    case "ArrowRight":
      return Math.min(count - 1, place + 1);
    case "Home":
      return 0;
    case "End":
      return count - 1;
    default:
      return null;
  }
}

/** Returns the strata of runs, the newest first. */
export function strataOf(runs: readonly Run[]): number[] {
  return [...new Set(runs.map((run) => run.stratum))];
}

/** The part of a merge that is done, from 0 to 1. */
export function doneOf({ read_versions, all_versions }: TableDetail["merges"][number]): number {
  return all_versions === 0 ? 0 : Math.min(1, read_versions / all_versions);
}

function placeText(place: number, count: number): string {
  if (count === 1) return "";
  if (place === 0) return ", the newest";
  return place === count - 1 ? ", the oldest" : "";
}

/** A snapshot sees a run if it has a commit at or below the snapshot's sequence number. */
function seenText({ bookmarks }: Runs, run: Run): string {
  const names = bookmarks.filter(({ sequence }) => sequence >= run.min_sequence).map(({ snapshot }) => snapshot);
  if (names.length === 0) return "seen by no snapshot";
  if (names.length <= NAMES_MAX) return `seen by ${names.join(", ")}`;
  return `seen by ${names.slice(0, NAMES_MAX).join(", ")} and ${names.length - NAMES_MAX} more`;
}
