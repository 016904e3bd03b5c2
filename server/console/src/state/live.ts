// All that the page knows of the server, kept up to date by its events and by asking.

import { computed, effect, signal } from "@preact/signals";
import { frozen } from "../api/frozen";
import { get } from "../api/request";
import { Stream } from "../api/stream";
import type {
  Forecast,
  GuardAction,
  Load,
  Sample,
  Snapshot,
} from "../api/types";
import { now, tell, tick } from "./clock";
import { Colours } from "./colours";
import { isOver, jobOf, outlook } from "./job";
import { type JobList, NEWEST, refreshed } from "./job-list";
import { allPages } from "./pages";
import { hypothesis, panel } from "./panels";
import { Resource } from "./resource";
import { coarsened, grown, guarded, joined } from "./series";
import { ask as askSession } from "./session";
import { TABLES_STEP, type TableChoice, type TableList, refreshedTables } from "./tables";

/** What can be chosen to be shown of the past, in seconds. */
export const RANGES = [
  { seconds: 300, label: "5 min" },
  { seconds: 900, label: "15 min" },
  { seconds: 3600, label: "1 h" },
  { seconds: 21_600, label: "6 h" },
  { seconds: 86_400, label: "1 d" },
] as const;

export const range = signal<number>(frozen?.seconds ?? 300);

/** How old what is shown may be until it is called stale, in milliseconds. */
const STALE_MS = 4000;

export type Link = "connecting" | "live" | "broken" | "frozen";

const link = signal<Link>("connecting");
const heard = signal<number | null>(null);

/** Whether events come. */
export const isLinked = computed(() => link.value);
/** For how long nothing has been heard, in milliseconds; `null`: all is well, or nothing ever was. */
export const silence = computed(() => {
  if (heard.value === null) return null;
  const silent = now.value - heard.value;
  return silent > STALE_MS ? silent : null;
});

type LoadEvent = (load: Load) => Load;

/** The events since the load was requested: the answer may be older. `null` while no request is under way. */
let sinceRequest: LoadEvent[] | null = null;

export const load = new Resource<Load>(async () => {
  const events: LoadEvent[] = [];
  sinceRequest = events;
  try {
    const answer = joined(await get<Load>(`/v1/load?seconds=${range.value}`));
    tell(answer.now_unix_ms);
    tick();
    heard.value = now.value;
    return events.reduce((load, event) => event(load), answer);
  } finally {
    sinceRequest = null;
  }
});

export const forecast = new Resource<Forecast>(() =>
  get<Forecast>(`/v1/forecast?seconds=${Math.min(86_400, range.value * 2)}`),
);

const colours = new Colours();
/** The part of the time span for which a job keeps its look after it left the pictures. */
const LOOK_MARGIN = 0.1;

/** The number of the newest jobs that the list has at least. */
export const jobsShown = signal(NEWEST);

export const views: Resource<JobList> = new Resource<JobList>(async () => {
  // Neither the time nor the list itself, whose changes would refresh it.
  const [before, sinceMs] = [views.value.peek(), now.peek() - range.value * 1000];
  const list = await refreshed(before, jobsShown.value, sinceMs);
  // A point of the pictures may be of a time just before them.
  const keptMs = sinceMs - LOOK_MARGIN * range.value * 1000;
  const inPictures = list.jobs.filter(({ record }) => record.ended_unix_ms === null || record.ended_unix_ms >= keptMs);
  colours.keep(new Set(inPictures.map((view) => view.record.id)));
  // Colours in the order in which jobs came, also after the page was opened anew.
  const atWork = inPictures.filter((view) => view.record.ended_unix_ms === null);
  atWork.map((view) => view.record.id).sort().forEach((id) => colours.of(id));
  return list;
});

/** The newest first. */
export const jobs = computed(() => {
  const all = (views.value.value?.jobs ?? []).map(jobOf);
  return all.sort((a, b) => (a.id < b.id ? 1 : -1));
});
export const unended = computed(() => jobs.value.filter((job) => !isOver(job)));
/** The jobs that have ended, the last one first. */
export const ended = computed(() => jobs.value.filter(isOver).sort((a, b) => b.endedMs! - a.endedMs!));

