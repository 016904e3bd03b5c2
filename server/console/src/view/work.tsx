// The page of the load and the jobs.

import { frozen } from "../api/frozen";
import { hypothesisNote } from "../chart/lanes";
import { Timeline } from "../chart/timeline";
import { now } from "../state/clock";
import { load } from "../state/live";
import { hypothesis } from "../state/panels";
import { Jobs } from "./jobs";
import { Missing } from "./missing";
import { Ranges } from "./ranges";
import { Snapshots } from "./snapshots";
import { Summary } from "./summary";
import { Tables } from "./tables";

export function Work() {
  const what = hypothesis.value;
  return (
    <main class="page">
      {frozen !== null && (
        <section class="notes" aria-label="In words">
          {frozen.notes.map((note) => (
            <p key={note}>{note}</p>
          ))}
        </section>
      )}
      <Summary />
      <section class="pictures" aria-label="Load and jobs over time">
        <div class="tools">
          <Ranges />
          {what !== null && (
            <p class="what">
              What if: {what.name}, {hypothesisNote(what.answer, now.value)}
              <button class="quiet" onClick={() => (hypothesis.value = null)}>
                Dismiss
              </button>
            </p>
          )}
        </div>
        <Missing of={load} what="The load" />
        <Timeline />
      </section>
      <Jobs />
      <div class="store">
        <Tables />
        <Snapshots />
      </div>
    </main>
  );
}
