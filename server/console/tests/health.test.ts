import assert from "node:assert/strict";
import { test } from "node:test";
import { Problem } from "../src/api/request";
import type { Readiness } from "../src/api/types";
import { healthOf, healthWithout } from "../src/state/health";
import { HealthText } from "../src/view/health";
import { elementsOf, textOf, withClass } from "./vnodes";

const full = { kind: "disk-full", detail: "the disk is full: no space for writes" };
const damaged = { kind: "damaged-files", table: "shop.orders", detail: "shop.orders: files are damaged" };

// Regression: any answer with status 200 was shown as ready, also that of a server with a full disk.
test("a degraded server is shown in words with its reasons, and with a sign", () => {
  const health = healthOf({ status: "degraded", problems: [full, damaged] });
  assert.equal(health.level, "degraded");
  const view = HealthText({ health });
  const [state] = withClass(view, "state");
  assert.equal(textOf(state), "degraded: the disk is full: no space for writes");
  assert.ok(String(state!.props.class).includes("degraded"));
  assert.equal(withClass(state, "warning").length, 1);
  assert.match(textOf(view), /and 1 other reason.*shop\.orders: files are damaged/);
});

test("a ready server has no sign and no reasons", () => {
  const view = HealthText({ health: healthOf({ status: "ok", problems: [] }) });
  assert.equal(textOf(view), "ready");
  assert.equal(withClass(view, "warning").length, 0);
  assert.equal(elementsOf(view).filter(({ type }) => type === "details").length, 0);
});

test("a server that is not ready says all its reasons, and one that does not answer says so", () => {
  const stopped: Readiness["problems"][number] = { kind: "writes-stopped", detail: "the store takes no writes: a failed fsync" };
  const body = JSON.stringify({ status: "unavailable", detail: stopped.detail, problems: [stopped, full] });
  const found = healthWithout(new Problem(503, stopped.detail, body));
  assert.deepEqual(found, { level: "unavailable", reasons: [stopped.detail, full.detail] });
  const silent = healthWithout(new Problem(0, "the server does not answer"));
  assert.equal(textOf(HealthText({ health: silent })), "not ready: the server does not answer");
});

test("many reasons are cut, and counted", () => {
  const problems = Array.from({ length: 40 }, (_, i) => ({ kind: "damaged-files", detail: `t${i}: files are damaged` }));
  const view = HealthText({ health: healthOf({ status: "degraded", problems }) });
  assert.equal(elementsOf(view).filter(({ type }) => type === "li").length, 21);
  assert.match(textOf(view), /and 19 more$/);
});
