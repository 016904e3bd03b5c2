// Labels of goals above the picture, none over another.

export interface Mark {
  id: string;
  x: number;
  text: string;
  isLate: boolean;
}

export interface PlacedMark extends Mark {
  /** The row of the label, from 0 at the bottom; `null`: there is no room for it. */
  row: number | null;
  /** On which side of the mark the label is. */
  side: "left" | "right";
}

/** Pixels of a letter, on average, at the size of labels. */
const LETTER = 6.2;
const GAP = 10;

/** Places marks from left to right, each in the first row that has room. Late ones choose first. */
export function placed(marks: readonly Mark[], left: number, right: number, rows: number): PlacedMark[] {
  const taken: [number, number][][] = Array.from({ length: rows }, () => []);
  const order = [...marks].sort((a, b) => Number(b.isLate) - Number(a.isLate) || a.x - b.x);
  const all = order.map((mark): PlacedMark => {
    const width = mark.text.length * LETTER + GAP;
    for (let row = 0; row < rows; row += 1) {
      for (const side of ["left", "right"] as const) {
        const from = side === "left" ? mark.x - width : mark.x;
        const to = from + width;
        if (from < left || to > right) continue;
        if (taken[row]!.some(([a, b]) => from < b && a < to)) continue;
        taken[row]!.push([from, to]);
        return { ...mark, row, side };
      }
    }
    return { ...mark, row: null, side: "left" };
  });
  return all.sort((a, b) => a.x - b.x);
}
