// The readiness of the server in words.

import { Problem } from "../api/request";
import type { Readiness } from "../api/types";

export interface Health {
  /** `degraded`: it takes writes and jobs, but some reads, writes or jobs fail or may take long. */
  level: "ready" | "degraded" | "unavailable";
  /** The reasons in words, the gravest first; none if it is ready. */
  reasons: string[];
}

/** Returns the health that a readiness check with status 200 found. */
export function healthOf(readiness: Readiness | null): Health {
  const reasons = (readiness?.problems ?? []).map(({ detail }) => detail);
  const status = readiness?.status ?? "ok";
  return { level: status === "ok" ? "ready" : status, reasons };
}

/** Returns the health that follows from a check that failed: from its body, or else from the error itself. */
export function healthWithout(error: unknown): Health {
  const health = error instanceof Problem ? healthOf(readinessOf(error.body)) : null;
  if (health !== null && health.reasons.length > 0) return { ...health, level: "unavailable" };
  return { level: "unavailable", reasons: [error instanceof Error ? error.message : String(error)] };
}

function readinessOf(body: string): Readiness | null {
  try {
    const found = JSON.parse(body) as Partial<Readiness> | null;
    return Array.isArray(found?.problems) ? (found as Readiness) : null;
  } catch {
    return null;
  }
}
