import assert from "node:assert/strict";
import { test } from "node:test";
import { Problem } from "../src/api/request";
import type { JobView } from "../src/api/types";
import { type JobList, NEWEST, refreshed } from "../src/state/job-list";

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

/** A server with 500 jobs that have not ended, 100 newer ones that have, and a page that has listed them. */
async function withManyUnended(): Promise<{ server: Server; list: JobList }> {
  const server = new Server().add(1001, 1600);
  for (let at = 1001; at <= 1500; at += 1) server.set(at, null);
  const list = await refreshed(null, NEWEST, NEVER, server.request);
  assert.deepEqual(ids(list.jobs), down(1600, 1001));
  assert.deepEqual(server.requested(), ["/v1/jobs?limit=100", ...UNENDED]);
  return { server, list };
}

const UNENDED = ["unfinished", "running"].map((state) => `/v1/jobs?state=${state}&limit=1000&after=1501`);

// Regression: each refresh sent a request for each of these jobs, every two seconds. With 500 jobs in two tabs,
// the requests exceeded the rate limit of the token, and the list stood still.
test("a refresh of 500 jobs that have not ended takes three requests", async () => {
  const { server, list } = await withManyUnended();
  server.jobs.get(1001)!.record.starts = 2;
  const second = await refreshed(list, NEWEST, NEVER, server.request);
  assert.deepEqual(server.requested(), ["/v1/jobs?limit=100", ...UNENDED]);
  assert.deepEqual([ids(second.jobs), second.next], [down(1600, 1001), "1501"]);
  assert.equal(second.jobs.at(-1)!.record.starts, 2);
});

test("of many jobs that ended at once, each refresh requests some until all are known", async () => {
  const { server, list } = await withManyUnended();
  for (let at = 1001; at <= 1050; at += 1) server.set(at, NEVER);
  const unended = ({ jobs }: JobList) => jobs.filter(({ record }) => record.ended_unix_ms === null).length;
  const counts = [];
  for (let now = list; counts.length < 3; ) {
    now = await refreshed(now, NEWEST, NEVER, server.request);
    assert.deepEqual(ids(now.jobs), down(1600, 1001));
    counts.push([unended(now), server.requested().length]);
  }
  assert.deepEqual(counts, [[480, 23], [460, 23], [450, 13]]);
});

// Regression: one failed request failed the whole refresh.
test("a job whose request fails keeps its older view", async () => {
  const server = new Server().add(1001, 1200).set(1010, null).set(1020, null);
  const first = await refreshed(null, NEWEST, NEVER, server.request);
  const fails = (error: Error) => async (path: string): Promise<any> => {
    if (path === "/v1/jobs/1010") throw error;
    return server.request(path);
  };
  server.set(1010, NEVER).set(1020, NEVER);
  const limited = new Problem(429, "too many requests came with this token");
  const second = await refreshed(first, NEWEST, NEVER, fails(limited));
  const ends = ({ jobs }: JobList) => jobs.slice(NEWEST).map(({ record }) => [record.id, record.ended_unix_ms]);
  assert.deepEqual(ends(second), [["1020", NEVER], ["1010", null]]);
  assert.deepEqual(ends(await refreshed(second, NEWEST, NEVER, server.request)), [["1020", NEVER], ["1010", NEVER]]);
  await assert.rejects(refreshed(first, NEWEST, NEVER, fails(new TypeError("a defect of the page"))), TypeError);
});
