// A run list drawn: blocks by size, strata shaded in turn, damaged ones framed in red, snapshots as
// flags, merges as brackets that fill. Over each block lies a button: the keyboard, a finger or a pointer
// chooses a run, whose text stands below.

import { useRef, useState } from "preact/hooks";
import type { TableDetail } from "../api/types";
import { placeAfter, runListText, runText, strataOf } from "../chart/run-text";
import { type Strip, strip } from "../chart/runs";
import { useWidth } from "../chart/width";
import { bytes, counted, percent } from "../text/number";

const TOP = 20;
const HEIGHT = 30;
/** Below the blocks: the brackets of merges. */
const BELOW = 12;
/** A letter of a label, in pixels. */
const LETTER = 6.2;

/** Pixels left of the first block: half of the frame of a damaged one. */
const SIDE = 1;

export function RunList({ table }: { table: TableDetail }) {
  const [box, width] = useWidth();
  const isEmpty = table.runs.length + table.bookmarks.length === 0;
  return (
    <div ref={box} class="run-list" role="group" aria-label={runListText(table)}>
      {isEmpty && <p class="hint">nothing on disk</p>}
      {!isEmpty && width > 0 && <Runs table={table} width={width} />}
    </div>
  );
}

function Runs({ table, width }: { table: TableDetail; width: number }) {
  const [id, setId] = useState<number | null>(null);
  const targets = useRef<HTMLDivElement>(null);
  const drawn = strip(table, width - 2 * SIDE);
  const { runs } = table;
  // A merge may have taken the run away that was chosen.
  const place = runs.findIndex((run) => run.id === id);
  const goTo = (place: number) => {
    setId(runs[place]!.id);
    targets.current?.querySelectorAll("button")[place]?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const next = event.key === "Escape" ? null : placeAfter(event.key, Math.max(0, place), runs.length);
    if (event.key === "Escape") setId(null);
    if (next === null) return;
    event.preventDefault();
    goTo(next);
  };
  return (
    <>
      <Drawing drawn={drawn} width={width} />
      <div ref={targets} onKeyDown={onKeyDown}>
        <RunTargets table={table} drawn={drawn} place={place} choose={setId} />
      </div>
      {place >= 0 && (
        <div class="run-detail">
          <button class="quiet" aria-label="Previous run" disabled={place === 0} onClick={() => setId(runs[place - 1]!.id)}>
            ‹
          </button>
          <button class="quiet" aria-label="Next run" disabled={place === runs.length - 1} onClick={() => setId(runs[place + 1]!.id)}>
            ›
          </button>
          <span>{runText(table, place)}</span>
        </div>
      )}
    </>
  );
}

interface RunTargetsProps {
  table: TableDetail;
  drawn: Strip;
  /** The place of the run that is chosen; -1: none. */
  place: number;
  choose: (id: number) => void;
}

/** The buttons over the blocks. The key Tab comes to one of them, and arrows lead to the others. */
export function RunTargets({ table, drawn, place, choose }: RunTargetsProps) {
  const strata = strataOf(table.runs);
  return (
    <>
      {drawn.blocks.map(({ run, x, width }, i) => (
        <button
          key={run.id}
          type="button"
          class="run-target"
          style={{ left: `${x + SIDE}px`, top: `${TOP}px`, width: `${width}px`, height: `${HEIGHT}px` }}
          tabIndex={i === Math.max(0, place) ? 0 : -1}
          aria-label={runText(table, i, strata)}
          title={runText(table, i, strata)}
          {...(i === place ? { "aria-current": "true" as const } : {})}
          onFocus={() => choose(run.id)}
          onClick={() => choose(run.id)}
        />
      ))}
    </>
  );
}

function Drawing({ drawn: { blocks, flags, brackets }, width }: { drawn: Strip; width: number }) {
  const strata = strataOf(blocks.map((block) => block.run));
  return (
    <svg width={width} height={TOP + HEIGHT + BELOW} aria-hidden="true">
      <g transform={`translate(${SIDE} ${TOP})`}>
        {blocks.map(({ run, x, width }) => (
          <g key={run.id}>
            <rect
              class={`run shade-${strata.indexOf(run.stratum) % 2}${run.damaged_files > 0 ? " damaged" : ""}`}
              x={x}
              width={width}
              y="0"
              height={HEIGHT}
              rx="2"
            />
            {width > 60 && !flags.some((flag) => Math.abs(flag.x - x - width / 2) < 30) && (
              <text class="run-size" x={x + width / 2} y={HEIGHT / 2 + 4} text-anchor="middle">
                {bytes(run.bytes)}
              </text>
            )}
          </g>
        ))}
        {flags.map((flag, i) => {
          const next = flags[i + 1]?.x ?? width;
          const text = flag.names.length === 1 ? flag.names[0]! : `${flag.names.length} snapshots`;
          const isLeft = flag.x + text.length * LETTER + 8 > width;
          const room = isLeft ? flag.x - (flags[i - 1]?.x ?? 0) : next - flag.x;
          const fits = room > text.length * LETTER + 8;
          return (
            <g key={flag.names.join()} class={flag.straddled ? "flag straddled" : "flag"}>
              <line x1={flag.x} x2={flag.x} y1={-12} y2={HEIGHT + 3} />
              <path d={`M${flag.x} -12h6v6h-6Z`} />
              {fits && (
                <text x={isLeft ? flag.x - 4 : flag.x + 9} y="-5" text-anchor={isLeft ? "end" : "start"}>
                  {text}
                </text>
              )}
              <title>{flag.names.join(", ")}</title>
            </g>
          );
        })}
        {brackets.map((bracket) => (
          <g key={bracket.x} class="merge">
            <path d={`M${bracket.x} ${HEIGHT + 3}v5h${bracket.width}v-5`} />
            <rect x={bracket.x} y={HEIGHT + 6} width={bracket.width * bracket.done} height="4" />
            <title>
              a merge of {counted(bracket.inputs, "run")}, {percent(bracket.done)} done
            </title>
          </g>
        ))}
      </g>
    </svg>
  );
}
