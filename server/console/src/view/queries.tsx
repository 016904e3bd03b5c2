// The queries of CQL that wait or run, the oldest first.

import { change } from "../api/request";
import type { Query } from "../api/types";
import { open, say } from "../state/panels";
import { clientOf, queryState } from "../state/query";
import { queries } from "../state/server";
import { isAdmin } from "../state/session";
import { counted } from "../text/number";
import { duration } from "../text/time";
import { ForAdmin } from "./for-admin";
import { Missing } from "./missing";

export function Queries() {
  const all = queries.value.value;
  return (
    <section class="queries" aria-labelledby="queries-title">
      <div class="section-head">
        <h2 id="queries-title">Queries</h2>
        {all !== null && <span class="note">the oldest first, without point requests</span>}
      </div>
      {isAdmin.value ? <Missing of={queries} what="The list of queries" /> : <ForAdmin what="The queries" />}
      {all !== null && all.length === 0 && <p class="empty">No query waits or runs.</p>}
      {all !== null && all.length > 0 && (
        <table class="rows">
          <caption class="sr-only">Queries</caption>
          <thead>
            <tr>
              <th scope="col">Statement</th>
              <th scope="col">Client</th>
              <th scope="col">State</th>
              <th scope="col" class="number">
                Waited
              </th>
              <th scope="col" class="number">
                Has run
              </th>
              <th scope="col">
                <span class="sr-only">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {all.map((query) => (
              <Row key={query.id} query={query} />
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function Row({ query }: { query: Query }) {
  const { id, keyspace, statement, statements, lane, queued_ms, running_ms } = query;
  return (
    <tr data-query={id}>
      <th scope="row" class="statement">
        <code>{statement}</code>
        {statements > 1 && <small>and {counted(statements - 1, "other statement")} of its batch</small>}
      </th>
      <td data-label="Client">
        {clientOf(query)}
        {keyspace !== null && <small>in {keyspace}</small>}
      </td>
      <td data-label="State">
        {queryState(query)}
        <small>lane {lane}</small>
      </td>
      <td class="number" data-label="Waited">
        {duration(queued_ms / 1000)}
      </td>
      <td class="number" data-label="Has run">
        {duration(running_ms / 1000)}
      </td>
      <td class="row-actions">
        <button
          aria-label={`Kill query ${id}`}
          onClick={() =>
            open({
              kind: "confirm",
              title: `Kill query ${id}?`,
              text: `Its client gets an error: ${statement}`,
              verb: "Kill the query",
              act: () => kill(id),
            })
          }
        >
          Kill
        </button>
      </td>
    </tr>
  );
}

async function kill(id: number): Promise<void> {
  await change("DELETE", `/v1/queries/${id}`);
  say(`query ${id} ends`);
  await queries.refresh();
}
