import assert from "node:assert/strict";
import { test } from "node:test";
import type { Load, Sample } from "../src/api/types";

class Events {
  static last: Events;
  readonly handlers = new Map<string, (event: { data: string }) => void>();

  constructor() {
    Events.last = this;
  }

  addEventListener(kind: string, handler: (event: { data: string }) => void): void {
    this.handlers.set(kind, handler);
  }

  send(kind: string, data: unknown): void {
    this.handlers.get(kind)!({ data: JSON.stringify(data) });
  }

  close(): void {}
}

function sample(s: number): Sample {
  return {
    at_unix_ms: 1000 * s,
    load_cores: 1,
    others_cores: 0,
    analytics_cores: 0,
    capacity_cores: 1,
    requests_per_s: 1,
    p50_us: 1,
    p99_us: 1,
    p999_us: 1,
    bound_us: null,
    shares: {},
  };
}

const action = (s: number, action: string) => ({ at_unix_ms: 1000 * s, action, allowed_ratio: 1, slack_ratio: null });

/** Lets all that waits for an answer go on. */
const settle = () => new Promise((resolve) => setTimeout(resolve, 0));

// Regression: the answer took the place of the samples and the actions that had come since it was made.
test("events that come while the load is requested outlive its answer", async () => {
  const waiting: ((load: Load) => void)[] = [];
  const lists = { jobs: [], tables: [], snapshots: [], points: [], next: null };
  const answer = async (path: string): Promise<Response> => {
    if (!path.startsWith("/v1/load")) return Response.json(lists);
    return Response.json(await new Promise<Load>((resolve) => waiting.push(resolve)));
  };
  Object.assign(globalThis, { window: globalThis, EventSource: Events, fetch: answer });
  const { load, range, start } = await import("../src/state/live");
  const loaded = (times: number[]): Load => {
    const guard = [action(1, "grow")];
    return { now_unix_ms: 0, cores: 2, objective: null, samples: times.map(sample), guard, shares: [] };
  };
  const seconds = () => load.value.value?.samples.map((one) => one.at_unix_ms / 1000);
  const stop = start();
  try {
    // While nothing is shown, too.
    Events.last.send("sample", sample(3));
    waiting.shift()!(loaded([1, 2]));
    await settle();
    assert.deepEqual(seconds(), [1, 2, 3]);
    range.value = 900;
    Events.last.send("sample", sample(4));
    Events.last.send("guard", action(4, "hold"));
    Events.last.send("sample", sample(5));
    assert.deepEqual(seconds(), [1, 2, 3, 4, 5]);
    waiting.shift()!(loaded([0, 1, 2, 3, 4]));
    await settle();
    assert.deepEqual(seconds(), [0, 1, 2, 3, 4, 5]);
    assert.deepEqual(load.value.value?.guard.map((one) => one.action), ["grow", "hold"]);
    // The clock was set back by some seconds: the samples before are of times to come.
    range.value = 300;
    Events.last.send("sample", sample(6));
    Events.last.send("reset", {});
    Events.last.send("sample", sample(3));
    waiting.shift()!(loaded([1, 2]));
    await settle();
    assert.deepEqual(seconds(), [1, 2, 3]);
    waiting.shift()!(loaded([1, 2, 3]));
    await settle();
    assert.deepEqual([seconds(), waiting.length], [[1, 2, 3], 0]);
  } finally {
    stop();
  }
});

test("a sample of ten seconds takes the place of its seconds, if a long time span is shown", async () => {
  const lists = { jobs: [], tables: [], snapshots: [], points: [], next: null };
  const loaded: Load = { now_unix_ms: 0, cores: 2, objective: null, samples: [sample(10)], guard: [], shares: [] };
  const answer = async (path: string) => Response.json(path.startsWith("/v1/load") ? loaded : lists);
  Object.assign(globalThis, { window: globalThis, EventSource: Events, fetch: answer });
  const { load, range, start } = await import("../src/state/live");
  range.value = 21_600;
  const stop = start();
  try {
    while (load.value.value === null) await settle();
    for (let s = 11; s <= 19; s += 1) Events.last.send("sample", sample(s));
    Events.last.send("coarse", { ...sample(20), p99_us: 7 });
    Events.last.send("sample", sample(20));
    assert.deepEqual(load.value.value?.samples.map((one) => [one.at_unix_ms, one.p99_us]), [[10_000, 1], [20_000, 7]]);
  } finally {
    stop();
    range.value = 300;
  }
});

test("a table that is dropped after it was listed is left out", async () => {
  const { tables } = await import("../src/state/live");
  const summary = (table: string) => ({ keyspace: "app", table, file_bytes: 1, memtable_bytes: 0 });
  const answer = async (path: string): Promise<Response> => {
    if (path.startsWith("/v1/tables?")) return Response.json({ tables: ["gone", "kept"].map(summary), next: null });
    if (path.endsWith("/gone")) return Response.json({ detail: "there is no table app.gone" }, { status: 404 });
    return Response.json({ summary: summary("kept"), runs: [], bookmarks: [], merges: [] });
  };
  Object.assign(globalThis, { fetch: answer });
  await tables.refresh();
  assert.deepEqual(tables.value.value?.shown.map((one) => one.summary.table), ["kept"]);
  assert.equal(tables.problem.value, null);
});
