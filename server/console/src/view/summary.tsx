// The questions of an operator, answered in a line each.

import type { ComponentChildren } from "preact";
import { actionAt, actionText } from "../chart/guard";
import { objectiveText } from "../chart/latency";
import { now } from "../state/clock";
import { goalsLine } from "../state/goals";
import { type Job, outlook } from "../state/job";
import { ended, load, range, silence, unended, views } from "../state/live";
import { safety } from "../state/safety";
import { cores, percent, short } from "../text/number";
import { duration, latency } from "../text/time";

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
        {now === null || now.samples.length === 0 ? "not known" : "no request in the last 10 s"}
      </Fact>
    );
  }
  const { us, verdict } = found;
  return (
    <Fact name="Online load" value={latency(us)} of={quantile} verdict={verdict}>
      {verdict === "bad" && <strong>over its objective: </strong>}
      {verdict === "good" && (silence.value === null ? "safe: " : "was safe: ")}
      {objective === null ? "no objective" : objectiveText(objective)}
      {verdict === "none" && objective?.bound_us === null && ", which is not known yet"}
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
  const nowMs = now.value;
  if (views.value.value === null) {
    return (
      <Fact name="Goals" value="–">
        not known
      </Fact>
    );
  }
  const outlooks = (jobs: readonly Job[]) => jobs.map((job) => outlook(job, nowMs));
  const lately = ended.value.filter((job) => job.endedMs! > nowMs - range.value * 1000);
  const { value, of, verdict, detail } = goalsLine(outlooks(unended.value), outlooks(lately), duration(range.value));
  return (
    <Fact name="Goals" value={value} {...(of === "" ? {} : { of })} verdict={verdict}>
      {detail}
    </Fact>
  );
}
