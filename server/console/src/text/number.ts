// Amounts as texts.

/** Bytes in powers of 1024: `412 B`, `1.3 MiB`. */
export function bytes(count: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let value = count;
  let unit = 0;
  while (value >= 1023.5 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const text = unit === 0 || value >= 99.95 ? value.toFixed(0) : value.toFixed(1);
  return `${text} ${units[unit]}`;
}

/** Cores, to a hundredth. */
export function cores(value: number): string {
  return value.toFixed(2);
}

/** A count or a rate with three digits or so: `87`, `4.1k`, `12.5k`, `3.2M`. */
export function short(value: number): string {
  const size = Math.abs(value);
  if (size < 10) return trim(value.toFixed(1));
  if (size < 999.5) return value.toFixed(0);
  if (size < 999_500) return `${trim((value / 1e3).toFixed(size < 99_950 ? 1 : 0))}k`;
  return `${trim((value / 1e6).toFixed(1))}M`;
}

/** A part of one, in percent. */
export function percent(ratio: number): string {
  return `${Math.round(ratio * 100)}%`;
}

/** `1 job`, `2 jobs`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

function trim(text: string): string {
  return text.replace(/\.0$/, "");
}
