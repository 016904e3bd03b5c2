import assert from "node:assert/strict";
import { test } from "node:test";
import type { JobRequest } from "../src/api/types";
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
  assert.equal(requestOf(draft), "Goal: write a time such as 10 min or 1 h 30 min");
  draft.goal = "90";
  assert.equal(requestOf(draft), "Goal: 90 has no unit: for seconds, write 90s");
});

// Regression: a quantile that was no number became null, and a large seed another number.
test("a text that is no number, or that JSON would round, is refused", () => {
  const aggregate = emptyDraft("aggregate");
  const quantiles = (text: string) => {
    aggregate.values.quantiles = text;
    return requestOf(aggregate);
  };
  assert.equal(quantiles("0.5, p99"), "Quantiles: p99 is no number, or too large");
  assert.equal(quantiles("0.5, 0.99,"), "Input: name a table");
  const pi = emptyDraft("pi");
  pi.output = "app.pi";
  pi.values.seed = "12345678901234567890";
  assert.equal(requestOf(pi), "Seed: 12345678901234567890 is no number, or too large");
  pi.values.seed = "7";
  assert.equal(typeof requestOf(pi), "object");
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

/** A request as the server records it: with the defaults of all fields but `cores`, which the form leaves out. */
function recorded(application: JobRequest["application"], input: Record<string, unknown> = {}): JobRequest {
  const table = { table: "app.lines", snapshot: null, keys: "all", values: "text", names: [], ...input };
  return {
    version: 1,
    application,
    inputs: [{ table }],
    output: { to: { table: "app.found" }, format: null, limit: null },
    directory: "/",
    goal_s: null,
    splits: null,
    isolation: "thread",
  };
}

test("a request with the defaults that the server records can be edited", () => {
  const applications: JobRequest["application"][] = [
    { aggregate: { reduces: 1, by: ["city"], of: ["fare"], quantiles: [0.5, 0.99] } },
    { grep: { pattern: "TODO", regex: false } },
    { join: { reduces: 4, left_on: "id", right_on: null, keep_left: false } },
    { pagerank: { reduces: 1, from: "1", to: "2", iterations: 20, damping: 0.85 } },
    { select: { conditions: ["fare >= 1"], columns: [], keep: 1 } },
    { sort: { reduces: 1, order: { by: [], numeric: false, reverse: false } } },
    { validate: { order: { by: ["fare"], numeric: true, reverse: false } } },
  ];
  for (const application of applications) {
    const draft = draftOf(recorded(application));
    assert.deepEqual(draft.inputs[0], { table: "app.lines", snapshot: "", values: "text" });
    const { application: kept, inputs } = draft.kept;
    assert.deepEqual([kept, inputs], [undefined, undefined], JSON.stringify(application));
  }
});

// Regression: a job over a range of keys read the whole table when it was submitted again.
test("parts of a table's input that the form does not show are kept", () => {
  for (const input of [
    { keys: { prefix: "all" } },
    { keys: { range: { from: "a", to: "" } } },
    { values: "csv", names: ["city", "fare"] },
    { columns: ["city"] },
    { values: "csv", lenient_quotes: true },
  ]) {
    const request = recorded({ grep: { pattern: "TODO", regex: true } }, input);
    const draft = draftOf(request);
    assert.deepEqual(draft.kept.inputs, request.inputs);
    assert.equal(draft.kept.application, undefined);
    assert.deepEqual((requestOf(draft) as JobRequest).inputs, request.inputs);
  }
});

// Regression: the form trimmed patterns, divided conditions at commas, and made other applications `aggregate`.
test("options that the form would change are kept, with the inputs", () => {
  const applications: JobRequest["application"][] = [
    { grep: { pattern: " TODO", regex: false } },
    { select: { conditions: ["name = 'Smith, Ada'"], columns: [], keep: 1 } },
    { publish: { decimal: null, text: true, catalog: null } },
    { simulate: { scenario: "day.toml", replicas: 3 } },
  ];
  for (const application of applications) {
    const request = recorded(application);
    assert.deepEqual(requestOf(draftOf(request)), request);
  }
});

test("a publication keeps its target", () => {
  const request = { ...recorded({ publish: { text: true } }), output: { to: { iceberg: "s3://bucket/shop" } } };
  assert.deepEqual(requestOf(draftOf(request)), request);
});

// Regression: a text that is no number became null, which stands for all cores.
test("a limit of cores that is no whole number is refused", () => {
  const draft = draftOf(recorded({ wordcount: { reduces: 1 } }));
  for (const cores of ["two", "1,5", "0.5"]) {
    assert.match(String(requestOf({ ...draft, cores })), /^Cores at most: /);
  }
  assert.equal((requestOf({ ...draft, cores: " 2 " }) as JobRequest).cores, 2);
});
