// Tables as their run lists, cut by the bookmarks of snapshots.

import { useState } from "preact/hooks";
import type { TableDetail } from "../api/types";
import { tableChoice, tables } from "../state/live";
import { TABLES_STEP, type TableList, damagedCount, nameOf } from "../state/tables";
import { bytes, counted } from "../text/number";
import { Input } from "./input";
import { Missing } from "./missing";
import { RunList } from "./run-list";

export function Tables() {
  const value = tables.value.value;
  return (
    <section class="tables" aria-labelledby="tables-title">
      <div class="section-head">
        <h2 id="tables-title">Tables</h2>
        {value !== null && <Damage count={damagedCount(value.all)} />}
        <span class="note">runs from the newest to the oldest, cut by snapshots</span>
      </div>
      <Missing of={tables} what="The list of tables" />
      {value !== null && value.all.length === 0 && <p class="empty">There is no table yet.</p>}
      {value !== null && (value.all.length > TABLES_STEP || value.text !== "") && <Find list={value} />}
      {value?.shown.map((table) => <One key={nameOf(table.summary)} table={table} />)}
      {value !== null && <Others list={value} />}
    </section>
  );
}

/** How many tables have damaged files, if any, with a sign that needs no colour. */
export function Damage({ count }: { count: number }) {
  if (count === 0) return null;
  return (
    <span class="bad">
      <span aria-hidden="true">✕</span> {counted(count, "damaged table")}
    </span>
  );
}

/** Shows the tables with a text in their names. */
function Find({ list }: { list: TableList }) {
  const [text, setText] = useState(tableChoice.value.text);
  const choose = (text: string) => (tableChoice.value = { text: text.trim(), count: TABLES_STEP });
  return (
    <form
      class="find"
      onSubmit={(event) => {
        event.preventDefault();
        choose(text);
      }}
    >
      <Input label="A table by name" name="find-table" value={text} placeholder="a part of its name" list="all-tables" onInput={setText} />
      <datalist id="all-tables">
        {list.all.map((table) => (
          <option key={nameOf(table)} value={nameOf(table)} />
        ))}
      </datalist>
      <button>Find</button>
      {list.text !== "" && (
        <button
          type="button"
          class="quiet"
          onClick={() => {
            setText("");
            choose("");
          }}
        >
          All tables
        </button>
      )}
      {list.text !== "" && list.shown.length === 0 && (
        <p class="empty" role="status">
          No table has “{list.text}” in its name.
        </p>
      )}
    </form>
  );
}

/** What is not shown, and the way to it. */
export function Others({ list }: { list: TableList }) {
  const { others } = list;
  if (others.length === 0) return null;
  const damaged = damagedCount(others);
  const size = others.reduce((sum, table) => sum + table.file_bytes, 0);
  const more = () => {
    const { text, count } = tableChoice.value;
    tableChoice.value = { text, count: count + TABLES_STEP };
  };
  return (
    <p class="hint">
      and {counted(others.length, "other table")} with {bytes(size)}
      {damaged > 0 && `, ${damaged} of them damaged`}{" "}
      <button class="quiet" onClick={more}>
        {counted(Math.min(TABLES_STEP, others.length), "more table")}
      </button>
    </p>
  );
}

function One({ table }: { table: TableDetail }) {
  const { runs, merges } = table;
  const { keyspace, table: name, file_bytes, pinned_bytes, memtable_bytes, damaged_files } = table.summary;
  return (
    <article class="one-table" data-table={`${keyspace}.${name}`}>
      <h3>
        <span>{keyspace}.</span>
        {name}
      </h3>
      <dl>
        <div>
          <dt>on disk</dt>
          <dd>{bytes(file_bytes)}</dd>
        </div>
        <div>
          <dt>pinned</dt>
          <dd>{bytes(pinned_bytes)}</dd>
        </div>
        <div>
          <dt>in memory</dt>
          <dd>{bytes(memtable_bytes)}</dd>
        </div>
        <div>
          <dt>runs</dt>
          <dd>
            {runs.length}
            {merges.length > 0 && `, ${counted(merges.length, "merge")}`}
          </dd>
        </div>
        {damaged_files > 0 && (
          <div class="bad">
            <dt>damaged</dt>
            <dd>{counted(damaged_files, "file")}</dd>
          </div>
        )}
      </dl>
      <RunList table={table} />
    </article>
  );
}
