// The reason why a job makes little progress, in the words of `ebb jobs` (server/src/jobs/wait.rs).

import type { Wait } from "../api/types";
import { cores, percent } from "../text/number";

/** If the guard allows less than this, it has stopped jobs. */
const ALLOWED_RATIO_MIN = 0.01;
/** A limit is used up if threads waited for it in at least this part of the latest periods. */
const THROTTLED_RATIO_MIN = 0.1;

/** Returns the reason as a clause. */
export function waitText(wait: Wait): string {
  switch (wait.kind) {
    case "jobs":
      return `other jobs come first: they get ${cores(wait.share_cores)} of ${counted(wait.left_cores)} left for jobs`;
    case "others":
      return `other processes use ${cores(wait.used_cores)} of ${counted(wait.cores)}`;
    case "load":
      return `the load uses ${cores(wait.used_cores)} of ${counted(wait.cores)}`;
    case "guard":
      return `the guard ${guardText(wait.quantile, wait.allowed_ratio, wait.slack_ratio)} the objective`;
    case "limit":
      return `the cgroup's limit (cpu.max) is${usedUp(wait.throttled_ratio)} ${counted(wait.cores)}`;
  }
}

function guardText(quantile: string, allowed: number, slack: number): string {
  if (allowed >= ALLOWED_RATIO_MIN) return `leaves jobs ${percent(allowed)} of what is free, to keep ${quantile} below`;
  return slack < 0 ? `has stopped jobs, ${quantile} is above` : `has stopped jobs until ${quantile} is well below`;
}

function usedUp(throttledRatio: number): string {
  return throttledRatio >= THROTTLED_RATIO_MIN ? " used up:" : "";
}

/** Cores with at most two digits behind the point. */
function counted(value: number): string {
  const rounded = Math.round(value * 100) / 100;
  return `${rounded} core${rounded === 1 ? "" : "s"}`;
}
