import assert from "node:assert/strict";
import { test } from "node:test";
import { draftOf, emptyDraft, requestOf } from "../src/state/draft";

test("a form becomes the request that the book describes", () => {
  const draft = emptyDraft("sort");
  draft.values = { by: "fare, day", numeric: "true", reverse: "", reduces: "4" };
  draft.inputs[0] = { table: "app.rides", snapshot: "monday", values: "csv" };
  draft.output = "app.sorted";
  draft.goal = "10 min";
  assert.deepEqual(requestOf(draft), {
    directory: "/",
    application: { sort: { order: { by: ["fare", "day"], numeric: true }, reduces: 4 } },
    inputs: [{ table: { table: "app.rides", snapshot: "monday", values: "csv" } }],
    output: { to: { table: "app.sorted" } },
    goal_s: 600,
  });
});

test("what is missing is said", () => {
  const draft = emptyDraft("grep");
  assert.equal(requestOf(draft), "Pattern: say which");
  draft.values.pattern = "TODO";
  assert.equal(requestOf(draft), "Input: name a table");
  draft.inputs[0] = { table: "app.lines", snapshot: "", values: "text" };
  assert.equal(requestOf(draft), "Output: name a table");
  draft.output = "app.found";
  draft.goal = "soon";
  assert.match(String(requestOf(draft)), /^Goal: /);
});

test("a request that is submitted again is the same", () => {
  const request = {
    version: 1,
    application: { grep: { pattern: "TODO", regex: true } },
    inputs: [{ table: { table: "app.lines", snapshot: "monday" } }],
    output: { to: { folder: "/tmp/out" }, format: "csv", limit: 10 },
    directory: "/home/ada",
    goal_s: 90,
    splits: 3,
    cores: 1,
    isolation: "process",
  };
  assert.deepEqual(requestOf(draftOf(request)), request);
});

test("rows that were for the terminal of a client go to a file that is still to be named", () => {
  const draft = draftOf({
    application: { wordcount: { reduces: 1 } },
    inputs: [{ table: { table: "app.lines" } }],
    output: { to: { spool: "/data/spill/.ebb-job-x/rows" }, format: "text" },
    directory: "/",
  });
  assert.deepEqual([draft.outputKind, draft.output], ["file", ""]);
});

test("inputs that are no tables are kept as they are", () => {
  const request = {
    application: { wordcount: { reduces: 1 } },
    inputs: [{ text: { paths: ["/data/a.txt"] } }],
    output: { to: { file: "/tmp/out" } },
    directory: "/",
    goal_s: null,
  };
  assert.deepEqual(requestOf(draftOf(request)), request);
});
