// The jobs that the page has: the newest, and those in the pictures. Each refresh requests the newest hundred
// and the older ones that had not ended, because an ended job does not change.

import { Problem, get } from "../api/request";
import type { JobView, Page } from "../api/types";
import { type Get, PAGE_MAX, allPages, ifPresent } from "./pages";

/** The number of the newest jobs that each refresh requests. */
export const NEWEST = 100;
/**
 * The most older jobs that a refresh requests one by one. For a few jobs that is less work for the server than
 * a list of the jobs in a state, for which it reads the whole history. One request for each of 500 jobs would
 * exceed the rate limit of the token.
 */
const SINGLE_MAX = 20;

export interface JobList {
  /** The newest first: without a gap down to the job `next`, and then those that `isInPictures`. */
  jobs: JobView[];
  /** The id of the last job before the first gap; `null` without a gap. */
  next: string | null;
}

type JobPage = Page & { jobs: JobView[] };

/**
 * Requests what may have changed since an earlier list. Without a gap the new one has the `count` newest jobs,
 * and as many as started since `sinceMs`, of these at most 1,000.
 */
export async function refreshed(
  before: JobList | null,
  count: number,
  sinceMs: number,
  request: Get = get,
): Promise<JobList> {
  const newest = await pageAfter(null, NEWEST, request);
  if (newest.next === null) return newest;
  let list = await withOlder(newest, before, request);
  for (;;) {
    const { jobs, next } = list;
    const unbroken = next === null ? jobs : jobs.filter((view) => view.record.id >= next);
    const length = lengthOf(unbroken, count, sinceMs);
    if (next === null || unbroken.length >= length) return shortened(list, unbroken, length, sinceMs);
    const page = await pageAfter(next, length - unbroken.length, request);
    list = { jobs: merged(jobs, page.jobs), next: page.next };
  }
}

/** Adds the older jobs of the list before, or else those that have not ended. */
async function withOlder(newest: JobList, before: JobList | null, request: Get): Promise<JobList> {
  const oldestId = newest.jobs.at(-1)!.record.id;
  const last = before?.jobs[0];
  if (before === null || last === undefined || last.record.id < oldestId) {
    // There may be others between the two lists.
    return { jobs: merged(newest.jobs, await unendedBefore(oldestId, request)), next: newest.next };
  }
  const older = before.jobs.filter((view) => view.record.id < oldestId);
  const now = await refreshedViews(older.filter((view) => !hasEnded(view)), oldestId, request);
  const gone = new Set(now.gone);
  const kept = older.filter((view) => !gone.has(view.record.id));
  const goesFurther = before.next === null || before.next < newest.next!;
  return { jobs: merged(newest.jobs, now.views, kept), next: goesFurther ? before.next : newest.next };
}

/** New views of jobs, and the ids of those that the history has dropped. */
interface RefreshedViews {
  views: JobView[];
  gone: string[];
}

/**
 * Requests jobs that had not ended, all of them older than the job `oldestId`. If many of them end at once,
 * those beyond the limit of a refresh get no new view. The next refreshes request these.
 */
async function refreshedViews(
  unended: readonly JobView[],
  oldestId: string,
  request: Get,
): Promise<RefreshedViews> {
  const listed = unended.length > SINGLE_MAX ? await unendedBefore(oldestId, request) : [];
  const listedIds = new Set(listed.map((view) => view.record.id));
  const singles = unended.filter((view) => !listedIds.has(view.record.id)).slice(0, SINGLE_MAX);
  const found = await Promise.all(singles.map((view) => again(view, request)));
  const gone = singles.filter((_, i) => found[i]!.length === 0).map((view) => view.record.id);
  return { views: [...listed, ...found.flat()], gone };
}

/** Requests the jobs before the job `id` that have not ended. */
async function unendedBefore(id: string, request: Get): Promise<JobView[]> {
  // In this order, a job that is started again meanwhile is in one of the two states.
  const unfinished = await inState("unfinished", id, request);
  const running = await inState("running", id, request);
  return merged(running, unfinished);
}

/** The number of jobs that a list without a gap should have. */
function lengthOf(jobs: readonly JobView[], count: number, sinceMs: number): number {
  const before = jobs.findIndex((view) => view.record.started_unix_ms < sinceMs);
  // With the first that started before: it shows that no more are missing.
  return Math.max(count, before === -1 ? PAGE_MAX : Math.min(PAGE_MAX, before + 1));
}

/** Drops jobs that are not shown any more, so that a page that is open for days does not grow. */
function shortened(list: JobList, unbroken: readonly JobView[], length: number, sinceMs: number): JobList {
  const older = list.jobs.slice(length).filter((view) => isInPictures(view, sinceMs));
  const next = unbroken.length > length ? unbroken[length - 1]!.record.id : list.next;
  return { jobs: [...list.jobs.slice(0, length), ...older], next };
}

function isInPictures({ record }: JobView, sinceMs: number): boolean {
  return record.ended_unix_ms === null || record.ended_unix_ms >= sinceMs;
}

function hasEnded(view: JobView): boolean {
  return view.record.ended_unix_ms !== null;
}

/** Returns the jobs of several lists, the newest first, each job once: as the first of these lists has it. */
function merged(...lists: readonly (readonly JobView[])[]): JobView[] {
  const known = new Map<string, JobView>();
  for (const view of lists.flat()) {
    if (!known.has(view.record.id)) known.set(view.record.id, view);
  }
  return [...known.values()].sort((a, b) => (a.record.id < b.record.id ? 1 : -1));
}

/** Requests a job. Returns nothing if the history has dropped it, and the older view if the request fails. */
async function again(view: JobView, request: Get): Promise<JobView[]> {
  try {
    return await ifPresent<JobView>(`/v1/jobs/${view.record.id}`, request);
  } catch (error) {
    if (error instanceof Problem) return [view];
    throw error;
  }
}

function inState(state: "running" | "unfinished", beforeId: string, request: Get): Promise<JobView[]> {
  return allPages<JobView>(`/v1/jobs?state=${state}`, "jobs", request, beforeId);
}

async function pageAfter(id: string | null, length: number, request: Get): Promise<JobList> {
  const from = id === null ? "" : `&after=${id}`;
  const page = await request<JobPage>(`/v1/jobs?limit=${Math.min(PAGE_MAX, length)}${from}`);
  return { jobs: page.jobs, next: page.next ?? null };
}
