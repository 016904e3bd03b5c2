// Asks the server, or the file that its answers were kept in. Errors are RFC 9457 problems.

import { answered, frozen } from "./frozen";

/** What the server, or the way to it, answers instead. */
export class Problem extends Error {
  /** The HTTP status; 0: there was no answer. */
  readonly status: number;
  /** The text of the answer; empty without one. */
  readonly body: string;

  constructor(status: number, detail: string, body = "") {
    super(detail);
    this.status = status;
    this.body = body;
  }
}

/** How long an answer may take, in milliseconds. */
const TIMEOUT_MS = 15_000;
/** For how long after the answer to a change an equal one belongs to the same double click, in milliseconds. */
const DOUBLE_CLICK_MS = 1000;
/** How long a change that failed keeps its key, in milliseconds. */
const KEY_MS = 60_000;

interface Change {
  key: string;
  /** `null` after a failure. */
  answer: Promise<unknown> | null;
  untilMs: number;
}

/** The changes that are under way or were requested a moment ago, by method, path and body. */
const changes = new Map<string, Change>();

export function get<T>(path: string): Promise<T> {
  return ask<T>("GET", path);
}

/**
 * Requests a change. A double click makes it once: an equal change, before the answer or just after it, gets the same
 * answer and is not sent, unless another change was requested between the two. After a failure, an equal change is sent
 * with the same key, because the server may have made the first one although no answer came. After a later change
 * succeeded it gets a new key: the later one may have undone it, such as the deletion of a snapshot that was created.
 * A button that is disabled until the answer would not do, because answers are faster than double clicks.
 */
export function change<T>(method: "POST" | "DELETE", path: string, body?: unknown): Promise<T> {
  const what = `${method} ${path} ${JSON.stringify(body)}`;
  const nowMs = performance.now();
  forget((one, of) => one.untilMs < nowMs || (of !== what && isAnswered(one)));
  const before = changes.get(what);
  if (before !== undefined && before.answer !== null) return before.answer as Promise<T>;
  const key = before?.key ?? newKey();
  const answer = ask<T>(method, path, body, { "Idempotency-Key": key });
  changes.set(what, { key, answer, untilMs: Number.POSITIVE_INFINITY });
  const failedBefore = new Set([...changes.values()].filter((one) => one.answer === null));
  answer.then(
    () => {
      changes.set(what, { key, answer, untilMs: performance.now() + DOUBLE_CLICK_MS });
      forget((one) => failedBefore.has(one));
    },
    () => changes.set(what, { key, answer: null, untilMs: performance.now() + KEY_MS }),
  );
  return answer;
}

/** Asks with a body for an answer that changes nothing. Such a request takes no key. */
export function query<T>(path: string, body: unknown): Promise<T> {
  return ask<T>("POST", path, body);
}

/** Logs in or out. Such a request takes no key, and each one counts. */
export function changeSession(method: "POST" | "DELETE", body?: unknown): Promise<void> {
  return ask(method, "/v1/session", body);
}

function forget(isOver: (change: Change, of: string) => boolean): void {
  for (const [of, change] of changes) {
    if (isOver(change, of)) changes.delete(of);
  }
}

function isAnswered({ answer, untilMs }: Change): boolean {
  return answer !== null && Number.isFinite(untilMs);
}

async function ask<T>(
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<T> {
  if (frozen !== null) {
    const kept = method === "GET" ? answered(path) : undefined;
    if (kept === undefined) throw new Problem(404, "this is not in the file");
    return kept as T;
  }
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers: body === undefined ? headers : { ...headers, "Content-Type": "application/json" },
      body: body === undefined ? null : JSON.stringify(body),
      cache: "no-store",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
  } catch {
    throw new Problem(0, "the server does not answer");
  }
  const text = await response.text();
  if (!response.ok) throw new Problem(response.status, detailOf(response, text), text);
  return (text === "" ? null : JSON.parse(text)) as T;
}

function detailOf(response: Response, text: string): string {
  try {
    const problem = JSON.parse(text) as { detail?: string; title?: string };
    return problem.detail ?? problem.title ?? response.statusText;
  } catch {
    return `${response.status} ${response.statusText}`;
  }
}

/** 128 random bits. `crypto.randomUUID` is for secure contexts only. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
