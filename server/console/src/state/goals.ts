// Where the goals of all jobs stand, in a line.

import { counted } from "../text/number";
import type { Outlook } from "./job";

export interface GoalsLine {
  value: string;
  /** The words that follow the value; none if it is empty. */
  of: string;
  verdict: "good" | "bad" | "none";
  detail: string;
}

/**
 * Returns the line on goals. `ahead` has the outlooks of the jobs that have not ended, and `ended` those of the jobs
 * that ended in the time span `span`, such as `5 min`.
 */
export function goalsLine(ahead: readonly Outlook[], ended: readonly Outlook[], span: string): GoalsLine {
  const count = (of: readonly Outlook[], one: Outlook) => of.filter((outlook) => outlook === one).length;
  const [met, missed] = [count(ended, "met"), count(ended, "missed")];
  const past = [...(met > 0 ? [`${met} met`] : []), ...(missed > 0 ? [`${missed} missed`] : [])].join(" and ");
  const before = past === "" ? "" : `; ${past} in the last ${span}`;
  const others = count(ahead, "none");
  const goals = ahead.length - others;
  if (goals === 0) {
    const detail = `${others === 0 ? "no job runs" : `${counted(others, "job")} without a goal`}${before}`;
    if (past === "") return { value: others === 0 ? "–" : "none", of: "", verdict: "none", detail };
    return { value: `${met} of ${met + missed}`, of: "were met", verdict: missed > 0 ? "bad" : "good", detail };
  }
  const [late, sure] = [count(ahead, "late"), count(ahead, "on-time")];
  const unknown = goals - late - sure;
  const rest = others === 0 ? "" : `, ${counted(others, "job")} without a goal`;
  const open = unknown === 0 || unknown === goals ? "" : `, ${unknown} not known`;
  const detail = `${counted(goals, "job")} with a goal${open}${rest}${before}`;
  if (late > 0) return { value: `${late} late`, of: `of ${goals}`, verdict: "bad", detail };
  if (sure === 0) return { value: "–", of: "not known", verdict: "none", detail };
  return { value: `${sure} of ${goals}`, of: "will be met", verdict: unknown === 0 ? "good" : "none", detail };
}
