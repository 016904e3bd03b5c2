// The server itself: the queries of CQL that it runs, its backups, and its configuration. They are
// requested only while the page of the server is shown.

import { computed, effect } from "@preact/signals";
import { get } from "../api/request";
import type { Backup, Configuration, Query } from "../api/types";
import { unended } from "./live";
import { allPages } from "./pages";
import { Resource } from "./resource";
import { isAdmin } from "./session";

/** The time between two requests for the queries, in milliseconds. */
const QUERIES_MS = 2000;
/** The same for backups: a command of the machine may have made or removed one. */
const BACKUPS_MS = 15_000;

export const queries = new Resource<Query[]>(() => allPages("/v1/queries", "queries"));

export const backups = new Resource<Backup[]>(() => allPages("/v1/backups", "backups"));

/** It does not change while a server runs. */
export const configuration = new Resource<Configuration>(() => get<Configuration>("/v1/config"));

/** The backups that are being made: they are jobs. */
export const runningBackups = computed(() => unended.value.filter((job) => job.name === "backup"));
const runningIds = computed(() => runningBackups.value.map((job) => job.id).join());

/** Requests all of it now and from time to time, until the returned function is called. */
export function watchServer(): () => void {
  const stopWatching = effect(() => {
    void runningIds.value;
    void backups.refresh();
  });
  const timers = [setInterval(() => void backups.refresh(), BACKUPS_MS)];
  if (isAdmin.value) {
    void configuration.refresh();
    void queries.refresh();
    timers.push(setInterval(() => void queries.refresh(), QUERIES_MS));
  }
  return () => {
    stopWatching();
    timers.forEach(clearInterval);
    for (const resource of [queries, backups, configuration]) resource.clear();
  };
}
