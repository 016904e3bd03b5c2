// Asks the server, or the file that its answers were kept in. Errors are RFC 9457 problems.

import { answered, frozen } from "./frozen";

/** What the server, or the way to it, answers instead. */
export class Problem extends Error {
  /** The HTTP status; 0: there was no answer. */
  readonly status: number;

  constructor(status: number, detail: string) {
    super(detail);
    this.status = status;
  }
}

/** How long an answer may take, in milliseconds. */
const TIMEOUT_MS = 15_000;

export function get<T>(path: string): Promise<T> {
  return ask<T>("GET", path);
}

/** Asks for a change. Each call has a key of its own: the browser may send it twice. */
export function change<T>(method: "POST" | "DELETE", path: string, body?: unknown): Promise<T> {
  return ask<T>(method, path, body, { "Idempotency-Key": newKey() });
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
  if (!response.ok) throw new Problem(response.status, detailOf(response, text));
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
