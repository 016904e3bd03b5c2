// Times and durations as texts.

const SECOND = 1;
const MINUTE = 60;
const HOUR = 3600;
const DAY = 86_400;

/** A length of time in two units at most: `4 min 10 s`, `2 h 5 min`, `3 d`. */
export function duration(seconds: number): string {
  const s = Math.abs(seconds);
  if (s < 1) return s === 0 ? "0 s" : "< 1 s";
  if (s < 9.95) return `${trim(s.toFixed(1))} s`;
  const units: [number, string][] = [
    [DAY, "d"],
    [HOUR, "h"],
    [MINUTE, "min"],
    [SECOND, "s"],
  ];
  let whole = Math.round(s);
  const first = units.findIndex(([size]) => whole >= size);
  const [size, name] = units[first]!;
  const next = units[first + 1];
  if (next === undefined || whole >= 100 * size) return `${Math.floor(whole / size)} ${name}`;
  // Rounded to the smaller unit first: 119.7 min are 2 h.
  whole = Math.round(whole / next[0]) * next[0];
  if (whole % size === 0) {
    const above = units[first - 1];
    if (above !== undefined && whole === above[0]) return `1 ${above[1]}`;
    return `${whole / size} ${name}`;
  }
  return `${Math.floor(whole / size)} ${name} ${Math.round((whole % size) / next[0])} ${next[1]}`;
}

/** The names of units, with their seconds: those of the commands (crate `humantime`). `M` is a month there. */
const UNITS = new Map(
  Object.entries({
    "nanos nsec ns": 1e-9,
    "usec us µs": 1e-6,
    "millis msec ms": 1e-3,
    "seconds second secs sec s": SECOND,
    "minutes minute mins min m": MINUTE,
    "hours hour hrs hr h": HOUR,
    "days day d": DAY,
    "weeks week wks wk w": 7 * DAY,
    "months month M": 30.44 * DAY,
    "years year yrs yr y": 365.25 * DAY,
  }).flatMap(([names, seconds]) => names.split(" ").map((name) => [name, seconds] as const)),
);

/**
 * Returns the seconds of `90 s`, `500 ms`, `2 days` or `1h 30min`, as commands read them; `null` for any other text, such
 * as a number without a unit.
 */
export function parseDuration(text: string): number | null {
  const plain = text.trim();
  if (!/^(\d+(\.\d+)?\s*[a-zµ]+\s*)+$/i.test(plain)) return null;
  let sum = 0;
  for (const [, count, unit] of plain.matchAll(/(\d+(?:\.\d+)?)\s*([a-zµ]+)/gi)) {
    const seconds = UNITS.get(unit!) ?? UNITS.get(unit!.toLowerCase());
    if (seconds === undefined) return null;
    sum += Number(count) * seconds;
  }
  return sum;
}

/** Returns how to mend a text that is no time. Commands have the same text for a number without a unit. */
export function timeRemedy(text: string, example: string): string {
  const plain = text.trim();
  return /^\d+$/.test(plain) ? `${plain} has no unit: for seconds, write ${plain}s` : `write a time such as ${example}`;
}

/** The time of day, with seconds: `17:05:09`. With the day where that is not today's. */
export function clock(unixMs: number, nowMs: number, seconds = true): string {
  const at = new Date(unixMs);
  const time = [at.getHours(), at.getMinutes(), ...(seconds ? [at.getSeconds()] : [])]
    .map((part) => String(part).padStart(2, "0"))
    .join(":");
  const isToday = new Date(nowMs).toDateString() === at.toDateString();
  return isToday ? time : `${day(unixMs)} ${time}`;
}

/** The date, without the year: `24 Nov`. */
export function day(unixMs: number): string {
  return new Date(unixMs).toLocaleDateString("en-GB", { day: "numeric", month: "short" });
}

/** How long ago, or how far ahead. */
export function relative(unixMs: number, nowMs: number): string {
  const seconds = (unixMs - nowMs) / 1000;
  if (Math.abs(seconds) < 1) return "now";
  return seconds < 0 ? `${duration(seconds)} ago` : `in ${duration(seconds)}`;
}

/** A latency of microseconds: `850 µs`, `1.24 ms`, `2.1 s`. Without requests it is `null`, or 0 from an older server. */
export function latency(us: number | null): string {
  if (us === null || us === 0 || !Number.isFinite(us)) return "–";
  if (us < 999.5) return `${Math.round(us)} µs`;
  if (us < 999_500) return `${digits(us / 1e3)} ms`;
  return `${digits(us / 1e6)} s`;
}

function digits(value: number): string {
  return value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

function trim(text: string): string {
  return text.replace(/\.0$/, "");
}
