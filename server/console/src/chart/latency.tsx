// Latencies of the load against their objective.

import type { Objective, Sample } from "../api/types";
import { quantileOf } from "../state/safety";
import { latency } from "../text/time";
import { boundOf, partsOver } from "./bound";
import { line, steps } from "./path";
import { Plane } from "./plane";
import { type Scale, logarithmic, powers } from "./scale";

interface LatencyProps {
  samples: readonly Sample[];
  objective: Objective | null;
  x: Scale;
  height: number;
  nowMs: number;
  cursorMs: number | null;
  gapMs: number;
}

type Of = (sample: Sample) => number | null;

export function Latency({ samples, objective, x, height, nowMs, cursorMs, gapMs }: LatencyProps) {
  const [left, right] = x.pixels;
  const all = samples.flatMap((s) => [s.p50_us, s.p999_us, boundOf(objective, s)]).filter((us) => us !== null && us > 0);
  // A bound that is fixed holds at all times, also without samples.
  const fixed = objective?.bound_us ?? null;
  if (fixed !== null) all.push(fixed);
  const known = all as number[];
  const low = 10 ** Math.floor(Math.log10(Math.min(100, ...known)));
  const high = 10 ** Math.ceil(Math.log10(Math.max(1000, ...known) * 1.05));
  const y = logarithmic([low, high], [8 + height, 8]);
  const lines = powers(low, high).map((us) => [us, latency(us).replace(/\.0+ /, " ")] as const);
  const heightOf = (us: number | null) => (us === null || us <= 0 ? Number.NaN : y(us));
  const points = (of: Of) => {
    const all: [number, number][] = [];
    let before = 0;
    for (const sample of samples) {
      if (sample.at_unix_ms - before > gapMs) all.push([0, Number.NaN]);
      before = sample.at_unix_ms;
      all.push([x(sample.at_unix_ms), heightOf(of(sample))]);
    }
    return all;
  };
  const bounds = points((s) => boundOf(objective, s));
  const pairs = points(quantileOf(objective?.quantile ?? "p99")).map(([x, y], i) => ({ x, y, bound: bounds[i]![1] }));
  const last = samples.at(-1);
  const latest = fixed ?? (last === undefined ? null : boundOf(objective, last));
  if (last !== undefined && nowMs - last.at_unix_ms <= gapMs) bounds.push([x(nowMs), heightOf(latest)]);
  // The bound of a ratio is not known ahead.
  const drawn = fixed === null ? steps(bounds) : line([[left, y(fixed)], [right, y(fixed)]]);
  return (
    <Plane name="latency" x={x} y={y} lines={lines} nowMs={nowMs} cursorMs={cursorMs} top={8} hasAxis={false}>
      <path class="p999" d={line(points((s) => s.p999_us))} />
      <path class="p50" d={line(points((s) => s.p50_us))} />
      <path class="p99" d={line(points((s) => s.p99_us))} />
      {objective !== null && (
        <g>
          <path class="p99 broken" d={line(partsOver(pairs))} />
          <path class="objective" d={drawn} />
          {latest !== null && (
            <text class="objective-name" x={right - 4} y={y(latest) - 4} text-anchor="end">
              objective {latency(latest)}
            </text>
          )}
        </g>
      )}
    </Plane>
  );
}

/** An objective in words: `p99 ≤ 2 ms`. */
export function objectiveText(objective: Objective): string {
  const { quantile } = objective;
  if (objective.bound_us !== null) return `${quantile} ≤ ${latency(objective.bound_us)}`;
  return `${quantile} ≤ ${objective.ratio ?? 1}× that without jobs`;
}
