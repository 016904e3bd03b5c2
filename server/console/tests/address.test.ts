import assert from "node:assert/strict";
import { test } from "node:test";
import { PAGES, pageOf } from "../src/state/address";

test("each page has a link of its own, and any other address shows the work", () => {
  for (const { name, hash } of PAGES) assert.equal(pageOf(hash), name);
  for (const hash of ["", "#jobs", "#servers", "#token=x"]) assert.equal(pageOf(hash), "work");
});
