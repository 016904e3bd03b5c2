// Latencies of the load against their objective.

import type { Objective, Sample } from "../api/types";
import { quantileOf } from "../state/safety";
import { latency } from "../text/time";
import { line } from "./path";
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
  const bound = objective?.bound_us ?? null;
  const all = samples.flatMap((s) => [s.p50_us, s.p999_us]).filter((us) => us !== null && us > 0) as number[];
  if (bound !== null) all.push(bound);
  const low = 10 ** Math.floor(Math.log10(Math.min(100, ...all)));
  const high = 10 ** Math.ceil(Math.log10(Math.max(1000, ...all) * 1.05));
  const y = logarithmic([low, high], [8 + height, 8]);
  const lines = powers(low, high).map((us) => [us, latency(us).replace(/\.0+ /, " ")] as const);
  const points = (of: Of) => {
    const all: [number, number][] = [];
    let before = 0;
    for (const sample of samples) {
      if (sample.at_unix_ms - before > gapMs) all.push([0, Number.NaN]);
      before = sample.at_unix_ms;
      const value = of(sample);
      all.push([x(sample.at_unix_ms), value === null || value <= 0 ? Number.NaN : y(value)]);
    }
    return all;
  };
  return (
    <Plane name="latency" x={x} y={y} lines={lines} nowMs={nowMs} cursorMs={cursorMs} top={8} hasAxis={false}>
      <defs>
        <clipPath id="over-objective">
          <rect x={x.pixels[0]} y="8" width={x.pixels[1] - x.pixels[0]} height={bound === null ? 0 : Math.max(0, y(bound) - 8)} />
        </clipPath>
      </defs>
      <path class="p999" d={line(points((s) => s.p999_us))} />
      <path class="p50" d={line(points((s) => s.p50_us))} />
      <path class="p99" d={line(points((s) => s.p99_us))} />
      {objective !== null && bound !== null && (
        <g>
          <path class="p99 broken" clip-path="url(#over-objective)" d={line(points(quantileOf(objective.quantile)))} />
          <line class="objective" x1={x.pixels[0]} x2={x.pixels[1]} y1={y(bound)} y2={y(bound)} />
          <text class="objective-name" x={x.pixels[1] - 4} y={y(bound) - 4} text-anchor="end">
            objective {latency(bound)}
          </text>
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
