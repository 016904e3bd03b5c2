// The server's time, as far as it is known here.

import { signal } from "@preact/signals";

/** Milliseconds by which the server's clock is ahead of the browser's. */
let aheadMs = 0;
let isKnown = false;

/** The server's time, a step each second. */
export const now = signal(Date.now());

/** The server said what time it is. */
export function tell(serverMs: number): void {
  const ahead = serverMs - Date.now();
  // Answers take time, so the server is never told to be earlier by a little.
  if (!isKnown || Math.abs(ahead - aheadMs) > 2000) aheadMs = ahead;
  else aheadMs = Math.max(aheadMs, ahead);
  isKnown = true;
}

export function tick(): void {
  now.value = Date.now() + aheadMs;
}
