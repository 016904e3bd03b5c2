// What a picture shows, with the values under the cursor, or else the latest.

import type { ComponentChildren } from "preact";

interface LegendProps {
  title: string;
  note: string;
  entries: ComponentChildren;
}

export function Legend({ title, note, entries }: LegendProps) {
  return (
    <div class="legend">
      <h2>{title}</h2>
      <span class="note">{note}</span>
      <ul>{entries}</ul>
    </div>
  );
}

interface EntryProps {
  /** A shape of the style sheet, or a colour. */
  swatch?: string;
  colour?: string;
  /** The texture over the colour; 0: none. */
  texture?: number;
  name: string;
  value?: string | undefined;
  isLate?: boolean;
}

export function Entry({ swatch, colour, texture = 0, name, value, isLate = false }: EntryProps) {
  return (
    <li class={isLate ? "late" : undefined}>
      {(swatch !== undefined || colour !== undefined) && (
        <i class={`swatch ${swatch ?? `job texture-${texture}`}`} style={colour === undefined ? {} : { backgroundColor: colour }} />
      )}
      {name}
      {value !== undefined && <b>{value}</b>}
    </li>
  );
}
