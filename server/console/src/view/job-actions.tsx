// What can be done with a job.

import { change } from "../api/request";
import { type Job, isOver } from "../state/job";
import { views } from "../state/live";
import { open, say } from "../state/panels";
import { mayChange, mayMaintain } from "../state/session";

export function JobActions({ job }: { job: Job }) {
  if (job.isMaintenance ? !mayMaintain.value : !mayChange.value) return null;
  if (isOver(job)) {
    if (job.isMaintenance) return null;
    return (
      <button aria-label={`Submit ${job.name} ${job.id} again`} onClick={() => open({ kind: "submit", from: job.request })}>
        Again
      </button>
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
              text: "It will be recorded as failed, and not start again.",
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

async function act(job: Job, what: string, done: string): Promise<void> {
  try {
    await change("POST", `/v1/jobs/${job.id}/${what}`);
    say(`${job.name} ${done}`);
  } catch (problem) {
    say((problem as Error).message, true);
  }
  await views.refresh();
}
