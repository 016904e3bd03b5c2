// The page of somebody who is logged in.

import { useEffect } from "preact/hooks";
import { hypothesisNote } from "../chart/lanes";
import { Timeline } from "../chart/timeline";
import { frozen } from "../api/frozen";
import { late, load, start } from "../state/live";
import { hypothesis } from "../state/panels";
import { now } from "../state/clock";
import { Header } from "./header";
import { Jobs } from "./jobs";
import { Messages } from "./messages";
import { Panels } from "./panels";
import { watchKeys } from "./shortcuts";
import { Ranges } from "./ranges";
import { Missing } from "./missing";
import { Snapshots } from "./snapshots";
import { Summary } from "./summary";
import { Tables } from "./tables";

export function Console() {
  useEffect(start, []);
  useEffect(watchKeys, []);
  useEffect(() => {
    document.title = late.value === 0 ? "ebb" : `${late.value} late – ebb`;
  }, [late.value]);
  const what = hypothesis.value;
  return (
    <>
      <a class="skip" href="#jobs">
        To the jobs
      </a>
      <Header />
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
      <Panels />
      <Messages />
    </>
  );
}
