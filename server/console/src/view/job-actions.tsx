// What can be done with a job.

import { change } from "../api/request";
import type { JobView } from "../api/types";
import { type Job, isOver } from "../state/job";
import { views } from "../state/live";
import { open, say } from "../state/panels";
import { isAdmin, mayChange } from "../state/session";

export function JobActions({ job }: { job: Job }) {
  if (job.isMaintenance ? !isAdmin.value : !mayChange.value) return null;
  if (isOver(job)) {
    if (job.isMaintenance) return null;
    const edit = () => open({ kind: "submit", from: job.request });
    if (job.state === "succeeded") {
      return (
        <button aria-label={`Submit ${job.name} ${job.id} again`} onClick={edit}>
          Again
        </button>
      );
    }
    return (
      <>
        <button aria-label={`Retry ${job.name} ${job.id}`} onClick={() => void retry(job)}>
          Retry
        </button>
        <button aria-label={`Edit the request of ${job.name} ${job.id}`} onClick={edit}>
          Edit
        </button>
      </>
    );
  }
  if (job.state === "unfinished") {
    return (
      <>
        <button aria-label={`Restart ${job.name} ${job.id}`} onClick={() => void act(job, "restart", "runs again")}>
          Restart
        </button>
        <button
          aria-label={`Discard ${job.name} ${job.id}`}
          onClick={() =>
            open({
              kind: "confirm",
              title: `Discard ${job.name}?`,
              text: "It will be recorded as cancelled, and not start again.",
              verb: "Discard",
              act: () => act(job, "discard", "was discarded"),
            })
          }
        >
          Discard
        </button>
      </>
    );
  }
  return (
    <button
      aria-label={`Cancel ${job.name} ${job.id}`}
      onClick={() =>
        open({
          kind: "confirm",
          title: `Cancel ${job.name}?`,
          text: `Job ${job.id} stops, and what it has done is lost.`,
          verb: "Cancel the job",
          act: () => cancel(job),
        })
      }
    >
      Cancel
    </button>
  );
}

async function cancel(job: Job): Promise<void> {
  const answer = await change<{ stopping: boolean }>("POST", `/v1/jobs/${job.id}/cancel`);
  say(answer.stopping ? `${job.name} stops` : `${job.name} has ended, or is putting its output in place`);
  await views.refresh();
}

/** Submits the request of a job that failed or was cancelled again, as another job. */
async function retry(job: Job): Promise<void> {
  try {
    const { record } = await change<JobView>("POST", `/v1/jobs/${job.id}/retry`);
    say(`${job.name} was submitted again as ${record.id}`);
  } catch (problem) {
    say((problem as Error).message, true);
  }
  await views.refresh();
}

async function act(job: Job, what: string, done: string): Promise<void> {
  try {
    await change("POST", `/v1/jobs/${job.id}/${what}`);
    say(`${job.name} ${done}`);
  } catch (problem) {
    say((problem as Error).message, true);
  }
  await views.refresh();
}
