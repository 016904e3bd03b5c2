// A run list drawn: blocks by size, strata shaded in turn, damaged ones framed in red, snapshots as
// flags, merges as brackets that fill.

import type { TableDetail } from "../api/types";
import { strip } from "../chart/runs";
import { useWidth } from "../chart/width";
import { bytes, counted, percent, short } from "../text/number";

const TOP = 20;
const HEIGHT = 30;
/** Below the blocks: the brackets of merges. */
const BELOW = 12;
/** A letter of a label, in pixels. */
const LETTER = 6.2;

export function RunList({ table }: { table: TableDetail }) {
  const [box, width] = useWidth();
  return (
    <div ref={box} class="run-list" role="img" aria-label={words(table)}>
      {table.runs.length === 0 && table.bookmarks.length === 0 && <p class="hint">nothing on disk</p>}
      {table.runs.length + table.bookmarks.length > 0 && width > 0 && <Drawing table={table} width={width} />}
    </div>
  );
}

function Drawing({ table, width }: { table: TableDetail; width: number }) {
  const { blocks, flags, brackets } = strip(table, width - 2);
  const strata = [...new Set(blocks.map((block) => block.run.stratum))];
  return (
    <svg width={width} height={TOP + HEIGHT + BELOW}>
      <g transform={`translate(1 ${TOP})`}>
        {blocks.map(({ run, x, width }) => (
          <g key={run.id}>
            <rect
              class={`run shade-${strata.indexOf(run.stratum) % 2}${run.damaged_files > 0 ? " damaged" : ""}`}
              x={x}
              width={width}
              y="0"
              height={HEIGHT}
              rx="2"
            >
              <title>
                {bytes(run.bytes)}, {counted(run.files, "file")}, {short(run.keys)}{" "}
                {run.keys === 1 ? "key" : "keys"}; commits {run.min_sequence} to{" "}
                {run.max_sequence}
                {run.damaged_files > 0 && `; ${counted(run.damaged_files, "damaged file")}`}
              </title>
            </rect>
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

function words(table: TableDetail): string {
  const { runs, bookmarks, merges } = table;
  const { keyspace, table: name, damaged_files } = table.summary;
  const names = bookmarks.map((bookmark) => bookmark.snapshot);
  const total = runs.reduce((sum, run) => sum + run.bytes, 0);
  return [
    `${keyspace}.${name}: ${counted(runs.length, "run")} of ${bytes(total)} in all`,
    names.length === 0 ? "no snapshot" : `cut by ${names.join(", ")}`,
    merges.length === 0 ? "no merge under way" : `${counted(merges.length, "merge")} under way`,
    ...(damaged_files > 0 ? [counted(damaged_files, "damaged file")] : []),
  ].join("; ");
}
