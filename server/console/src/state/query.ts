// A query of CQL in words.

import type { Query } from "../api/types";

const REASONS = {
  client: "waits until its client reads",
  turn: "waits for its turn",
  memory: "waits for memory",
};

/** Returns the state of a query, with the reason for a wait. */
export function queryState({ state, waits_for }: Query): string {
  if (state === "running") return "runs";
  if (state === "ending") return "ends";
  return waits_for === null ? "waits" : REASONS[waits_for];
}

/** Returns who sent a query: its role, if the server has logins, and its address. */
export function clientOf({ user, address }: Query): string {
  return user === null ? address : `${user} at ${address}`;
}
