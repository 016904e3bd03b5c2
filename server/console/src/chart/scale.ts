// From values to pixels, and round values for axes.

export interface Scale {
  (value: number): number;
  /** The value at a pixel. */
  invert(pixel: number): number;
  readonly values: readonly [number, number];
  readonly pixels: readonly [number, number];
}

/** Proportional. */
export function linear(values: readonly [number, number], pixels: readonly [number, number]): Scale {
  const [v0, v1] = values;
  const [p0, p1] = pixels;
  const slope = v1 === v0 ? 0 : (p1 - p0) / (v1 - v0);
  const at = (value: number) => p0 + (value - v0) * slope;
  const invert = (pixel: number) => (slope === 0 ? v0 : v0 + (pixel - p0) / slope);
  return Object.assign(at, { invert, values, pixels });
}

/** Logarithmic; both ends are positive. What is smaller than both is drawn at the lower end. */
export function logarithmic(
  values: readonly [number, number],
  pixels: readonly [number, number],
): Scale {
  const inner = linear([Math.log10(values[0]), Math.log10(values[1])], pixels);
  const least = Math.min(...values);
  const at = (value: number) => inner(Math.log10(Math.max(value, least)));
  const invert = (pixel: number) => 10 ** inner.invert(pixel);
  return Object.assign(at, { invert, values, pixels });
}

/** Round values from `low` to `high`, about `count`, ascending. */
export function ticks(low: number, high: number, count: number): number[] {
  if (!(high > low) || count < 1) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((round) => round * power).find((round) => round >= rough * 0.999)!;
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  // By multiplication: sums of 0.1 drift.
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** The powers of ten between two positive values, ends included. */
export function powers(low: number, high: number): number[] {
  const first = Math.ceil(Math.log10(low) - 1e-9);
  const last = Math.floor(Math.log10(high) + 1e-9);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => 10 ** (first + i));
}

const STEPS_S = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
];

/**
 * Round times of the local day from `low` to `high` (Unix milliseconds), `count` at most, and
 * the seconds between them.
 */
export function timeTicks(low: number, high: number, count: number): { at: number[]; stepS: number } {
  const least = (high - low) / 1000 / Math.max(1, count);
  const stepS = STEPS_S.find((step) => step >= least) ?? STEPS_S.at(-1)!;
  const step = stepS * 1000;
  // Midnight is where the local day says, not where UTC's is.
  const shift = new Date(low).getTimezoneOffset() * 60_000;
  const at: number[] = [];
  for (let t = Math.ceil((low - shift) / step) * step + shift; t <= high; t += step) at.push(t);
  return { at, stepS };
}
