// What the guard allowed jobs to have of what the load leaves, and each change of its mind.

import type { GuardAction, Load } from "../api/types";
import { percent } from "../text/number";
import { steps } from "./path";
import { Plane } from "./plane";
import { type Scale, linear } from "./scale";

interface GuardProps {
  actions: readonly GuardAction[];
  /** The time of the oldest action that is kept, if older ones were dropped. */
  cutMs: number | null;
  x: Scale;
  height: number;
  nowMs: number;
  cursorMs: number | null;
}

/** The shape of a mark: up for more, down for less, a bar for nothing at all. */
const SHAPES: Record<string, string> = {
  grow: "M-4 2L0 -4L4 2Z",
  shrink: "M-4 -2L0 4L4 -2Z",
  stop: "M-4 -4H4V4H-4Z",
  pause: "M-4 -4H-1V4H-4ZM1 -4H4V4H1Z",
};

/** Pixels that the words about dropped actions take. */
const CUT_WIDTH = 190;

export function Guard({ actions, cutMs, x, height, nowMs, cursorMs }: GuardProps) {
  const [left, right] = x.pixels;
  const y = linear([0, 1], [10 + height, 10]);
  const before = actions.findLast((action) => action.at_unix_ms <= x.values[0]);
  const shown = actions.filter((action) => action.at_unix_ms > x.values[0] && action.at_unix_ms <= nowMs);
  const points: [number, number][] = [];
  if (before !== undefined) points.push([left, y(before.allowed_ratio)]);
  for (const action of shown) points.push([x(action.at_unix_ms), y(action.allowed_ratio)]);
  const last = points.at(-1);
  if (last !== undefined) points.push([x(nowMs), last[1]]);
  const edge = steps(points);
  const cut = cutMs !== null && cutMs > x.values[0] ? Math.min(x(cutMs), right) : null;
  // Marks closer than they are wide say no more than one.
  let marked = Number.NEGATIVE_INFINITY;
  const marks = shown.filter((action) => {
    const at = x(action.at_unix_ms);
    if (SHAPES[action.action] === undefined || at - marked < 9 || at > right) return false;
    marked = at;
    return true;
  });
  return (
    <Plane
      name="guard"
      x={x}
      y={y}
      lines={[
        [0, "0%"],
        [1, "100%"],
      ]}
      nowMs={nowMs}
      cursorMs={cursorMs}
      top={10}
      hasAxis
    >
      {cut !== null && (
        <g class="cut">
          <rect x={left} width={cut - left} y={y(1)} height={y(0) - y(1)} />
          <line x1={cut} x2={cut} y1={y(1)} y2={y(0)} />
          {cut - left > CUT_WIDTH && (
            <text x={cut - 6} y={(y(0) + y(1)) / 2 + 4} text-anchor="end">
              older decisions are not kept
            </text>
          )}
        </g>
      )}
      {edge !== "" && <path class="allowed-area" d={`${edge}V${y(0)}H${points[0]![0].toFixed(1)}Z`} />}
      <path class="allowed" d={edge} />
      {marks.map((action) => (
        <path
          key={action.at_unix_ms}
          class={`decision ${action.action}`}
          transform={`translate(${x(action.at_unix_ms).toFixed(1)} ${y(action.allowed_ratio).toFixed(1)})`}
          d={SHAPES[action.action]}
        />
      ))}
    </Plane>
  );
}

/** The action that held at an instant. */
export function actionAt(actions: readonly GuardAction[], atMs: number): GuardAction | undefined {
  return actions.findLast((action) => action.at_unix_ms <= atMs);
}

const WORDS: Record<string, string> = {
  grow: "gives more",
  hold: "holds",
  shrink: "takes back",
  stop: "stopped jobs",
  pause: "pauses jobs",
};

/** What the guard did at an instant. */
export interface Decision {
  /** `null` before the first one that is known. */
  action: GuardAction | null;
  /** `not at work` without one, unless it was dropped. */
  words: string;
  /** A clause for screen readers: `guard gives more, allows 40%`; `null` if the guard was not at work. */
  clause: string | null;
}

/** Returns the decision that held at an instant. */
export function decisionAt({ guard, guard_cut_unix_ms }: Load, atMs: number): Decision {
  const action = actionAt(guard, atMs) ?? null;
  if (action !== null) {
    const words = actionText(action.action);
    return { action, words, clause: `guard ${words}, allows ${percent(action.allowed_ratio)}` };
  }
  if (guard_cut_unix_ms != null && atMs < guard_cut_unix_ms) {
    return { action, words: "not kept", clause: "decisions of the guard are not kept" };
  }
  return { action, words: "not at work", clause: null };
}

/** What the guard does, in words. */
export function actionText(action: string): string {
  return WORDS[action] ?? action;
}
