// The pictures over one axis of time, with one cursor that a pointer or the keyboard moves.

import { signal } from "@preact/signals";
import type { Load, Sample } from "../api/types";
import { now } from "../state/clock";
import { type Job, finishMs, outlook } from "../state/job";
import { colourOf, forecast, jobs, load, range, textureOf, unended } from "../state/live";
import { hypothesis } from "../state/panels";
import { slackOf } from "../state/safety";
import { COARSE_MS, FINE_MS } from "../state/series";
import { cores, counted, percent, short } from "../text/number";
import { clock, duration, latency } from "../text/time";
import { boundOf } from "./bound";
import { Cores, type Goal, beyond, coresAt } from "./cores";
import { forecastName } from "./forecast-name";
import { type Decision, Guard, decisionAt } from "./guard";
import { horizonMs } from "./horizon";
import { inLanes } from "./lane-choice";
import { Lanes } from "./lanes";
import { Latency, objectiveText } from "./latency";
import { Entry, Legend } from "./legend";
import { LEFT, RIGHT } from "./plane";
import { linear } from "./scale";
import { bucketMs, thin } from "./thin";
import { useWidth } from "./width";

/** Goals beyond the pictures that the legend names, at most. */
const BEYOND_MAX = 2;
/** A pause of so many samples is drawn as a gap. */
const GAP_STEPS = 3.5;

const cursor = signal<number | null>(null);

export function Timeline() {
  const [box, width] = useWidth();
  return (
    <div ref={box} class="timeline">
      {width > 0 && load.value.value !== null && <Pictures load={load.value.value} width={width} />}
    </div>
  );
}

function Pictures({ load, width }: { load: Load; width: number }) {
  const nowMs = now.value;
  const pastMs = range.value * 1000;
  const lanes = inLanes(unended.value, nowMs);
  const what = hypothesis.value;
  const ahead = unended.value.map((job) => ({
    finishMs: finishMs(job, nowMs),
    goalMs: job.goalMs,
  }));
  if (what !== null) ahead.push({ finishMs: what.answer.finish_unix_ms, goalMs: what.goalMs });
  const x = linear([nowMs - pastMs, nowMs + horizonMs(pastMs, nowMs, ahead)], [LEFT, width - RIGHT]);
  const past = x(nowMs) - LEFT;
  const bucket = bucketMs(pastMs, Math.max(60, past / 1.5));
  const samples = thin(load.samples.filter((s) => s.at_unix_ms >= nowMs - pastMs - bucket), bucket, load.objective);
  const stepMs = pastMs > FINE_MS ? COARSE_MS : 1000;
  const gapMs = GAP_STEPS * Math.max(bucket, stepMs);
  const goals = goalsOf(jobs.value, nowMs);
  const at = cursor.value;
  const picked = pick(samples, at, gapMs);
  const shown = picked ?? (at === null ? samples.at(-1) : undefined);
  const ids = [...jobs.value].reverse().map((job) => job.id);
  const visible = jobs.value.filter((job) => samples.some((s) => (s.shares?.[job.id] ?? 0) > 0));
  const isNarrow = width < 560;
  const shared = { x, nowMs, cursorMs: at };
  const decision = decisionAt(load, at ?? nowMs);
  const { action } = decision;
  const slack = shown === undefined ? null : slackOf(load.objective, shown);
  const far = beyond(goalsOf(unended.value, nowMs), x, nowMs);
  const unnamed = far.slice(BEYOND_MAX);
  const first = load.samples.at(-1) === undefined;
  return (
    <>
      <Legend
        title="Cores"
        note={at === null ? `of ${load.cores}` : clock(at, nowMs)}
        entries={[
          <Entry key="load" swatch="load" name="online load" value={shown && cores(shown.load_cores)} />,
          <Entry key="others" swatch="others" name="other processes" value={shown && cores(shown.others_cores)} />,
          ...visible.slice(0, 6).map((job) => (
            <Entry key={job.id} colour={colourOf(job.id)} texture={textureOf(job.id)} name={job.name} value={shown && cores(shown.shares?.[job.id] ?? 0)} />
          )),
          ...(visible.length > 6 ? [<Entry key="more" name={`and ${counted(visible.length - 6, "other job")}`} />] : []),
          <Entry key="capacity" swatch="capacity" name="jobs may use" value={shown && cores(shown.capacity_cores)} />,
          ...(forecast.value.value === null ? [] : [<Entry key="forecast" swatch="forecast" name={forecastName(forecast.value.value)} />]),
          ...far.slice(0, BEYOND_MAX).map((goal) => (
            <Entry key={`goal ${goal.id}`} swatch="beyond" name={goal.text} isLate={goal.isLate} />
          )),
          ...(unnamed.length > 0
            ? [
                <Entry
                  key="goals"
                  name={`and ${counted(unnamed.length, "other goal")}`}
                  isLate={unnamed.some((goal) => goal.isLate)}
                />,
              ]
            : []),
        ]}
      />
      {first && <p class="hint">There is no measurement yet. The first comes within seconds.</p>}
      <Slider x={x} text={shown === undefined ? "nothing was measured then" : readout(load, shown, decision)}>
        <Cores
          {...shared}
          load={load}
          samples={samples}
          forecast={forecast.value.value}
          goals={goals}
          ids={ids}
          height={coresHeight(isNarrow)}
          gapMs={gapMs}
        />
        {lanes.length + (what === null ? 0 : 1) > 0 && <Lanes {...shared} jobs={lanes} hypothesis={what} />}
        <Legend
          title="Latency"
          note={latencyNote(load, bucket > stepMs ? bucket : null)}
          entries={[
            <Entry key="p50" swatch="p50" name="p50" value={shown && latency(shown.p50_us)} />,
            <Entry key="p99" swatch="p99" name="p99" value={shown && latency(shown.p99_us)} />,
            <Entry key="p999" swatch="p999" name="p99.9" value={shown && latency(shown.p999_us)} />,
            ...(load.objective === null
              ? []
              : [<Entry key="objective" swatch="objective" name="objective" value={shown && latency(boundOf(load.objective, shown))} />]),
            <Entry key="rate" name="requests" value={shown && `${short(shown.requests_per_s)}/s`} />,
          ]}
        />
        <Latency {...shared} samples={samples} objective={load.objective} height={isNarrow ? 96 : 120} gapMs={gapMs} />
        <Legend
          title="Guard"
          note={decision.words}
          entries={
            action === null
              ? []
              : [
                  <Entry key="allowed" swatch="allowed" name="allows of what is left" value={percent(action.allowed_ratio)} />,
                  ...(slack === null ? [] : [<Entry key="slack" name="slack" value={percent(slack)} />]),
                ]
          }
        />
        <Guard {...shared} actions={load.guard} cutMs={load.guard_cut_unix_ms ?? null} height={44} />
      </Slider>
    </>
  );
}

