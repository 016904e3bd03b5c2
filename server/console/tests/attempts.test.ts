import assert from "node:assert/strict";
import { test } from "node:test";
import type { Attempt, JobView } from "../src/api/types";
import { ATTEMPTS_MAX, ATTEMPTS_MS, attemptPage, pauseMs, taskCounts } from "../src/state/attempts";

const attempt = (index: number): Attempt => ({
  job: 1,
  kind: "map",
  index,
  attempt: 1,
  started_s: 0,
  ended_s: 1,
  cpu_s: 1,
  bytes_in: 1,
  bytes_out: 1,
  outcome: { kind: "done" },
});

// Regression: the sheet of a job requested all attempts, up to 10,000, each time that its progress changed.
test("one page of attempts is requested", async () => {
  const paths: string[] = [];
  const request = async <T>(path: string): Promise<T> => {
    paths.push(path);
    return { attempts: [attempt(0)], next: "a b" } as T;
  };
  const first = await attemptPage("7", null, request);
  assert.equal(first.next, "a b");
  await attemptPage("7", first.next, request);
  const path = `/v1/jobs/7/attempts?limit=${ATTEMPTS_MAX}`;
  assert.deepEqual(paths, [path, `${path}&after=a%20b`]);
});

test("a file, which has all attempts in one answer, is shown by pages", async () => {
  const attempts = Array.from({ length: 120 }, (_, i) => attempt(i));
  const request = async <T>(): Promise<T> => ({ attempts, next: null }) as T;
  const found: number[] = [];
  let after: string | null = null;
  do {
    const page: Awaited<ReturnType<typeof attemptPage>> = await attemptPage("7", after, request);
    assert.ok(page.attempts.length <= ATTEMPTS_MAX);
    found.push(...page.attempts.map(({ index }) => index));
    after = page.next;
  } while (after !== null);
  assert.deepEqual(found, attempts.map(({ index }) => index));
});

test("only an end of a task, of a start or of the job changes what is known of tasks", () => {
  const view = (status: object, state = "started") =>
    ({ record: { state, starts: 1 }, run: { progress: { step: 1, status } }, end: null }) as unknown as JobView;
  const counts = { maps_done: 3, reduces_done: 0, attempts_failed: 0 };
  const before = taskCounts(view({ ...counts, cpu_s: 1, share_hundredths: 10, tasks_running: 1 }));
  assert.equal(taskCounts(view({ ...counts, cpu_s: 9, share_hundredths: 70, tasks_running: 2 })), before);
  for (const other of [view({ ...counts, maps_done: 4 }), view({ ...counts, attempts_failed: 1 }), view(counts, "failed")]) {
    assert.notEqual(taskCounts(other), before);
  }
});

test("two requests are some seconds apart", () => {
  assert.equal(pauseMs(null, 5000), 0);
  assert.equal(pauseMs(5000, 5500), ATTEMPTS_MS - 500);
  assert.equal(pauseMs(5000, 50_000), 0);
});
