// How much of the past is shown.

import { frozen } from "../api/frozen";
import { RANGES, range } from "../state/live";

export function Ranges() {
  if (frozen !== null) return null;
  return (
    <div class="segments" role="group" aria-label="How much of the past">
      {RANGES.map(({ seconds, label }) => (
        <button
          key={seconds}
          aria-pressed={range.value === seconds}
          onClick={() => (range.value = seconds)}
        >
          {label}
        </button>
      ))}
    </div>
  );
}
