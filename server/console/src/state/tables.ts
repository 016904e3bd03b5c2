// The tables that the page shows: of those with a text in their names the damaged ones first, then the largest.

import { get } from "../api/request";
import type { TableDetail, TableSummary } from "../api/types";
import { type Get, allPages, ifPresent } from "./pages";

/** The number of tables that are shown at first, and with each wish for more. */
export const TABLES_STEP = 12;

/** Which tables to show. */
export interface TableChoice {
  /** A part of their names, in any case; empty: all tables. */
  text: string;
  count: number;
}

export interface TableList {
  /** All tables, in the order in which they are shown. */
  all: TableSummary[];
  /** The tables that were asked for in detail. */
  shown: TableDetail[];
  /** The tables with the text in their names that are not shown. */
  others: TableSummary[];
  /** The text for which this list was made. */
  text: string;
  /** By the name of each table that is shown: the state of which its detail is. */
  states: Map<string, string>;
}

/** Returns the name of a table with its keyspace. */
export function nameOf({ keyspace, table }: TableSummary): string {
  return `${keyspace}.${table}`;
}

/** Returns the tables with damaged files first, then the largest. */
export function ordered(all: readonly TableSummary[]): TableSummary[] {
  const size = (table: TableSummary) => table.file_bytes + table.memtable_bytes;
  const isDamaged = (table: TableSummary) => Number(table.damaged_files > 0);
  return [...all].sort((a, b) => isDamaged(b) - isDamaged(a) || size(b) - size(a));
}

/** Returns how many tables have damaged files. */
export function damagedCount(all: readonly TableSummary[]): number {
  return all.filter((table) => table.damaged_files > 0).length;
}

/** Returns what snapshots keep of all tables together, in bytes. */
export function keptBytes(all: readonly TableSummary[]): number {
  return all.reduce((sum, table) => sum + table.pinned_bytes, 0);
}

/**
 * Requests the list, and the details of the tables that are shown. The detail of a table is taken from the list before
 * if its files and bookmarks are as many and as large as then. `snapshots` is a text that changes with the
 * snapshots that there are, because details name them.
 */
export async function refreshedTables(
  before: TableList | null,
  { text, count }: TableChoice,
  snapshots: string,
  request: Get = get,
): Promise<TableList> {
  const all = ordered(await allPages<TableSummary>("/v1/tables", "tables", request));
  const named = all.filter((table) => nameOf(table).toLowerCase().includes(text.toLowerCase()));
  const known = new Map((before?.shown ?? []).map((detail) => [nameOf(detail.summary), detail]));
  const states = new Map<string, string>();
  const detailOf = async (summary: TableSummary): Promise<TableDetail[]> => {
    const name = nameOf(summary);
    const { file_bytes, files, runs, bookmarks, damaged_files } = summary;
    const state = JSON.stringify([file_bytes, files, runs, bookmarks, damaged_files, snapshots]);
    states.set(name, state);
    const detail = known.get(name);
    // A merge makes progress that the summary does not have.
    if (detail !== undefined && before?.states.get(name) === state && summary.merges === 0) {
      return [{ ...detail, summary }];
    }
    // A table may have been dropped since it was listed.
    return ifPresent<TableDetail>(pathOf(summary), request);
  };
  const shown = await Promise.all(named.slice(0, count).map(detailOf));
  return { all, shown: shown.flat(), others: named.slice(count), text, states };
}

function pathOf({ keyspace, table }: TableSummary): string {
  return `/v1/tables/${encodeURIComponent(keyspace)}/${encodeURIComponent(table)}`;
}
