import assert from "node:assert/strict";
import { test } from "node:test";
import type { Problem } from "../src/api/request";
import { logOut, session } from "../src/state/session";

// Regression: the page showed its login, but its next visitor was logged in, because the browser still had the cookie.
test("a logout that did not reach the server leaves the page logged in", async (t) => {
  session.value = { scope: "jobs", name: "ada" };
  const answer = t.mock.method(globalThis, "fetch", async (): Promise<Response> => {
    throw new TypeError("fetch failed");
  });
  await assert.rejects(logOut(), (error: Problem) => error.status === 0);
  assert.equal(session.value?.name, "ada");
  answer.mock.mockImplementation(async () => new Response(null, { status: 204 }));
  await logOut();
  assert.equal(session.value, null);
});
