import assert from "node:assert/strict";
import { test } from "node:test";
import { userKeyspaces } from "../src/state/keyspaces";

// Regression: the form of a snapshot did not offer keyspaces whose names begin with `ebb_`.
test("all keyspaces except that of the server's own tables are those of users", async () => {
  const keyspaces = ["app", "ebb_", "ebb_shop", "ebb_system", "ebb_system2"];
  const request = async (): Promise<any> => ({ keyspaces, next: null });
  assert.deepEqual(await userKeyspaces(request), ["app", "ebb_", "ebb_shop", "ebb_system2"]);
});
