import assert from "node:assert/strict";
import { test } from "node:test";
import type { Query } from "../src/api/types";
import { clientOf, queryState } from "../src/state/query";

const query: Query = {
  id: 7,
  address: "10.0.0.7:4711",
  user: "ada",
  keyspace: null,
  statement: "SELECT * FROM shop.orders",
  statements: 1,
  lane: "scan",
  state: "running",
  waits_for: null,
  queued_ms: 0,
  running_ms: 10,
};

test("a query that waits says for what", () => {
  assert.equal(queryState(query), "runs");
  assert.equal(queryState({ ...query, state: "ending" }), "ends");
  assert.equal(queryState({ ...query, state: "waiting" }), "waits");
  assert.equal(queryState({ ...query, state: "waiting", waits_for: "turn" }), "waits for its turn");
  assert.equal(queryState({ ...query, state: "waiting", waits_for: "client" }), "waits until its client reads");
});

test("a client has its role where the server has logins", () => {
  assert.equal(clientOf(query), "ada at 10.0.0.7:4711");
  assert.equal(clientOf({ ...query, user: null }), "10.0.0.7:4711");
});
