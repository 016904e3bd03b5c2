// The attempts at the tasks of a job, a page at a time.

import { get } from "../api/request";
import type { Attempt, JobView, Page } from "../api/types";
import type { Get } from "./pages";

/** The number of attempts of a page. */
export const ATTEMPTS_MAX = 50;
/** The shortest time between two requests for the page that is shown, in milliseconds. */
export const ATTEMPTS_MS = 3000;

export interface AttemptPage {
  attempts: Attempt[];
  /** Where the next page begins; `null` on the last one. */
  next: string | null;
}

/** Requests the attempts that ended after those of the page before, whose `next` is `after`. */
export async function attemptPage(id: string, after: string | null, request: Get = get): Promise<AttemptPage> {
  const from = after === null ? "" : `&after=${encodeURIComponent(after)}`;
  const answer = await request<Page & { attempts: Attempt[] }>(`/v1/jobs/${id}/attempts?limit=${ATTEMPTS_MAX}${from}`);
  const { attempts, next } = answer;
  if (attempts.length <= ATTEMPTS_MAX) return { attempts, next: next ?? null };
  // A page that is a file has all attempts in one answer.
  const first = Number(after ?? 0);
  const end = first + ATTEMPTS_MAX;
  return { attempts: attempts.slice(first, end), next: end < attempts.length ? String(end) : null };
}

/** Returns a text that changes if a task of the job ended or failed, or if the job did. */
export function taskCounts(view: JobView | null): string {
  const { step, status } = view?.run?.progress ?? {};
  const counts = [status?.maps_done, status?.reduces_done, status?.attempts_failed];
  return [view?.record.state, view?.record.starts, view?.end === null, step, ...counts].join(" ");
}

/** Returns how long to wait before another request, in milliseconds, if the last one was at `lastMs`. */
export function pauseMs(lastMs: number | null, nowMs: number): number {
  return lastMs === null ? 0 : Math.max(0, lastMs + ATTEMPTS_MS - nowMs);
}
