// One job in full: where it stands, its request, its counters and the attempts at its tasks.

import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../api/request";
import type { JobView } from "../api/types";
import { type AttemptPage, attemptPage, pauseMs, taskCounts } from "../state/attempts";
import { now } from "../state/clock";
import { BEYOND_WORDS, jobOf } from "../state/job";
import { views } from "../state/live";
import { bytes, short } from "../text/number";
import { clock, duration } from "../text/time";
import { Dialog } from "./dialog";
import { JobActions } from "./job-actions";
import { Outcome, Took } from "./jobs";
import { ProblemText } from "./problem-text";

export function JobSheet({ id }: { id: string }) {
  const [fetched, setFetched] = useState<JobView | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  // The list has whole jobs, and is requested every two seconds. It drops old jobs: then the last answer is shown.
  const view = views.value.value?.jobs.find(({ record }) => record.id === id) ?? fetched;
  const job = view === null ? undefined : jobOf(view);
  useEffect(() => {
    const ask = async () => {
      try {
        setFetched(await get<JobView>(`/v1/jobs/${id}`));
        setProblem(null);
      } catch (error) {
        setProblem((error as Error).message);
      }
    };
    void ask();
  }, [id, job?.state]);
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
                  {clock(job.endedMs, nowMs)}, after <Took job={job} />
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
            {job.beyond !== null && (
              <>
                <dt>Predicted</dt>
                <dd>
                  {BEYOND_WORDS} ({job.beyond.method})
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
      {job !== undefined && !job.isMaintenance && <Attempts id={id} counts={taskCounts(view)} />}
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

/**
 * A page of attempts, requested while it is open: at once, and again when a task has ended, which `counts` shows, but
 * at most every few seconds.
 */
function Attempts({ id, counts }: { id: string; counts: string }) {
  const [isOpen, setOpen] = useState(false);
  /** Where the pages begin up to the one that is shown. */
  const [begins, setBegins] = useState<readonly (string | null)[]>([null]);
  const [page, setPage] = useState<AttemptPage | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const asked = useRef<{ begin: string | null; atMs: number } | null>(null);
  const begin = begins.at(-1)!;
  const shown = useRef(begin);
  shown.current = begin;
  useEffect(() => {
    if (!isOpen) return;
    const ask = async () => {
      asked.current = { begin, atMs: performance.now() };
      try {
        const answer = await attemptPage(id, begin);
        if (shown.current !== begin) return;
        setPage(answer);
        setProblem(null);
      } catch (error) {
        if (shown.current === begin) setProblem((error as Error).message);
      }
    };
    const last = asked.current?.begin === begin ? asked.current.atMs : null;
    const timer = setTimeout(() => void ask(), pauseMs(last, performance.now()));
    return () => clearTimeout(timer);
  }, [id, isOpen, begin, counts]);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Attempts at tasks</summary>
      <ProblemText problem={problem} />
      {page === null ? problem === null && <p class="loading">Loading …</p> : <AttemptTable page={page} />}
      {page !== null && (begins.length > 1 || page.next !== null) && (
        <div class="buttons">
          <button type="button" disabled={begins.length === 1} onClick={() => setBegins(begins.slice(0, -1))}>
            Earlier attempts
          </button>
          <button type="button" disabled={page.next === null} onClick={() => setBegins([...begins, page.next])}>
            Later attempts
          </button>
        </div>
      )}
    </details>
  );
}

export function AttemptTable({ page: { attempts } }: { page: AttemptPage }) {
  if (attempts.length === 0) return <p class="empty">No attempt has ended.</p>;
  return (
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
        {attempts.map((one) => (
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
  );
}
