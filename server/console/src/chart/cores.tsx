// The main picture: cores over time. The load hangs from the top, the shares of jobs stand
// below it (Polo, figure 5.15), with what is forecast and the goals ahead.

import type { Forecast, Load, Sample } from "../api/types";
import { colourOf, textureOf } from "../state/live";
import { clock, relative } from "../text/time";
import { cores } from "../text/number";
import { type Mark, placed } from "./goals";
import { type Band, area, line } from "./path";
import { LEFT, Plane, RIGHT } from "./plane";
import { type Scale, linear, ticks } from "./scale";
import { stack } from "./stack";

/** Pixels of a row of labels of goals, and how many there may be. */
const ROW = 15;
const ROWS = 3;

export interface Goal {
  id: string;
  name: string;
  atMs: number;
  isLate: boolean;
}

interface CoresProps {
  load: Load;
  samples: readonly Sample[];
  forecast: Forecast | null;
  goals: readonly Goal[];
  /** Jobs from the bottom up. */
  ids: readonly string[];
  x: Scale;
  height: number;
  nowMs: number;
  cursorMs: number | null;
  /** A pause between samples that is longer than this is a gap, in milliseconds. */
  gapMs: number;
}

export function Cores(props: CoresProps) {
  const { load, samples, forecast, goals, ids, x, height, nowMs, cursorMs, gapMs } = props;
  const [left, right] = x.pixels;
  const marks = placed(goals.map((goal) => markOf(goal, x, nowMs)).filter(inside(left, right)), LEFT, right + RIGHT, ROWS);
  const rows = marks.reduce((most, mark) => Math.max(most, (mark.row ?? -1) + 1), 0);
  const top = 8 + rows * ROW;
  const y = linear([0, load.cores], [top + height, top]);
  const lines = ticks(0, load.cores, 4).map((value) => [value, trim(value)] as const);
  const whole = withGaps(samples, gapMs);
  const bands = (low: (s: Sample) => number, high: (s: Sample) => number): Band[] =>
    whole.map((s) =>
      typeof s === "number"
        ? { x: x(s), low: Number.NaN, high: Number.NaN }
        : { x: x(s.at_unix_ms), low: y(clamp(low(s))), high: y(clamp(high(s))) },
    );
  const clamp = (value: number) => Math.min(load.cores, Math.max(0, value));
  const layers = stack(
    whole.map((s) => (typeof s === "number" ? {} : (s.shares ?? {}))),
    ids,
  );
  const ahead = forecastFrom(forecast, load.cores, samples.at(-1), nowMs);
  const hanging = (of: (point: Ahead) => number) =>
    ahead.map((point) => [x(point.at), y(clamp(load.cores - of(point)))] as const);
  return (
    <Plane name="cores" x={x} y={y} lines={lines} nowMs={nowMs} cursorMs={cursorMs} top={top} hasAxis>
      <defs>
        <pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <line class="hatch" x1="0" x2="0" y1="0" y2="6" />
        </pattern>
        <pattern id="texture-1" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)">
          <rect class="texture-mark" width="7" height="2" />
        </pattern>
        <pattern id="texture-2" width="7" height="7" patternUnits="userSpaceOnUse">
          <circle class="texture-mark" cx="3.5" cy="3.5" r="1.5" />
        </pattern>
        <clipPath id="cores-inside">
          <rect x={left} y={top} width={right - left} height={height} />
        </clipPath>
      </defs>
      <g clip-path="url(#cores-inside)">
        <path class="area load" d={area(bands((s) => load.cores - s.load_cores, () => load.cores))} />
        <path
          class="area others"
          d={area(bands((s) => load.cores - s.load_cores - s.others_cores, (s) => load.cores - s.load_cores))}
        />
        {ahead.length > 1 && (
          <g class="ahead">
            <path
              class="area load"
              d={area(ahead.map((p) => ({ x: x(p.at), low: y(clamp(load.cores - p.load)), high: y(load.cores) })))}
            />
            <path
              class="interval"
              d={area(
                ahead.map((p) => ({
                  x: x(p.at),
                  low: y(clamp(load.cores - p.high)),
                  high: y(clamp(load.cores - p.low)),
                })),
              )}
            />
            <path class="forecast" d={line(hanging((p) => p.load))} />
          </g>
        )}
        {layers.map((layer) => {
          const share = area(
            whole.map((s, i) => ({
              x: x(typeof s === "number" ? s : s.at_unix_ms),
              low: typeof s === "number" ? Number.NaN : y(clamp(layer.low[i]!)),
              high: typeof s === "number" ? Number.NaN : y(clamp(layer.high[i]!)),
            })),
          );
          const texture = textureOf(layer.id);
          return (
            <g key={layer.id}>
              <path class="area job" style={{ fill: colourOf(layer.id) }} d={share} />
              {texture > 0 && <path class="texture" fill={`url(#texture-${texture})`} d={share} />}
            </g>
          );
        })}
        <path
          class="capacity"
          d={line(
            whole.map((s) =>
              typeof s === "number" ? [x(s), Number.NaN] : [x(s.at_unix_ms), y(clamp(s.capacity_cores))],
            ),
          )}
        />
      </g>
      {marks.map((mark) => {
        const labelY = top - 5 - (mark.row ?? 0) * ROW;
        const dx = mark.side === "left" ? -5 : 5;
        return (
          <g key={mark.id} class={mark.isLate ? "goal late" : "goal"} data-job={mark.id}>
            <line
              class={`texture-${textureOf(mark.id)}`}
              x1={mark.x}
              x2={mark.x}
              y1={mark.row === null ? top : labelY - 9}
              y2={top + height}
              style={mark.isLate ? {} : { stroke: colourOf(mark.id) }}
            />
            {mark.row !== null && (
              <text x={mark.x + dx} y={labelY} text-anchor={mark.side === "left" ? "end" : "start"}>
                {mark.text}
              </text>
            )}
          </g>
        );
      })}
    </Plane>
  );
}

