// Tables as their run lists, cut by the bookmarks of snapshots.

import type { TableDetail } from "../api/types";
import { tables } from "../state/live";
import { bytes, counted } from "../text/number";
import { Missing } from "./missing";
import { RunList } from "./run-list";

export function Tables() {
  const value = tables.value.value;
  return (
    <section class="tables" aria-labelledby="tables-title">
      <div class="section-head">
        <h2 id="tables-title">Tables</h2>
        <span class="note">runs from the newest to the oldest, cut by snapshots</span>
      </div>
      <Missing of={tables} what="The list of tables" />
      {value !== null && value.shown.length === 0 && <p class="empty">There is no table yet.</p>}
      {value?.shown.map((table) => <One key={`${table.summary.keyspace}.${table.summary.table}`} table={table} />)}
      {value !== null && value.others.length > 0 && (
        <p class="hint">
          and {counted(value.others.length, "smaller table")} with{" "}
          {bytes(value.others.reduce((sum, table) => sum + table.file_bytes, 0))}
        </p>
      )}
    </section>
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
