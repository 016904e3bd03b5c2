// What the guard allowed jobs to have of what the load leaves, and each change of its mind.

import type { GuardAction } from "../api/types";
import { steps } from "./path";
import { Plane } from "./plane";
import { type Scale, linear } from "./scale";

interface GuardProps {
  actions: readonly GuardAction[];
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

export function Guard({ actions, x, height, nowMs, cursorMs }: GuardProps) {
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

/** What the guard does, in words. */
export function actionText(action: string): string {
  return WORDS[action] ?? action;
}
