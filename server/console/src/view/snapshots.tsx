// Snapshots: how old they are, and what they pin.

import { change } from "../api/request";
import type { Snapshot } from "../api/types";
import { now } from "../state/clock";
import { snapshots, tables } from "../state/live";
import { open, say } from "../state/panels";
import { mayChange } from "../state/session";
import { keptBytes } from "../state/tables";
import { bytes, counted } from "../text/number";
import { duration } from "../text/time";
import { Missing } from "./missing";

export function Snapshots() {
  const all = snapshots.value.value;
  // What each one keeps alone does not sum up to it: some of it is kept for several.
  const list = tables.value.value;
  const kept = list === null ? null : keptBytes(list.all);
  return (
    <section class="snapshots" aria-labelledby="snapshots-title">
      <div class="section-head">
        <h2 id="snapshots-title">Snapshots</h2>
        {all !== null && all.length > 0 && (
          <span class="note">{kept !== null && `keep ${bytes(kept)} together`}</span>
        )}
        {mayChange.value && <button onClick={() => open({ kind: "snapshot" })}>New snapshot</button>}
      </div>
      <Missing of={snapshots} what="The list of snapshots" />
      {all !== null && all.length === 0 && (
        <p class="empty">There is no snapshot. One keeps what the tables hold now, and jobs read it.</p>
      )}
      {all !== null && all.length > 0 && (
        <table class="rows">
          <caption class="sr-only">Snapshots</caption>
          <thead>
            <tr>
              <th scope="col">Snapshot</th>
              <th scope="col">Of</th>
              <th scope="col" class="number">
                Age
              </th>
              <th scope="col" class="number">
                Pins alone
              </th>
              <th scope="col">
                <span class="sr-only">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {all.map((one) => (
              <Row key={`${one.keyspace} ${one.name}`} snapshot={one} />
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function Row({ snapshot }: { snapshot: Snapshot }) {
  const { name, keyspace, tables, single_table, created_unix_ms, age_s, pinned_bytes, files } = snapshot;
  const age = created_unix_ms === null ? age_s : (now.value - created_unix_ms) / 1000;
  const of = single_table ? `${keyspace}.${tables[0]}` : keyspace;
  return (
    <tr data-snapshot={name}>
      <th scope="row">{name}</th>
      <td data-label="Of">{of}</td>
      <td class="number" data-label="Age">
        {age === null ? "–" : duration(Math.max(0, Math.round(age)))}
      </td>
      <td class="number" data-label="Pins alone">
        {bytes(pinned_bytes)}
        <small>{counted(files, "file")}</small>
      </td>
      <td class="row-actions">
        {mayChange.value && (
          <button
            aria-label={`Delete snapshot ${name}`}
            onClick={() =>
              open({
                kind: "confirm",
                title: `Delete ${name}?`,
                text: `What only ${name} shows is gone then, and gives ${bytes(pinned_bytes)} or more back.`,
                verb: "Delete the snapshot",
                act: () => remove(snapshot),
              })
            }
          >
            Delete
          </button>
        )}
      </td>
    </tr>
  );
}

async function remove({ name, keyspace }: Snapshot): Promise<void> {
  await change("DELETE", `/v1/snapshots/${encodeURIComponent(keyspace)}/${encodeURIComponent(name)}`);
  say(`snapshot ${name} was deleted`);
  await Promise.all([snapshots.refresh(), tables.refresh()]);
}