/** How many will miss their goals. */
export const late = computed(
  () => unended.value.filter((job) => outlook(job, now.value) === "late").length,
);

export const snapshots = new Resource<Snapshot[]>(() => allPages("/v1/snapshots", "snapshots"));

/** The tables that are wanted. */
export const tableChoice = signal<TableChoice>({ text: "", count: TABLES_STEP });

export const tables: Resource<TableList> = new Resource<TableList>(() => {
  const names = (snapshots.value.peek() ?? []).map((one) => [one.keyspace, one.name, one.sequence]);
  return refreshedTables(tables.value.peek(), tableChoice.peek(), JSON.stringify(names));
});

/** The colour of a job, as a value of CSS. */
export function colourOf(id: string): string {
  return `var(--job-${colours.of(id).colour})`;
}

/** The texture over the colour of a job, from 0: none. Jobs beyond the eighth have one. */
export function textureOf(id: string): number {
  return colours.of(id).texture;
}

/** Asks for everything, and again from time to time. The answer stops it. */
export function start(): () => void {
  const refreshAll = () => {
    for (const resource of [load, views, forecast, snapshots, tables]) void resource.refresh();
  };
  const stopChoosing = effect(() => {
    void tableChoice.value;
    void tables.refresh();
  });
  if (frozen !== null) {
    link.value = "frozen";
    refreshAll();
    return stopChoosing;
  }
  const stream = new Stream("/v1/events", {
    opened: () => {
      link.value = "live";
      refreshAll();
    },
    broken: () => (link.value = "broken"),
    event: take,
  });
  const timers = [
    setInterval(tick, 1000),
    setInterval(() => {
      // Progress and predictions have no events.
      if (unended.value.length > 0 || views.problem.value !== null) void views.refresh();
      if (link.value === "broken") void load.refresh();
    }, 2000),
    setInterval(() => void tables.refresh(), 5000),
    setInterval(() => {
      void forecast.refresh();
      void snapshots.refresh();
    }, 15_000),
  ];
  const stopAsking = effect(() => {
    void range.value;
    void load.refresh();
    void forecast.refresh();
  });
  const stopListing = effect(() => {
    void jobsShown.value;
    void range.value;
    void views.refresh();
  });
  // A session ends, and tokens are revoked.
  const stopWatching = effect(() => {
    const all = [load, views, forecast, snapshots, tables];
    if (all.some((resource) => resource.problem.value?.status === 401)) void askSession();
  });
  void snapshots.refresh();
  return () => {
    stopWatching();
    stopChoosing();
    stream.close();
    timers.forEach(clearInterval);
    stopAsking();
    stopListing();
    for (const resource of [load, views, forecast, snapshots, tables]) resource.clear();
    heard.value = null;
    link.value = "connecting";
    tableChoice.value = { text: "", count: TABLES_STEP };
    // Whoever logs in next did not open these.
    panel.value = null;
    hypothesis.value = null;
  };
}

function take(kind: string, data: unknown): void {
  switch (kind) {
    case "sample": {
      const sample = data as Sample;
      tell(sample.at_unix_ms);
      tick();
      heard.value = now.value;
      link.value = "live";
      changeLoad((load) => grown(load, sample, range.value * 1000));
      break;
    }
    case "coarse":
      changeLoad((load) => coarsened(load, data as Sample, range.value * 1000));
      break;
    case "guard":
      changeLoad((load) => guarded(load, data as GuardAction));
      break;
    case "job":
      void views.refresh();
      break;
    case "snapshot":
      void snapshots.refresh();
      void tables.refresh();
      break;
    case "reset":
      // If the clock was set back, the events before have times that are still to come.
      sinceRequest?.splice(0);
      void load.refresh();
      void views.refresh();
      break;
  }
}

function changeLoad(event: LoadEvent): void {
  sinceRequest?.push(event);
  const before = load.value.value;
  if (before !== null) load.value.value = event(before);
}
