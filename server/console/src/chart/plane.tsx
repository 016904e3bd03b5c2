// A rectangle of time and values, with its grid and axes.

import type { ComponentChildren } from "preact";
import { clock, day } from "../text/time";
import { type Scale, timeTicks } from "./scale";

/** Room for the labels of values. */
export const LEFT = 44;
export const RIGHT = 12;
/** Room for the labels of times. */
export const AXIS = 22;

interface PlaneProps {
  name: string;
  x: Scale;
  y: Scale;
  /** Values that have a line, with their labels. */
  lines: readonly (readonly [number, string])[];
  nowMs: number;
  cursorMs: number | null;
  /** Pixels above and below the rectangle. */
  top: number;
  hasAxis: boolean;
  children: ComponentChildren;
}

export function Plane({ name, x, y, lines, nowMs, cursorMs, top, hasAxis, children }: PlaneProps) {
  const [left, right] = x.pixels;
  const bottom = Math.max(...y.pixels);
  const height = bottom + (hasAxis ? AXIS : 6);
  const times = timeTicks(x.values[0], x.values[1], (right - left) / 84);
  const label = (t: number) =>
    times.stepS >= 86_400 ? day(t) : clock(t, t, times.stepS < 60);
  return (
    <svg class={`plane ${name}`} width={right + RIGHT} height={height} aria-hidden="true">
      <rect class="future" x={x(nowMs)} y={top} width={Math.max(0, right - x(nowMs))} height={bottom - top} />
      {times.at.map((t) => (
        <line key={t} class="grid" x1={x(t)} x2={x(t)} y1={top} y2={bottom} />
      ))}
      {lines.map(([value, text]) => (
        <g key={value}>
          <line class="grid" x1={left} x2={right} y1={y(value)} y2={y(value)} />
          <text class="tick" x={left - 7} y={y(value) + 4} text-anchor="end">
            {text}
          </text>
        </g>
      ))}
      {children}
      <line class="now" x1={x(nowMs)} x2={x(nowMs)} y1={top} y2={bottom} />
      {cursorMs !== null && <line class="cursor" x1={x(cursorMs)} x2={x(cursorMs)} y1={top} y2={bottom} />}
      {hasAxis &&
        times.at
          .filter((t) => x(t) > left + 14 && x(t) < right - 14)
          .filter((t) => Math.abs(x(t) - x(nowMs)) > 42)
          .map((t) => (
            <text key={t} class="tick" x={x(t)} y={bottom + 16} text-anchor="middle">
              {label(t)}
            </text>
          ))}
      {hasAxis && (
        <text class="tick strong" x={x(nowMs)} y={bottom + 16} text-anchor="middle">
          now
        </text>
      )}
    </svg>
  );
}
