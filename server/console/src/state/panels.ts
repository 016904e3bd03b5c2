// What lies over the page: one dialog at a time, and messages that go by themselves.

import { signal } from "@preact/signals";
import type { JobRequest, WhatIf } from "../api/types";

export type Panel =
  | { kind: "submit"; from?: JobRequest }
  | { kind: "what-if" }
  | { kind: "job"; id: string }
  | { kind: "snapshot" }
  | { kind: "help" }
  | { kind: "confirm"; title: string; text: string; verb: string; act: () => Promise<void> };

export const panel = signal<Panel | null>(null);

export function open(next: Panel): void {
  panel.value = next;
}

export function close(): void {
  panel.value = null;
}

export interface Hypothesis {
  name: string;
  answer: WhatIf;
  /** `null` without a goal. */
  goalMs: number | null;
}

/** The answer to the last what-if: drawn into the picture until it is dismissed. */
export const hypothesis = signal<Hypothesis | null>(null);

/** Returns what to draw of an answer. A goal, in seconds, counts from the answer. */
export function hypothesisOf(name: string, answer: WhatIf, goalS: number | null | undefined, nowMs: number): Hypothesis {
  return { name, answer, goalMs: goalS == null ? null : nowMs + goalS * 1000 };
}

export interface Message {
  text: string;
  isProblem: boolean;
}

/** Problems stay twice as long: they have to be read. */
const MESSAGE_MS = 5000;

export const message = signal<Message | null>(null);
let timer = 0;

export function say(text: string, isProblem = false): void {
  message.value = { text, isProblem };
  window.clearTimeout(timer);
  timer = window.setTimeout(() => (message.value = null), isProblem ? 2 * MESSAGE_MS : MESSAGE_MS);
}
