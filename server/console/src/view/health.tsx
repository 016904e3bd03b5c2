// Whether the server takes writes and jobs, with the reasons why it may not.

import { useEffect, useState } from "preact/hooks";
import { get } from "../api/request";
import type { Readiness } from "../api/types";
import { type Health, healthOf, healthWithout } from "../state/health";
import { counted } from "../text/number";

/** Between two looks at the server's health, in milliseconds. */
const HEALTH_MS = 10_000;
/** The number of reasons that are listed: many tables may be damaged. */
const REASONS_MAX = 20;

/** The latest readiness of the server. */
export function Ready() {
  const [health, setHealth] = useState<Health | null>(null);
  useEffect(() => {
    const look = () =>
      void get<Readiness | null>("/health/ready").then(
        (readiness) => setHealth(healthOf(readiness)),
        (problem: unknown) => setHealth(healthWithout(problem)),
      );
    look();
    const timer = setInterval(look, HEALTH_MS);
    return () => clearInterval(timer);
  }, []);
  return health === null ? null : <HealthText health={health} />;
}

const LEVELS: Record<Health["level"], { name: string; look: string }> = {
  ready: { name: "ready", look: "good" },
  degraded: { name: "degraded", look: "degraded" },
  unavailable: { name: "not ready", look: "bad" },
};

/** The health with its first reason, and the others to be opened. */
export function HealthText({ health }: { health: Health }) {
  const { name, look } = LEVELS[health.level];
  const [first, ...others] = health.reasons;
  return (
    <div class="health">
      <span class={`state ${look}`} role="status">
        {health.level !== "ready" && <Warning />}
        {first === undefined ? name : `${name}: ${first}`}
      </span>
      {others.length > 0 && (
        <details>
          <summary>and {counted(others.length, "other reason")}</summary>
          <ul>
            {others.slice(0, REASONS_MAX).map((reason) => (
              <li key={reason}>{reason}</li>
            ))}
            {others.length > REASONS_MAX && <li>and {others.length - REASONS_MAX} more</li>}
          </ul>
        </details>
      )}
    </div>
  );
}

function Warning() {
  return (
    <svg class="warning" viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
      <path d="M8 1.5L15.5 14.5H.5Z" fill="currentColor" />
      <path class="sign" d="M8 6v4.5M8 11.7v1.6" />
    </svg>
  );
}
