import assert from "node:assert/strict";
import { test } from "node:test";
import { allPages } from "../src/state/pages";

test("all pages of a list are requested, also of one with a query", async () => {
  const pages = [{ names: ["a", "b"], next: "b&c" }, { names: ["c"], next: null }];
  const paths: string[] = [];
  const request = async (path: string): Promise<any> => pages[paths.push(path) - 1];
  assert.deepEqual(await allPages("/v1/names?of=x", "names", request), ["a", "b", "c"]);
  assert.deepEqual(paths, ["/v1/names?of=x&limit=1000", "/v1/names?of=x&limit=1000&after=b%26c"]);
  paths.length = 0;
  await allPages("/v1/names", "names", request);
  assert.equal(paths[0], "/v1/names?limit=1000");
  paths.length = 0;
  await allPages("/v1/names", "names", request, "1501");
  assert.deepEqual(paths, ["/v1/names?limit=1000&after=1501", "/v1/names?limit=1000&after=b%26c"]);
});
