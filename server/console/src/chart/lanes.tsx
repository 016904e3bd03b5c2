// Lanes of jobs that have not ended: from the start over the predicted finish, with the
// interval, to the goal.

import type { WhatIf } from "../api/types";
import type { Hypothesis } from "../state/panels";
import type { Job } from "../state/job";
import { BEYOND_WORDS, finishMs, outlook, slackS, slackWords } from "../state/job";
import { colourOf, textureOf } from "../state/live";
import { clock } from "../text/time";
import { percent } from "../text/number";
import { Plane } from "./plane";
import { type Scale, linear } from "./scale";

const LANE = 30;
/** Below this width there is room for the slack only, in pixels. */
const NARROW = 480;
/** Pixels of a letter, on average. */
const LETTER = 6.8;

interface LanesProps {
  jobs: readonly Job[];
  hypothesis: Hypothesis | null;
  x: Scale;
  nowMs: number;
  cursorMs: number | null;
}

export function Lanes({ jobs, hypothesis, x, nowMs, cursorMs }: LanesProps) {
  const isNarrow = x.pixels[1] - x.pixels[0] < NARROW;
  const count = jobs.length + (hypothesis === null ? 0 : 1);
  const y = linear([0, count], [4, 4 + count * LANE]);
  return (
    <Plane name="lanes" x={x} y={y} lines={[]} nowMs={nowMs} cursorMs={cursorMs} top={4} hasAxis={false}>
      <defs>
        <clipPath id="lanes-inside">
          <rect x={x.pixels[0]} y="0" width={x.pixels[1] - x.pixels[0]} height={8 + count * LANE} />
        </clipPath>
      </defs>
      <g clip-path="url(#lanes-inside)">
        {jobs.map((job, i) => (
          <Lane
            key={job.id}
            x={x}
            top={y(i)}
            nowMs={nowMs}
            colour={colourOf(job.id)}
            texture={textureOf(job.id)}
            text={`${job.name} ${percent(job.progress)}`}
            note={noteOf(job, nowMs, isNarrow)}
            isLate={outlook(job, nowMs) === "late"}
            startMs={job.startedMs}
            finish={
              job.prediction ??
              spanOf({ finish_unix_ms: finishMs(job, nowMs), low_unix_ms: null, high_unix_ms: null })
            }
            goalMs={job.goalMs}
          />
        ))}
        {hypothesis !== null && (
          <Lane
            x={x}
            top={y(jobs.length)}
            nowMs={nowMs}
            colour="var(--ink-2)"
            texture={0}
            text={`what if: ${hypothesis.name}`}
            note={hypothesisNote(hypothesis.answer, nowMs)}
            isLate={hypothesis.answer.meets_goal === false}
            startMs={nowMs}
            finish={spanOf(hypothesis.answer)}
            goalMs={hypothesis.goalMs}
          />
        )}
      </g>
    </Plane>
  );
}

interface LaneProps {
  x: Scale;
  top: number;
  nowMs: number;
  colour: string;
  texture: number;
  text: string;
  note: string;
  isLate: boolean;
  startMs: number;
  finish: { finish_unix_ms: number; low_unix_ms: number; high_unix_ms: number } | null;
  goalMs: number | null;
}

function Lane({ x, top, nowMs, colour, texture, text, note, isLate, startMs, finish, goalMs }: LaneProps) {
  const [left, right] = x.pixels;
  const bar = top + 21;
  const start = Math.max(left, x(startMs));
  const done = { x: start, y: bar - 3, width: Math.max(2, x(nowMs) - start), height: 6, rx: 1 };
  const words = `${text}  ${note}`;
  // The words begin with the bar, as long as there is room for them.
  const wordsX = Math.min(start, Math.max(left, right - words.length * LETTER)) + 2;
  return (
    <g>
      <text class="lane-name" x={wordsX} y={top + 13}>
        {text}
        <tspan class={isLate ? "lane-note late" : "lane-note"} dx="8">
          {note}
        </tspan>
      </text>
      <rect {...done} style={{ fill: colour }} />
      {texture > 0 && <rect {...done} class="texture" fill={`url(#texture-${texture})`} />}
      {finish !== null && (
        <g style={{ color: colour }}>
          <rect
            class="lane-interval"
            x={x(finish.low_unix_ms)}
            y={bar - 5}
            width={Math.max(2, x(finish.high_unix_ms) - x(finish.low_unix_ms))}
            height="10"
            rx="2"
          />
          <line class="lane-ahead" x1={Math.max(x(nowMs), start)} x2={x(finish.finish_unix_ms)} y1={bar} y2={bar} />
          <circle class="lane-finish" cx={x(finish.finish_unix_ms)} cy={bar} r="4" />
        </g>
      )}
      {goalMs !== null && (
        <path
          class={isLate ? "lane-goal late" : "lane-goal"}
          d={`M${x(goalMs)} ${bar - 8}V${bar + 6}M${x(goalMs)} ${bar - 8}h7l-2 3l2 3h-7`}
        />
      )}
    </g>
  );
}

/** When a hypothetical job would be done. */
export function hypothesisNote(answer: WhatIf, nowMs: number): string {
  return answer.finish_unix_ms === null ? BEYOND_WORDS : `done ${clock(answer.finish_unix_ms, nowMs)}`;
}

type Span = Pick<WhatIf, "finish_unix_ms" | "low_unix_ms" | "high_unix_ms">;

function spanOf({ finish_unix_ms, low_unix_ms, high_unix_ms }: Span): LaneProps["finish"] {
  if (finish_unix_ms === null) return null;
  return {
    finish_unix_ms,
    low_unix_ms: low_unix_ms ?? finish_unix_ms,
    high_unix_ms: high_unix_ms ?? finish_unix_ms,
  };
}

/** How a job stands: `done 17:05, 4 min to spare`; where there is no room for that, the slack. */
function noteOf(job: Job, nowMs: number, isNarrow: boolean): string {
  const slack = slackWords(job, nowMs);
  const finish = finishMs(job, nowMs);
  const parts = [];
  if (job.state === "unfinished") parts.push("waits to be restarted");
  else if (finish !== null) parts.push(`done ${clock(finish, nowMs, finish - nowMs < 600_000)}`);
  else parts.push(job.beyond === null ? "no prediction yet" : BEYOND_WORDS);
  if (slack !== null) parts.push((slackS(job, nowMs) ?? -1) < 0 ? slack : `${slack} to spare`);
  return isNarrow ? parts.at(-1)! : parts.join(", ");
}
