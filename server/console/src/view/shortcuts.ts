// Single keys that do something. They can be turned off: a voice may press them by accident.

import { signal } from "@preact/signals";
import { frozen } from "../api/frozen";
import { pageName, showPage } from "../state/address";
import { RANGES, range } from "../state/live";
import { open, panel } from "../state/panels";
import { mayChange } from "../state/session";
import { THEMES, setTheme, theme } from "../state/theme";

export interface Shortcut {
  key: string;
  what: string;
  act: () => void;
}

const KEY = "ebb-shortcuts";

export const isOn = signal(localStorageSays() !== "off");

export function setOn(on: boolean): void {
  isOn.value = on;
  try {
    localStorage.setItem(KEY, on ? "on" : "off");
  } catch {
    // It holds for this page.
  }
}

/** Those of a page of a server. A file takes no changes, and has one page and one time span. */
const OF_SERVER: readonly Shortcut[] = [
  { key: "n", what: "new job", act: () => mayChange.value && open({ kind: "submit" }) },
  { key: "w", what: "what if", act: () => mayChange.value && open({ kind: "what-if" }) },
  { key: "s", what: "new snapshot", act: () => mayChange.value && open({ kind: "snapshot" }) },
  {
    key: "p",
    what: "the other page: the server, or load and jobs",
    act: () => showPage(pageName.value === "server" ? "work" : "server"),
  },
  ...RANGES.map(({ seconds, label }, i) => ({
    key: String(i + 1),
    what: `the past ${label}`,
    act: () => void (range.value = seconds),
  })),
];

export const SHORTCUTS: readonly Shortcut[] = [
  ...(frozen === null ? OF_SERVER : []),
  { key: "j", what: "to the jobs", act: () => document.getElementById("jobs")?.focus() },
  {
    key: "t",
    what: "light, dark, or as the system says",
    act: () => setTheme(THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length]!),
  },
  { key: "?", what: "this help", act: () => open({ kind: "help" }) },
];

/** Listens until the answer is called. */
export function watchKeys(): () => void {
  const pressed = (event: KeyboardEvent) => {
    if (!isOn.value || event.ctrlKey || event.metaKey || event.altKey || panel.value !== null) return;
    const target = event.target as HTMLElement;
    if (target.closest("input, select, textarea") !== null) return;
    const shortcut = SHORTCUTS.find(({ key }) => key === event.key);
    if (shortcut === undefined) return;
    event.preventDefault();
    shortcut.act();
  };
  window.addEventListener("keydown", pressed);
  return () => window.removeEventListener("keydown", pressed);
}

function localStorageSays(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}
