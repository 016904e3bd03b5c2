import assert from "node:assert/strict";
import { test } from "node:test";
import type { Problem } from "../src/api/request";
import { followTabs, logIn, logOut, session } from "../src/state/session";

/** A channel that delivers at once, to all others of its page. */
class Channel {
  static all: Channel[] = [];
  onmessage: (() => void) | null = null;

  constructor() {
    Channel.all.push(this);
  }

  postMessage(): void {
    for (const other of Channel.all) if (other !== this) other.onmessage?.();
  }

  close(): void {
    Channel.all = Channel.all.filter((other) => other !== this);
  }
}

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

// Regression: after a login in another tab, the page had the name and the buttons of the one before.
test("logins and logouts hold for all tabs", async (t) => {
  Object.assign(globalThis, { BroadcastChannel: Channel });
  t.mock.method(globalThis, "fetch", async () => Response.json({ scope: "admin", name: "grace" }));
  const stop = followTabs();
  const other = new Channel();
  let messages = 0;
  other.onmessage = () => (messages += 1);
  session.value = { scope: "jobs", name: "ada" };
  const shown = new Promise<void>((resolve) => {
    session.subscribe((of) => of?.name === "grace" && resolve());
  });
  other.postMessage();
  await shown;
  await logIn("token");
  assert.equal(messages, 1);
  await logOut();
  assert.equal(messages, 2);
  stop();
  assert.deepEqual(Channel.all, [other]);
});

// An error of this effect of the page would leave out the next one, which asks for the session.
test("a browser that refuses the channel keeps the page from no login", () => {
  class Refused {
    constructor() {
      throw new DOMException("The operation is insecure.", "SecurityError");
    }
  }
  Object.assign(globalThis, { BroadcastChannel: Refused });
  assert.doesNotThrow(() => followTabs()());
});
