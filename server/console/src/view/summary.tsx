// The questions of an operator, answered in a line each.

import type { ComponentChildren } from "preact";
import { actionAt, actionText } from "../chart/guard";
import { objectiveText } from "../chart/latency";
import { now } from "../state/clock";
import { outlook } from "../state/job";
import { load, silence, unended } from "../state/live";
import { safety } from "../state/safety";
import { cores, counted, percent, short } from "../text/number";
import { latency } from "../text/time";

export function Summary() {
  return (
    <section class={silence.value === null ? "summary" : "summary old"} aria-label="In short">
      <Safety />
      <Machine />
      <Requests />
      <Goals />
    </section>
  );
}

interface FactProps {
  name: string;
  value: string;
  /** What follows the value, smaller. */
  of?: string;
  verdict?: "good" | "bad" | "none";
  children: ComponentChildren;
}

function Fact({ name, value, of, verdict = "none", children }: FactProps) {
  // What was true when the last data came is no verdict on now.
  return (
    <div class={`fact ${silence.value === null ? verdict : "none"}`}>
      <h2>{name}</h2>
      <p class="value">
        {value}
        {of !== undefined && <small> {of}</small>}
      </p>
      <p class="detail">{children}</p>
    </div>
  );
}

function Safety() {
  const now = load.value.value;
  const objective = now?.objective ?? null;
  const quantile = objective?.quantile ?? "p99";
  const found = now === null ? null : safety(now);
  if (found === null) {
    return (
      <Fact name="Online load" value="–" of={quantile}>
        {now === null ? "not known" : "no request in the last 10 s"}
      </Fact>
    );
  }
  const { us, verdict } = found;
  return (
    <Fact name="Online load" value={latency(us)} of={quantile} verdict={verdict}>
      {verdict === "bad" && <strong>over its objective: </strong>}
      {verdict === "good" && (silence.value === null ? "safe: " : "was safe: ")}
      {objective === null ? "no objective" : objectiveText(objective)}
    </Fact>
  );
}

function Machine() {
  const now = load.value.value;
  const last = now?.samples.at(-1);
  if (now === null || last === undefined) {
    return (
      <Fact name="Jobs get" value="–" of="cores">
        not known
      </Fact>
    );
  }
  const action = actionAt(now.guard, now.now_unix_ms);
  return (
    <Fact name="Jobs get" value={cores(last.analytics_cores)} of={`of ${now.cores} cores`}>
      may use {cores(last.capacity_cores)}
      {action !== undefined && `; guard ${actionText(action.action)}, ${percent(action.allowed_ratio)}`}
    </Fact>
  );
}

function Requests() {
  const last = load.value.value?.samples.at(-1);
  return (
    <Fact name="Requests" value={last === undefined ? "–" : short(last.requests_per_s)} of="per second">
      {last === undefined ? "not known" : `on ${cores(last.load_cores)} cores`}
    </Fact>
  );
}

function Goals() {
  const jobs = unended.value;
  const with_goal = jobs.map((job) => outlook(job, now.value)).filter((sight) => sight !== "none");
  const late = with_goal.filter((sight) => sight === "late").length;
  const sure = with_goal.filter((sight) => sight === "on-time").length;
  const others = jobs.length - with_goal.length;
  const rest = others === 0 ? "" : `, ${counted(others, "job")} without a goal`;
  if (with_goal.length === 0) {
    return (
      <Fact name="Goals" value={jobs.length === 0 ? "–" : "none"}>
        {jobs.length === 0 ? "no job runs" : `${counted(jobs.length, "job")} without a goal`}
      </Fact>
    );
  }
  return (
    <Fact
      name="Goals"
      value={late > 0 ? `${late} late` : `${sure} of ${with_goal.length}`}
      of={late > 0 ? `of ${with_goal.length}` : "will be met"}
      verdict={late > 0 ? "bad" : sure === with_goal.length ? "good" : "none"}
    >
      {counted(with_goal.length, "job")} with a goal{rest}
    </Fact>
  );
}
