import assert from "node:assert/strict";
import { test } from "node:test";

test("a file answers what it has, whatever the query, and refuses the rest", async () => {
  const kept = { at_unix_ms: 5, seconds: 60, notes: [], answers: { "/v1/load": { cores: 2 } } };
  const element = { textContent: JSON.stringify(kept) };
  const documentElement = { dataset: {} };
  Object.assign(globalThis, { document: { getElementById: () => element, documentElement } });
  const { frozen } = await import("../src/api/frozen");
  const { change, get } = await import("../src/api/request");
  assert.equal(frozen?.seconds, 60);
  assert.deepEqual(await get("/v1/load?seconds=60"), { cores: 2 });
  await assert.rejects(get("/v1/jobs"), /not in the file/);
  await assert.rejects(change("DELETE", "/v1/load"), /not in the file/);
  // Regression: keys changed the time span, which a file cannot change back.
  const { SHORTCUTS } = await import("../src/view/shortcuts");
  assert.deepEqual(SHORTCUTS.map(({ key }) => key), ["j", "t", "?"]);
});
