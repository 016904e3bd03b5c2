import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Problem, change, changeSession, query } from "../src/api/request";

/** Replaces the server and the clock. The status 0 stands for no answer. */
function serve(t: TestContext) {
  const server = { status: 200, nowMs: 0, keys: [] as (string | null)[] };
  t.mock.method(performance, "now", () => server.nowMs);
  t.mock.method(globalThis, "fetch", async (_: string, init: RequestInit) => {
    server.keys.push(new Headers(init.headers).get("Idempotency-Key"));
    if (server.status === 0) throw new TypeError("fetch failed");
    return new Response(JSON.stringify({ id: server.keys.length }), { status: server.status });
  });
  return server;
}

// Regression: both clicks of a double click had keys of their own, and a retry submitted two jobs.
test("a double click makes one change", async (t) => {
  const server = serve(t);
  const retry = () => change<{ id: number }>("POST", "/v1/jobs/7/retry");
  const [first, second] = await Promise.all([retry(), retry()]);
  server.nowMs = 300;
  assert.deepEqual([first.id, second.id, (await retry()).id], [1, 1, 1]);
  assert.equal(server.keys.length, 1);
  // Other changes are not the same one.
  await change("POST", "/v1/jobs/8/retry");
  await change("DELETE", "/v1/jobs/7/retry");
  await change("POST", "/v1/jobs/7/retry", {});
  assert.equal(server.keys.length, 4);
  // A later click is another change.
  server.nowMs = 1001;
  assert.equal((await retry()).id, 5);
  assert.equal(new Set(server.keys).size, 5);
});

test("a change that failed is sent again with its key", async (t) => {
  const server = serve(t);
  const create = () => change("POST", "/v1/snapshots", { name: "monday" });
  server.status = 0;
  await assert.rejects(create(), (error: Problem) => error.status === 0);
  server.status = 409;
  await assert.rejects(create(), (error: Problem) => error.status === 409);
  server.status = 201;
  await create();
  assert.deepEqual([server.keys.length, new Set(server.keys).size], [3, 1]);
  server.status = 0;
  server.nowMs = 5000;
  await assert.rejects(create());
  server.nowMs = 70_000;
  await assert.rejects(create());
  assert.equal(new Set(server.keys).size, 3);
});

test("a change that another one may have undone is made again", async (t) => {
  const server = serve(t);
  const create = () => change("POST", "/v1/snapshots", { name: "tuesday" });
  const remove = () => change("DELETE", "/v1/snapshots/app/tuesday");
  await create();
  await remove();
  await create();
  await remove();
  assert.deepEqual([server.keys.length, new Set(server.keys).size], [4, 4]);
  server.nowMs = 5000;
  server.status = 0;
  await assert.rejects(create());
  // Neither a change without an answer nor a query makes the next one another change.
  await assert.rejects(change("POST", "/v1/jobs/9/cancel"));
  server.status = 200;
  await query("/v1/what-if", {});
  await create();
  assert.equal(server.keys[7], server.keys[4]);
  server.nowMs = 10_000;
  server.status = 0;
  await assert.rejects(create());
  server.status = 200;
  await remove();
  await create();
  assert.equal(new Set([4, 5, 8, 9, 10].map((i) => server.keys[i])).size, 5);
});

test("a query is sent each time, without a key", async (t) => {
  const server = serve(t);
  await query("/v1/what-if", {});
  await query("/v1/what-if", {});
  assert.deepEqual(server.keys, [null, null]);
});

test("each login and logout is sent, without a key", async (t) => {
  const server = serve(t);
  for (let i = 0; i < 2; i += 1) {
    await changeSession("POST", { token: "ebb_1" });
    await changeSession("DELETE");
  }
  assert.deepEqual(server.keys, [null, null, null, null]);
});
