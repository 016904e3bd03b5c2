import assert from "node:assert/strict";
import { test } from "node:test";
import type { TableDetail, TableSummary } from "../src/api/types";
import { TABLES_STEP, type TableList, damagedCount, keptBytes, ordered, refreshedTables } from "../src/state/tables";
import { Damage, Others } from "../src/view/tables";
import { textOf } from "./vnodes";

function summary(table: string, changes: Partial<TableSummary> = {}): TableSummary {
  return {
    keyspace: "shop",
    table,
    memtable_bytes: 0,
    file_bytes: 100,
    files: 1,
    runs: 1,
    bookmarks: 0,
    merges: 0,
    pinned_bytes: 5,
    garbage_bytes: 0,
    compaction_debt_bytes: 0,
    damaged_files: 0,
    ...changes,
  };
}

/** A server with these tables, and the paths that were requested of it. */
function server(all: TableSummary[]) {
  const paths: string[] = [];
  const request = async <T>(path: string): Promise<T> => {
    paths.push(path);
    if (path.startsWith("/v1/tables?")) return { tables: all, next: null } as T;
    const found = all.find((table) => path.endsWith(`/${table.table}`))!;
    return { summary: found, runs: [], bookmarks: [], merges: [] } satisfies TableDetail as T;
  };
  return { paths, request };
}

const many = Array.from({ length: 40 }, (_, i) => summary(`t${i}`, { file_bytes: 1000 - i }));
const names = (list: TableList) => list.shown.map((one) => one.summary.table);

// Regression: only the twelve largest tables could be seen, so a small one with damage could not.
test("damaged tables come first, then the largest", async () => {
  const all = [...many, summary("hurt", { file_bytes: 1, damaged_files: 2 })];
  assert.deepEqual(ordered(all).slice(0, 3).map((one) => one.table), ["hurt", "t0", "t1"]);
  const { request } = server(all);
  const list = await refreshedTables(null, { text: "", count: TABLES_STEP }, "", request);
  assert.deepEqual(names(list).slice(0, 2), ["hurt", "t0"]);
  assert.deepEqual([list.shown.length, list.others.length], [12, 29]);
  assert.equal(damagedCount(list.all), 1);
  assert.equal(textOf(Damage({ count: damagedCount(list.all) })), "✕ 1 damaged table");
  assert.equal(Damage({ count: 0 }), null);
});

test("every table can be reached: by wishes for more, and by a part of its name", async () => {
  const { request } = server(many);
  const all = await refreshedTables(null, { text: "", count: 40 }, "", request);
  assert.deepEqual([all.shown.length, all.others.length, Others({ list: all })], [40, 0, null]);
  const named = await refreshedTables(null, { text: "Shop.T39", count: TABLES_STEP }, "", request);
  assert.deepEqual([names(named), named.all.length], [["t39"], 40]);
  const first = await refreshedTables(null, { text: "", count: 36 }, "", request);
  assert.equal(textOf(Others({ list: first })), "and 4 other tables with 3.8 KiB 4 more tables");
});

test("a detail is requested again only if something of its table changed", async () => {
  const tables = [summary("a"), summary("b", { merges: 1 }), summary("c")];
  const { paths, request } = server(tables);
  const choice = { text: "", count: TABLES_STEP };
  const first = await refreshedTables(null, choice, "monday", request);
  assert.equal(paths.splice(0).length, 4);
  tables[0] = summary("a", { memtable_bytes: 7 });
  tables[2] = summary("c", { files: 2, runs: 2 });
  const second = await refreshedTables(first, choice, "monday", request);
  assert.deepEqual(paths.splice(0).sort(), ["/v1/tables/shop/b", "/v1/tables/shop/c", "/v1/tables?limit=1000"]);
  assert.equal(second.shown.find((one) => one.summary.table === "a")!.summary.memtable_bytes, 7);
  // Another snapshot may have taken the place of one.
  await refreshedTables(second, choice, "tuesday", request);
  assert.equal(paths.length, 4);
});

// Regression: the sum of what each snapshot keeps alone was shown, without what several keep.
test("what snapshots keep together is the sum over tables", () => {
  assert.equal(keptBytes([summary("a", { pinned_bytes: 70 }), summary("b")]), 75);
});
