import assert from "node:assert/strict";
import { test } from "node:test";
import { Problem } from "../src/api/request";
import type { JobView } from "../src/api/types";
import { NEWEST, refreshed } from "../src/state/job-list";

/** A job that started at a time, which is its id, too. */
function view(startedMs: number, endedMs: number | null = startedMs + 1): JobView {
  const record = {
    id: String(startedMs),
    application: "pi",
    request: { application: { pi: {} }, directory: "/" },
    state: endedMs === null ? ("started" as const) : ("succeeded" as const),
    started_unix_ms: startedMs,
    starts: 1,
    ended_unix_ms: endedMs,
  };
  return { record, run: null, end: null };
}

/** A server with jobs, and the paths that were requested. A job that has not ended is unfinished. */
class Server {
  readonly jobs = new Map<number, JobView>();
  paths: string[] = [];

  /** Adds ended jobs that started at each time from one to another. */
  add(from: number, to: number): this {
    for (let at = from; at <= to; at += 1) this.jobs.set(at, view(at));
    return this;
  }

  set(startedMs: number, endedMs: number | null): this {
    this.jobs.set(startedMs, view(startedMs, endedMs));
    return this;
  }

  readonly request = async (path: string): Promise<any> => {
    this.paths.push(path);
    const [place, text] = path.split("?");
    if (text === undefined) {
      const found = this.jobs.get(Number(place!.split("/")[3]));
      if (found === undefined) throw new Problem(404, "there is no such job");
      return found;
    }
    const query = new URLSearchParams(text);
    const [state, after, limit] = [query.get("state"), query.get("after"), Number(query.get("limit"))];
    const isListed = ({ record }: JobView) =>
      (state === null || (state === "unfinished" && record.ended_unix_ms === null)) &&
      (after === null || record.id < after);
    const rest = [...this.jobs.values()].filter(isListed).sort((a, b) => Number(b.record.id) - Number(a.record.id));
    const jobs = rest.slice(0, limit);
    return { jobs, next: rest.length > limit ? jobs.at(-1)!.record.id : null };
  };

  /** The paths that were requested since the last call. */
  requested(): string[] {
    return this.paths.splice(0);
  }
}

/** The ids down to one, the newest first. */
const down = (from: number, to: number) => Array.from({ length: from - to + 1 }, (_, i) => from - i);
const ids = (views: readonly JobView[]) => views.map(({ record }) => Number(record.id));
const NEVER = 9_999;

test("a list of one page is that page", async () => {
  const server = new Server().add(1001, 1005);
  const { jobs, next } = await refreshed(null, NEWEST, 0, server.request);
  assert.deepEqual([ids(jobs), next], [down(1005, 1001), null]);
  assert.deepEqual(server.requested(), ["/v1/jobs?limit=100"]);
});

test("jobs that have not ended are there behind the newest, and when they end", async () => {
  const server = new Server().add(1001, 1300).set(1010, null).set(1020, null).set(1030, null);
  const first = await refreshed(null, NEWEST, NEVER, server.request);
  assert.deepEqual([ids(first.jobs), first.next], [[...down(1300, 1201), 1030, 1020, 1010], "1201"]);
  server.requested();
  server.set(1010, NEVER).set(1030, 1040).add(1301, 1301);
  server.jobs.delete(1020);
  const second = await refreshed(first, NEWEST, NEVER, server.request);
  assert.deepEqual(server.requested(), ["/v1/jobs?limit=100", "/v1/jobs/1030", "/v1/jobs/1020", "/v1/jobs/1010"]);
  assert.deepEqual([ids(second.jobs), second.next], [[...down(1301, 1202), 1010], "1202"], "1030 ended too early");
  assert.equal(second.jobs.at(-1)!.record.ended_unix_ms, NEVER);
  await refreshed(second, NEWEST, NEVER, server.request);
  assert.deepEqual(server.requested(), ["/v1/jobs?limit=100"], "an ended job does not change");
});

test("all jobs since a time are there, and are requested once", async () => {
  const server = new Server().add(1001, 1400);
  const first = await refreshed(null, NEWEST, 1150, server.request);
  assert.deepEqual([ids(first.jobs), first.next], [down(1400, 1149), "1149"], "the last is older");
  server.requested();
  const second = await refreshed(first, NEWEST, 1150, server.request);
  assert.deepEqual(second, first);
  assert.deepEqual(server.requested(), ["/v1/jobs?limit=100"]);
  const later = await refreshed(second, NEWEST, 1250, server.request);
  assert.deepEqual([ids(later.jobs), later.next], [down(1400, 1249), "1249"]);
});

test("as many jobs are there as are shown, and at most a thousand for the pictures", async () => {
  const server = new Server().add(1001, 4000);
  const many = await refreshed(null, 1500, NEVER, server.request);
  assert.deepEqual([ids(many.jobs), many.next], [down(4000, 2501), "2501"]);
  const pictures = await refreshed(null, NEWEST, 0, server.request);
  assert.deepEqual([ids(pictures.jobs), pictures.next], [down(4000, 3001), "3001"]);
  const all = await refreshed(pictures, 5000, NEVER, server.request);
  assert.deepEqual([ids(all.jobs), all.next], [down(4000, 1001), null]);
});

test("after a gap the jobs in it that have not ended are found", async () => {
  const server = new Server().add(1001, 1200);
  const first = await refreshed(null, NEWEST, NEVER, server.request);
  server.add(1201, 1500).set(1250, null);
  const second = await refreshed(first, NEWEST, NEVER, server.request);
  assert.deepEqual([ids(second.jobs), second.next], [[...down(1500, 1401), 1250], "1401"]);
});

test("a failed request leaves no job out", async () => {
  const server = new Server().add(1001, 1200).set(1010, null);
  const first = await refreshed(null, NEWEST, NEVER, server.request);
  const failing = async (path: string): Promise<any> => {
    if (path === "/v1/jobs/1010") throw new Problem(0, "the server does not answer");
    return server.request(path);
  };
  await assert.rejects(refreshed(first, NEWEST, NEVER, failing), Problem);
});
