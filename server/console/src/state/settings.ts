// The settings of the server: which of them somebody chose, and their values as texts.

import type { Setting } from "../api/types";

/** Splits settings into those that somebody chose and those with their defaults. Both keep their order. */
export function bySource(settings: readonly Setting[]): { chosen: Setting[]; defaults: Setting[] } {
  return {
    chosen: settings.filter(({ source }) => source !== "default"),
    defaults: settings.filter(({ source }) => source === "default"),
  };
}

/** Returns a value as a text; `null` if the setting has none. */
export function valueText(value: unknown): string | null {
  if (value === null || value === "") return null;
  if (Array.isArray(value)) return value.length === 0 ? null : value.map(String).join(", ");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

const SOURCES: Record<Setting["source"], string> = {
  flag: "command line",
  environment: "environment",
  file: "file",
  default: "default",
};

/** Returns the origin of a value in words. */
export function sourceText(source: Setting["source"]): string {
  return SOURCES[source];
}
