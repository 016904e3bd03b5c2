// Jobs as rows: how far, what they get, when they will be done, and whether that is in time.

import { useState } from "preact/hooks";
import { now } from "../state/clock";
import { BEYOND_WORDS, type Job, atWorkText, doneAtMs, outlook, slackWords } from "../state/job";
import { colourOf, ended, jobs, jobsShown, range, textureOf, unended, views } from "../state/live";
import { open } from "../state/panels";
import { mayChange } from "../state/session";
import { percent } from "../text/number";
import { clock, duration, relative } from "../text/time";
import { JobActions } from "./job-actions";
import { Missing } from "./missing";

/** Rows that ended, at first and with each wish for more. */
const ROWS = 20;

export function Jobs() {
  const [rows, setRows] = useState(ROWS);
  const hasMore = ended.value.length > rows || views.value.value?.next != null;
  const more = () => {
    setRows(rows + ROWS);
    if (rows + ROWS > ended.value.length) jobsShown.value = Math.max(jobsShown.value, jobs.value.length) + 100;
  };
  return (
    <section class="jobs" id="jobs" aria-labelledby="jobs-title" tabIndex={-1}>
      <div class="section-head">
        <h2 id="jobs-title">Jobs</h2>
        <span class="note">
          {views.value.value !== null && atWorkText(unended.value)}
        </span>
      </div>
      <Missing of={views} what="The list of jobs" />
      {views.value.value !== null && unended.value.length === 0 && (
        <p class="empty">
          No job runs.
          {mayChange.value && (
            <button class="quiet" onClick={() => open({ kind: "submit" })}>
              Submit one
            </button>
          )}
        </p>
      )}
      {unended.value.length > 0 && <Table jobs={unended.value} name="Jobs at work" />}
      {ended.value.length > 0 && (
        <>
          <h3>Ended</h3>
          <Table jobs={ended.value.slice(0, rows)} name="Jobs that ended" isEnded />
          {hasMore && (
            <button class="quiet" onClick={more}>
              Show more
            </button>
          )}
        </>
      )}
    </section>
  );
}

function Table({ jobs, name, isEnded = false }: { jobs: readonly Job[]; name: string; isEnded?: boolean }) {
  return (
    <table class={isEnded ? "rows ended" : "rows"}>
      <caption class="sr-only">{name}</caption>
      <thead>
        <tr>
          <th scope="col">Job</th>
          <th scope="col" class="places">
            From → to
          </th>
          <th scope="col">{isEnded ? "Outcome" : "Progress"}</th>
          {!isEnded && (
            <th scope="col" class="number">
              Cores
            </th>
          )}
          <th scope="col" class="number">
            {isEnded ? "Took" : "Done at"}
          </th>
          <th scope="col" class="number">
            Goal
          </th>
          <th scope="col" class="number">
            Slack
          </th>
          <th scope="col">
            <span class="sr-only">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {jobs.map((job) => (
          <Row key={job.id} job={job} isEnded={isEnded} />
        ))}
      </tbody>
    </table>
  );
}

function Row({ job, isEnded }: { job: Job; isEnded: boolean }) {
  const nowMs = now.value;
  const sight = outlook(job, nowMs);
  return (
    <tr data-job={job.id} data-state={job.state} class={sight === "late" ? "late" : ""}>
      <th scope="row">
        {hasColour(job, nowMs) && <i class={`swatch job texture-${textureOf(job.id)}`} style={{ backgroundColor: colourOf(job.id) }} />}
        <button class="link" onClick={() => open({ kind: "job", id: job.id })}>
          {job.name}
        </button>
        <small class="id">{job.id}</small>
      </th>
      <td class="places" data-label="From → to" title={`${job.input} → ${job.output}`}>
        {job.input === "" ? "" : `${job.input} `}
        {job.output === "" ? "" : `→ ${job.output}`}
      </td>
      {isEnded ? (
        <td data-label="Outcome">
          <Outcome job={job} />
        </td>
      ) : (
        <td class="progress" data-label="Progress">
          <Progress job={job} />
        </td>
      )}
      {!isEnded && (
        <td class={job.shareCores === null ? "number none" : "number"} data-label="Cores">
          {job.shareCores === null ? "–" : job.shareCores.toFixed(2)}
        </td>
      )}
      <td class="number" data-label={isEnded ? "Took" : "Done at"}>
        {isEnded ? <Took job={job} /> : <Finish job={job} nowMs={nowMs} />}
      </td>
      <td class={job.goalMs === null ? "number none" : "number"} data-label="Goal">
        {job.goalMs === null ? "–" : clock(job.goalMs, nowMs)}
      </td>
      <td class={`number slack ${sight}`} data-label="Slack" data-outlook={sight}>
        {slackWords(job, nowMs) ?? "–"}
      </td>
      <td class="row-actions">
        <JobActions job={job} />
      </td>
    </tr>
  );
}

/** Whether the picture has it: its colour says something then. */
function hasColour(job: Job, nowMs: number): boolean {
  return job.endedMs === null || job.endedMs > nowMs - range.value * 1000;
}

/** The progress of a job that has not ended, as a bar and in words. */
export function Progress({ job }: { job: Job }) {
  if (job.state === "unfinished") return <>unfinished: its server stopped</>;
  const parts = [percent(job.progress)];
  if (job.state !== "waiting") parts.push(job.done);
  if (job.waits !== null) parts.push(`waits: ${job.waits}`);
  else if (job.state === "waiting") parts.push("waits");
  return (
    <>
      <progress value={job.progress} max={1} aria-label={`Progress of ${job.name}`} style={{ color: colourOf(job.id) }} />
      <small>{parts.join(", ")}</small>
    </>
  );
}

/** How a job ended, with a sign that needs no colour. A verification that found damage has succeeded, too. */
export function Outcome({ job }: { job: Job }) {
  const signs: Record<string, string> = { succeeded: "✓", failed: "✕", cancelled: "–" };
  const sign = job.damage === null ? (signs[job.state] ?? "·") : "!";
  return (
    <span class={`outcome ${job.damage === null ? job.state : "damaged"}`} title={job.cause ?? ""}>
      <span aria-hidden="true">{sign}</span> {job.state}
      {job.damage !== null && `, ${job.damage}`}
    </span>
  );
}

export function Took({ job }: { job: Job }) {
  return <>{job.tookS === null ? "–" : duration(job.tookS)}</>;
}

export function Finish({ job, nowMs }: { job: Job; nowMs: number }) {
  const finish = job.prediction;
  if (job.state === "unfinished") return <>–</>;
  if (job.beyond !== null) return <>{BEYOND_WORDS}</>;
  if (finish === null) {
    const doneAt = doneAtMs(job, nowMs);
    if (doneAt === null) return <span class="unknown">not known yet</span>;
    return (
      <>
        {clock(doneAt, nowMs)}
        <small>{relative(doneAt, nowMs)}</small>
      </>
    );
  }
  const half = (finish.high_unix_ms - finish.low_unix_ms) / 2000;
  return (
    <>
      {clock(finish.finish_unix_ms, nowMs)}
      <small>
        {relative(finish.finish_unix_ms, nowMs)}
        {half >= 0.5 && ` ± ${duration(half)}`}
      </small>
    </>
  );
}