/** A good part of the screen, so that a wall's is used. */
function coresHeight(isNarrow: boolean): number {
  return Math.round(Math.min(520, Math.max(isNarrow ? 200 : 260, window.innerHeight * 0.32)));
}

/** The pictures as something that can be moved over: by pointer, and by arrow keys. */
function Slider({ x, text, children }: { x: ReturnType<typeof linear>; text: string; children: preact.ComponentChildren }) {
  const nowMs = now.value;
  const [from] = x.values;
  const at = cursor.value ?? nowMs;
  const step = (nowMs - from) / 60;
  const move = (to: number) => (cursor.value = Math.min(nowMs, Math.max(from, to)));
  const onKeyDown = (event: KeyboardEvent) => {
    const moves: Record<string, () => void> = {
      ArrowLeft: () => move(at - step),
      ArrowRight: () => (at + step >= nowMs ? (cursor.value = null) : move(at + step)),
      PageUp: () => move(at - 10 * step),
      PageDown: () => move(at + 10 * step),
      Home: () => move(from),
      End: () => (cursor.value = null),
      Escape: () => (cursor.value = null),
    };
    const act = moves[event.key];
    if (act === undefined) return;
    event.preventDefault();
    act();
  };
  return (
    <div
      class="slider"
      role="slider"
      tabIndex={0}
      aria-label="Time in the pictures"
      aria-valuemin={Math.round((from - nowMs) / 1000)}
      aria-valuemax={0}
      aria-valuenow={Math.round((at - nowMs) / 1000)}
      aria-valuetext={`${clock(at, nowMs)}: ${text}`}
      onKeyDown={onKeyDown}
      onPointerMove={(event) => {
        const left = event.currentTarget.getBoundingClientRect().left;
        const to = x.invert(event.clientX - left);
        cursor.value = to > nowMs || to < from ? null : to;
      }}
      onPointerLeave={() => (cursor.value = null)}
    >
      {children}
    </div>
  );
}

function goalsOf(jobs: readonly Job[], nowMs: number): Goal[] {
  return jobs.flatMap((job) => {
    if (job.goalMs === null) return [];
    const sight = outlook(job, nowMs);
    return [{ id: job.id, name: job.name, atMs: job.goalMs, isLate: sight === "late" || sight === "missed" }];
  });
}

/** The sample next to an instant. */
function pick(samples: readonly Sample[], at: number | null, gapMs: number): Sample | undefined {
  if (at === null) return undefined;
  let best: Sample | undefined;
  for (const sample of samples) {
    const isNearer = best === undefined || Math.abs(sample.at_unix_ms - at) < Math.abs(best.at_unix_ms - at);
    if (isNearer) best = sample;
  }
  return best !== undefined && Math.abs(best.at_unix_ms - at) <= gapMs ? best : undefined;
}

/** The objective, and what a point of the picture stands for: with a bucket the highest quantiles of its samples. */
export function latencyNote({ objective }: Load, bucketMs: number | null): string {
  const words = objective === null ? "no objective" : objectiveText(objective);
  return bucketMs === null ? words : `${words}; a point is the highest of ${duration(bucketMs / 1000)}`;
}

function readout(load: Load, sample: Sample, decision: Decision): string {
  const running = Object.values(sample.shares ?? {}).filter((share) => share > 0).length;
  const requests = `p99 ${latency(sample.p99_us)}; ${short(sample.requests_per_s)} requests per second`;
  const guard = decision.clause === null ? "" : `; ${decision.clause}`;
  return `${coresAt(load, sample)}; ${counted(running, "job")}; ${requests}${guard}`;
}
