// The entry of the forecast in the legend of the cores.

import type { Forecast } from "../api/types";
import { cores } from "../text/number";

/** The name of the forecast, with its source. */
export function forecastName({ source, refused, points }: Forecast): string {
  const isWithoutInterval = points.length > 0 && points.every(({ low_cores }) => low_cores === null);
  const interval = isWithoutInterval ? " (its interval is not known yet)" : "";
  const missed = refused ? `: the learned forecast missed by ${cores(refused.forecast_error_cores)} cores` : "";
  return `kept from jobs, ${sourceName(source)}${interval}${missed}`;
}

function sourceName(source: string): string {
  switch (source) {
    case "learned":
      return "learned forecast";
    case "last-ten-minutes":
      return "mean of 10 minutes";
    case "fixed":
      return "constant";
    default:
      return "forecast";
  }
}
