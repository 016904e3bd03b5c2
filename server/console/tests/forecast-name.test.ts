import assert from "node:assert/strict";
import { test } from "node:test";
import type { Forecast } from "../src/api/types";
import { forecastName } from "../src/chart/forecast-name";

test("the legend names the source of the forecast, and why a learned one was refused", () => {
  const name = (source: string, refused?: Forecast["refused"], points: Forecast["points"] = []) =>
    forecastName({ made_at_unix_ms: 0, source, refused, points, error: null });
  assert.equal(name("learned", null), "kept from jobs, learned forecast");
  assert.equal(name("given", null), "kept from jobs, forecast");
  assert.equal(name("fixed", null), "kept from jobs, constant");
  // A server of an older version has no `refused`.
  assert.equal(name("last-ten-minutes"), "kept from jobs, mean of 10 minutes");
  const refused = { forecast_error_cores: 0.314, mean_error_cores: 0.1 };
  assert.equal(
    name("last-ten-minutes", refused),
    "kept from jobs, mean of 10 minutes: the learned forecast missed by 0.31 cores",
  );
  const unknown = { at_unix_ms: 0, load_cores: 1, low_cores: null, high_cores: null };
  const known = { ...unknown, low_cores: 0.5, high_cores: 1.5 };
  assert.equal(name("given", null, [unknown, unknown]), "kept from jobs, forecast (its interval is not known yet)");
  assert.equal(name("given", null, [known, unknown]), "kept from jobs, forecast");
});
