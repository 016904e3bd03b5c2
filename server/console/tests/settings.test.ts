import assert from "node:assert/strict";
import { test } from "node:test";
import type { Setting } from "../src/api/types";
import { bySource, valueText } from "../src/state/settings";

test("settings that somebody chose are apart from defaults, both in their order", () => {
  const sources = ["default", "file", "flag", "default", "environment"] as const;
  const settings: Setting[] = sources.map((source, i) => ({ name: String(i), value: i, source }));
  const { chosen, defaults } = bySource(settings);
  assert.deepEqual(chosen.map(({ name }) => name), ["1", "2", "4"]);
  assert.deepEqual(defaults.map(({ name }) => name), ["0", "3"]);
});

test("values are texts, and a setting without a value has none", () => {
  assert.equal(valueText("5s"), "5s");
  assert.equal(valueText(0), "0");
  assert.equal(valueText(false), "false");
  assert.equal(valueText(["a", "b"]), "a, b");
  for (const none of [null, "", []]) assert.equal(valueText(none), null);
});
