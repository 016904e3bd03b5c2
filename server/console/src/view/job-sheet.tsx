// One job in full: where it stands, its request, its counters and the attempts at its tasks.

import { useEffect, useState } from "preact/hooks";
import { get } from "../api/request";
import type { Attempt, JobView } from "../api/types";
import { now } from "../state/clock";
import { jobOf } from "../state/job";
import { views } from "../state/live";
import { bytes, short } from "../text/number";
import { clock, duration } from "../text/time";
import { Dialog } from "./dialog";
import { JobActions } from "./job-actions";
import { Outcome } from "./jobs";
import { ProblemText } from "./problem-text";

/** Attempts that are shown, the latest. */
const ATTEMPTS_MAX = 50;

export function JobSheet({ id }: { id: string }) {
  const [fetched, setFetched] = useState<JobView | null>(null);
  const [attempts, setAttempts] = useState<Attempt[]>([]);
  const [problem, setProblem] = useState<string | null>(null);
  // The list has whole jobs, and is requested every two seconds. It drops old jobs: then the last answer is shown.
  const view = views.value.value?.jobs.find(({ record }) => record.id === id) ?? fetched;
  const job = view === null ? undefined : jobOf(view);
  useEffect(() => {
    const ask = async () => {
      try {
        setFetched(await get<JobView>(`/v1/jobs/${id}`));
        const answer = await get<Attempt[] | { attempts: Attempt[] }>(`/v1/jobs/${id}/attempts`);
        setAttempts(Array.isArray(answer) ? answer : answer.attempts);
        setProblem(null);
      } catch (error) {
        setProblem((error as Error).message);
      }
    };
    void ask();
  }, [id, job?.state, job?.done]);
  const nowMs = now.value;
  return (
    <Dialog title={job === undefined ? id : `${job.name} ${job.id}`} isSheet>
      <ProblemText problem={problem} />
      {job !== undefined && (
        <>
          <dl class="facts">
            <dt>State</dt>
            <dd>
              <Outcome job={job} />
            </dd>
            {job.cause !== null && (
              <>
                <dt>Cause</dt>
                <dd>{job.cause}</dd>
              </>
            )}
            <dt>Started</dt>
            <dd>
              {clock(job.startedMs, nowMs)}
              {job.begunMs !== job.startedMs && `, again ${clock(job.begunMs, nowMs)}`}
            </dd>
            {job.endedMs !== null && (
              <>
                <dt>Ended</dt>
                <dd>
                  {clock(job.endedMs, nowMs)}, after {duration((job.endedMs - job.begunMs) / 1000)}
                </dd>
              </>
            )}
            <dt>Done</dt>
            <dd>{job.done === "" ? "–" : job.done}</dd>
            {job.waits !== null && (
              <>
                <dt>Waits</dt>
                <dd>{job.waits}</dd>
              </>
            )}
            {job.prediction !== null && (
              <>
                <dt>Predicted</dt>
                <dd>
                  {clock(job.prediction.finish_unix_ms, nowMs)}, between{" "}
                  {clock(job.prediction.low_unix_ms, nowMs)} and {clock(job.prediction.high_unix_ms, nowMs)} (
                  {job.prediction.method})
                </dd>
              </>
            )}
          </dl>
          <div class="buttons">
            <JobActions job={job} />
          </div>
          <Counters counters={view?.end?.report.counters} />
          <h3>Request</h3>
          <pre tabIndex={0}>{JSON.stringify(job.request, null, 2)}</pre>
        </>
      )}
      {attempts.length > 0 && <Attempts attempts={attempts} />}
    </Dialog>
  );
}

function Counters({ counters }: { counters: Record<string, number> | undefined }) {
  if (counters === undefined) return null;
  const shown = Object.entries(counters).filter(([, value]) => value > 0);
  return (
    <details>
      <summary>Counters</summary>
      <dl class="facts">
        {shown.map(([name, value]) => (
          <>
            <dt key={name}>{name.replaceAll("_", " ")}</dt>
            <dd>{name.includes("bytes") ? bytes(value) : short(value)}</dd>
          </>
        ))}
      </dl>
    </details>
  );
}

function Attempts({ attempts }: { attempts: readonly Attempt[] }) {
  return (
    <details>
      <summary>Attempts at tasks ({attempts.length})</summary>
      <table class="small">
        <thead>
          <tr>
            <th scope="col">Task</th>
            <th scope="col" class="number">
              Took
            </th>
            <th scope="col" class="number">
              CPU
            </th>
            <th scope="col" class="number">
              Read
            </th>
            <th scope="col">Outcome</th>
          </tr>
        </thead>
        <tbody>
          {attempts.slice(-ATTEMPTS_MAX).map((one) => (
            <tr key={`${one.job} ${one.kind} ${one.index} ${one.attempt}`}>
              <th scope="row">
                {one.kind} {one.index}
                {one.attempt > 1 && `, attempt ${one.attempt}`}
              </th>
              <td class="number">{duration(one.ended_s - one.started_s)}</td>
              <td class="number">{duration(one.cpu_s)}</td>
              <td class="number">{bytes(one.bytes_in)}</td>
              <td>
                {one.outcome.kind} {one.outcome.cause}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}
