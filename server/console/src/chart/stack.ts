// Shares of jobs on top of each other.

/** Of one job: from where to where it reaches at each time, in cores. */
export interface Layer {
  id: string;
  low: number[];
  high: number[];
}

/**
 * Stacks the shares that each instant has, in the order of `ids`, the first at the bottom.
 * A job that an instant does not name has nothing there. Layers that are nothing throughout
 * are left out.
 */
export function stack(shares: readonly Readonly<Record<string, number>>[], ids: readonly string[]): Layer[] {
  const floor = shares.map(() => 0);
  const layers: Layer[] = [];
  for (const id of ids) {
    const own = shares.map((share) => Math.max(0, share[id] ?? 0));
    if (!own.some((cores) => cores > 0)) continue;
    const low = floor.slice();
    own.forEach((cores, i) => (floor[i]! += cores));
    layers.push({ id, low, high: floor.slice() });
  }
  return layers;
}