/** What the picture shows at an instant, in words. */
export function coresAt(load: Load, sample: Sample): string {
  const free = load.cores - sample.load_cores - sample.others_cores - sample.analytics_cores;
  return `load ${cores(sample.load_cores)}, jobs ${cores(sample.analytics_cores)}, free ${cores(Math.max(0, free))} of ${load.cores} cores`;
}

interface Ahead {
  at: number;
  load: number;
  low: number;
  high: number;
}

/** The forecast from now on; it begins where what jobs may use was measured last. */
function forecastFrom(forecast: Forecast | null, cores: number, last: Sample | undefined, nowMs: number): Ahead[] {
  if (forecast === null) return [];
  const later = forecast.points.filter((point) => point.at_unix_ms > nowMs);
  const points = later.map((point) => ({
    at: point.at_unix_ms,
    load: point.load_cores,
    // A number that is none is not drawn.
    low: point.low_cores ?? Number.NaN,
    high: point.high_cores ?? Number.NaN,
  }));
  const first = points[0];
  if (first === undefined) return [];
  const load = last === undefined ? first.load : cores - last.capacity_cores;
  return [{ at: nowMs, load, low: load, high: load }, ...points];
}

/** Samples, with the time of a gap between those that lie too far apart. */
function withGaps(samples: readonly Sample[], gapMs: number): (Sample | number)[] {
  const whole: (Sample | number)[] = [];
  for (const sample of samples) {
    const before = whole.at(-1);
    if (typeof before === "object" && sample.at_unix_ms - before.at_unix_ms > gapMs) {
      whole.push(before.at_unix_ms + 1);
    }
    whole.push(sample);
  }
  return whole;
}

function markOf(goal: Goal, x: Scale, nowMs: number): Mark {
  const text = `${goal.isLate ? "late: " : ""}${goal.name} ${clock(goal.atMs, nowMs, Math.abs(goal.atMs - nowMs) < 600_000)}`;
  return { id: goal.id, x: x(goal.atMs), text, isLate: goal.isLate };
}

const inside = (left: number, right: number) => (mark: Mark) => mark.x >= left && mark.x <= right;

function trim(value: number): string {
  return String(Number(value.toFixed(2)));
}

/** A goal beyond the right end, in words for the legend. */
interface BeyondGoal {
  id: string;
  text: string;
  isLate: boolean;
}

/** Goals beyond the right end, which cannot be marked: late ones first, and then the nearest. */
export function beyond(goals: readonly Goal[], x: Scale, nowMs: number): BeyondGoal[] {
  const far = goals.filter((goal) => goal.atMs > x.values[1]);
  far.sort((a, b) => Number(b.isLate) - Number(a.isLate) || a.atMs - b.atMs);
  return far.map(({ id, name, atMs, isLate }) => {
    const text = `goal ${name} ${relative(atMs, nowMs)}`;
    return { id, text: isLate ? `late: ${text}` : text, isLate };
  });
}
