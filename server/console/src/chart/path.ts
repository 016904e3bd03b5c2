// Points as the text of an SVG path.

/** What is between two heights at a place; heights in pixels. */
export interface Band {
  x: number;
  low: number;
  high: number;
}

/** The width of a point or a band between two gaps, in pixels: without a width nothing is drawn. */
const LONE = 2;

/** Straight lines from point to point; a height that is no number makes a gap. */
export function line(points: Iterable<readonly [number, number]>): string {
  let path = "";
  let part: (readonly [number, number])[] = [];
  const close = () => {
    const drawn = part.length === 1 ? part.flatMap(([x, y]) => sides(x).map((x) => [x, y] as const)) : part;
    path += drawn.map(([x, y], i) => `${i === 0 ? "M" : "L"}${pixel(x)} ${pixel(y)}`).join("");
    part = [];
  };
  for (const point of points) {
    if (Number.isFinite(point[1])) part.push(point);
    else close();
  }
  close();
  return path;
}

/** The same in steps: a height holds until the next point. */
export function steps(points: readonly (readonly [number, number])[]): string {
  const corners: (readonly [number, number])[] = [];
  for (const [x, y] of points) {
    const before = corners.at(-1);
    if (before !== undefined && Number.isFinite(before[1])) corners.push([x, before[1]]);
    corners.push([x, y]);
  }
  return line(corners);
}

/** The area between the two heights of bands; one that is no number makes a gap. */
export function area(bands: readonly Band[]): string {
  let path = "";
  let part: Band[] = [];
  const close = () => {
    if (part.length > 0) {
      const drawn = part.length === 1 ? part.flatMap((band) => sides(band.x).map((x) => ({ ...band, x }))) : part;
      const high = drawn.map((band) => [band.x, band.high] as const);
      const low = drawn.map((band) => [band.x, band.low] as const).reverse();
      path += `${line([...high, ...low])}Z`;
    }
    part = [];
  };
  for (const band of bands) {
    if (Number.isFinite(band.low) && Number.isFinite(band.high)) part.push(band);
    else close();
  }
  close();
  return path;
}

function sides(x: number): [number, number] {
  return [x - LONE / 2, x + LONE / 2];
}

function pixel(value: number): string {
  return value.toFixed(1).replace(/\.0$/, "");
}
