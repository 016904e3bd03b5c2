// Backups: those that are being made, with their progress, and those below the server's folder.

import type { Backup } from "../api/types";
import { now } from "../state/clock";
import { type Job, doneAtMs } from "../state/job";
import { backups, runningBackups } from "../state/server";
import { bytes } from "../text/number";
import { clock, relative } from "../text/time";
import { JobActions } from "./job-actions";
import { Progress } from "./jobs";
import { Missing } from "./missing";

/** The status by which a server without a folder for backups refuses their list. */
const NO_FOLDER = 409;

export function Backups() {
  const all = backups.value.value;
  const problem = backups.problem.value;
  const running = runningBackups.value;
  const sorted = [...(all ?? [])].sort((a, b) => b.created_unix_ms - a.created_unix_ms);
  return (
    <section class="backups" aria-labelledby="backups-title">
      <div class="section-head">
        <h2 id="backups-title">Backups</h2>
        {all !== null && all.length > 0 && (
          <span class="note">{bytes(all.reduce((sum, one) => sum + one.bytes, 0))}, the newest first</span>
        )}
      </div>
      {problem?.status === NO_FOLDER ? (
        <p class="empty">{problem.message}</p>
      ) : (
        <Missing of={backups} what="The list of backups" />
      )}
      {all !== null && all.length === 0 && running.length === 0 && (
        <p class="empty">
          There is no backup. <code>ebb backup</code> makes one.
        </p>
      )}
      {sorted.length + running.length > 0 && (
        <table class="rows">
          <caption class="sr-only">Backups</caption>
          <thead>
            <tr>
              <th scope="col">Backup</th>
              <th scope="col">Made</th>
              <th scope="col" class="number">
                Size
              </th>
              <th scope="col">
                <span class="sr-only">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {running.map((job) => (
              <Running key={job.id} job={job} />
            ))}
            {sorted.map((backup) => (
              <Row key={backup.name} backup={backup} />
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function Running({ job }: { job: Job }) {
  const nowMs = now.value;
  const doneAt = doneAtMs(job, nowMs);
  return (
    <tr data-job={job.id} data-state={job.state}>
      <th scope="row">{job.output}</th>
      <td class="progress" data-label="Progress">
        <Progress job={job} />
      </td>
      <td class={doneAt === null ? "number none" : "number"} data-label="Done at">
        {doneAt === null ? "–" : `done ${relative(doneAt, nowMs)}`}
      </td>
      <td class="row-actions">
        <JobActions job={job} />
      </td>
    </tr>
  );
}

function Row({ backup }: { backup: Backup }) {
  const { name, created_unix_ms } = backup;
  return (
    <tr data-backup={name}>
      <th scope="row">{name}</th>
      <td data-label="Made">
        {clock(created_unix_ms, now.value, false)}
        <small>{relative(created_unix_ms, now.value)}</small>
      </td>
      <td class="number" data-label="Size">
        {bytes(backup.bytes)}
      </td>
      <td class="row-actions" />
    </tr>
  );
}
