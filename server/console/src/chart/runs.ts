// A table's run list from left (newest) to right (oldest), and where bookmarks cut it.

import type { Run, TableDetail } from "../api/types";
import { doneOf } from "./run-text";

export interface Block {
  run: Run;
  x: number;
  width: number;
}

export interface Flag {
  x: number;
  /** The snapshots whose bookmarks are there. */
  names: string[];
  /** Whether a run reaches over it: it holds newer and older commits. */
  straddled: boolean;
}

export interface Bracket {
  x: number;
  width: number;
  /** From 0 to 1. */
  done: number;
  inputs: number;
}

export interface Strip {
  blocks: Block[];
  flags: Flag[];
  brackets: Bracket[];
}

const GAP = 2;
/** A block is at least so wide, where there is room, and can be pointed at. */
const WIDTH_MIN = 10;

/**
 * Places runs over `width` pixels. Blocks grow with the root of the bytes: runs differ by a
 * factor of thousands, and the small ones are the new ones.
 */
export function strip(table: Pick<TableDetail, "runs" | "bookmarks" | "merges">, width: number): Strip {
  const runs = table.runs;
  const gaps = GAP * Math.max(0, runs.length - 1);
  const least = Math.min(WIDTH_MIN, Math.max(1, (width - gaps) / Math.max(1, runs.length)));
  const free = Math.max(0, width - gaps - least * runs.length);
  const roots = runs.map((run) => Math.sqrt(run.bytes));
  const sum = roots.reduce((all, root) => all + root, 0);
  let x = 0;
  const blocks = runs.map((run, i) => {
    const block = { run, x, width: least + (sum === 0 ? 0 : (free * roots[i]!) / sum) };
    x += block.width + GAP;
    return block;
  });
  return { blocks, flags: flagsOf(table.bookmarks, blocks), brackets: bracketsOf(table.merges, blocks) };
}

/**
 * A bookmark is left of all that it shows: of the first run that has a commit at or below its
 * sequence number, or inside that run, where it reaches above.
 */
function flagsOf(bookmarks: TableDetail["bookmarks"], blocks: readonly Block[]): Flag[] {
  const flags: Flag[] = [];
  const newestFirst = [...bookmarks].sort((a, b) => b.sequence - a.sequence);
  for (const { snapshot, sequence } of newestFirst) {
    const first = blocks.find((block) => block.run.min_sequence <= sequence);
    const last = blocks.at(-1);
    let x = last === undefined ? 0 : last.x + last.width;
    let straddled = false;
    if (first !== undefined) {
      const { min_sequence: min, max_sequence: max } = first.run;
      straddled = max > sequence;
      x = straddled
        ? first.x + (first.width * (max - sequence)) / (max - min + 1)
        : Math.max(0, first.x - GAP / 2);
    }
    const same = flags.find((flag) => Math.abs(flag.x - x) < 1);
    if (same === undefined) flags.push({ x, names: [snapshot], straddled });
    else same.names.push(snapshot);
  }
  return flags;
}

function bracketsOf(merges: TableDetail["merges"], blocks: readonly Block[]): Bracket[] {
  return merges.flatMap((merge) => {
    const inputs = blocks.filter((block) => merge.inputs.includes(block.run.id));
    const first = inputs[0];
    const last = inputs.at(-1);
    if (first === undefined || last === undefined) return [];
    const width = last.x + last.width - first.x;
    return [{ x: first.x, width, done: doneOf(merge), inputs: inputs.length }];
  });
}
