// The actions of an operator, against a real server.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { assertAccessible, launch, logIn, picture, visit } from "./browser.mjs";

const { URL, TOKEN, READER, ADMIN } = process.env;
/** The longest time until the load is drawn, for a visitor without a cache on a quiet machine. */
const DRAWN_MS_MAX = 300;
/** The number of first loads that are measured. */
const LOADS = 10;
const FOREVER = String(2 ** 49);
let browser, page, broken;

before(async () => {
  browser = await launch();
  ({ page, broken } = await visit(browser, URL));
});

after(async () => {
  await browser.close();
  assert.deepEqual(broken, []);
});

/** Fills in the form of a new job that takes CPU and nothing else. */
async function fillPi(points, output, goal = "") {
  await page.getByRole("button", { name: "New job" }).click();
  await page.locator("select[name=application]").selectOption("pi");
  await page.locator("input[name=points]").fill(points);
  await page.locator("input[name=output]").fill(`shop.${output}`);
  await page.locator("input[name=goal]").fill(goal);
}

/**
 * Submits the form; returns the id of the job from the server's response, because the page may still show the
 * message about an earlier job.
 */
async function submit() {
  const answer = page.waitForResponse(
    (response) => response.request().method() === "POST" && response.url().endsWith("/v1/jobs"),
  );
  await page.getByRole("button", { name: "Submit", exact: true }).click();
  const { record } = await (await answer).json();
  const id = String(record.id);
  await page.locator(".message", { hasText: `was submitted as ${id}` }).waitFor();
  return id;
}

const row = (id) => page.locator(`tr[data-job="${id}"]`);

async function cancel(id) {
  await row(id).getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Cancel the job" }).click();
  await page.locator(`tr[data-job="${id}"][data-state=cancelled]`).waitFor();
}

test("a wrong token is refused, and the right one logs in", async () => {
  await page.getByLabel("Token").fill("ebb_wrong");
  await page.keyboard.press("Enter");
  await page.locator("#token-problem").waitFor();
  await assertAccessible(page, "login");
  await logIn(page, TOKEN);
  await page.getByText("live", { exact: true }).waitFor();
  await page.getByText("p99 ≤ 50.0 ms").first().waitFor();
  const cookies = await page.context().cookies();
  const [session] = cookies.filter(({ name }) => name === `ebb_session_${new globalThis.URL(URL).port}`);
  assert.ok(session.httpOnly && session.sameSite === "Strict", JSON.stringify(session));
});

test("a job is submitted and watched until it is done", async () => {
  await fillPi("300000000", "pi", "10 min");
  const id = await submit();
  await page.locator(`tr[data-job="${id}"][data-state=succeeded]`).waitFor();
  await row(id).getByRole("button", { name: "pi", exact: true }).click();
  await page.getByText("Counters").click();
  await picture(page, "job");
  await assertAccessible(page, "a job");
  await page.keyboard.press("Escape");
});

test("the form names a missing field, and shows an error of the server", async () => {
  await page.getByRole("button", { name: "New job" }).click();
  await page.getByRole("button", { name: "Submit", exact: true }).click();
  await page.locator("dialog .problem", { hasText: "Input: name a table" }).waitFor();
  await page.locator("dialog").getByLabel("Table").first().fill("shop.nothing");
  await page.locator("input[name=output]").fill("shop.counts");
  await page.getByRole("button", { name: "Submit", exact: true }).click();
  await page.locator("dialog .problem", { hasText: "nothing" }).waitFor();
  await page.keyboard.press("Escape");
});

test("a goal that will be missed turns red, and the job is cancelled", async () => {
  await fillPi(FOREVER, "late", "4 s");
  const id = await submit();
  await page.locator(`.goal.late[data-job="${id}"]`).waitFor();
  await page.locator(`tr.late[data-job="${id}"]`).waitFor();
  await page.locator(".fact.bad", { hasText: "late" }).waitFor();
  assert.match(await page.title(), /^\d+ late/);
  const drawn = page.locator(`.goal.late[data-job="${id}"] line`);
  const colour = await drawn.evaluate((line) => getComputedStyle(line).stroke);
  const [red, green, blue] = colour.match(/\d+/g).map(Number);
  assert.ok(red > 150 && red > 2 * green && red > 2 * blue, colour);
  await assertAccessible(page, "with a late job");
  await cancel(id);
});

test("a job's share is drawn in the picture", async () => {
  await fillPi(FOREVER, "drawn");
  const id = await submit();
  await page.locator("svg.cores .area.job").first().waitFor();
  await page.locator(".legend", { hasText: "pi" }).first().waitFor();
  await cancel(id);
});

test("a cancelled job is retried as another job", async () => {
  await fillPi(FOREVER, "again");
  const id = await submit();
  await cancel(id);
  const answer = page.waitForResponse((response) => response.url().endsWith(`/v1/jobs/${id}/retry`));
  await row(id).getByRole("button", { name: "Retry" }).click();
  const { record } = await (await answer).json();
  assert.notEqual(record.id, id);
  await page.locator(".message", { hasText: `was submitted again as ${record.id}` }).waitFor();
  await cancel(String(record.id));
});

test("what-if works by keyboard alone", async () => {
  await page.locator("body").press("w");
  await page.locator("dialog").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.name), "maps");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("8");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("2 s");
  await page.keyboard.press("Enter");
  await page.locator(".answer", { hasText: "Done at" }).waitFor();
  await picture(page, "what-if");
  await assertAccessible(page, "what-if");
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("dialog").count(), 0);
  await page.locator(".what", { hasText: "What if: 8 maps" }).waitFor();
  await page.getByRole("button", { name: "Dismiss" }).click();
});

test("a snapshot is created, drawn through the table's runs, and deleted", async () => {
  await page.getByRole("button", { name: "New snapshot" }).click();
  await page.locator("dialog input[name=name]").fill("monday");
  await page.locator("dialog select[name=keyspace]").selectOption("shop");
  await page.getByRole("button", { name: "Create" }).click();
  await page.locator("tr[data-snapshot=monday]").waitFor();
  await page.locator(".run-list[aria-label*=monday]").first().waitFor();
  await assertAccessible(page, "with a snapshot");
  await page.getByRole("button", { name: "Delete snapshot monday" }).click();
  await page.getByRole("button", { name: "Delete the snapshot" }).click();
  await page.locator("tr[data-snapshot=monday]").waitFor({ state: "detached" });
});

test("a token with scope read is offered no changes", async () => {
  const reader = await visit(browser, URL);
  await logIn(reader.page, READER);
  await reader.page.getByRole("heading", { name: "Jobs", exact: true }).waitFor();
  assert.equal(await reader.page.getByRole("button", { name: /New|Cancel|Again|Retry|Edit|What if/ }).count(), 0);
  await reader.page.getByRole("link", { name: "Server" }).click();
  await reader.page.getByText("The configuration: log in with a token for scope admin.").waitFor();
  assert.deepEqual(reader.broken, []);
  await reader.context.close();
});

test("the page of the server has its queries, backups and configuration", async () => {
  const admin = await visit(browser, URL);
  await logIn(admin.page, ADMIN);
  const made = await admin.page.evaluate(async () => {
    const headers = { "Content-Type": "application/json" };
    const body = JSON.stringify({ name: "monday" });
    return (await fetch("/v1/backups", { method: "POST", headers, body })).status;
  });
  assert.equal(made, 201);
  await admin.page.getByRole("link", { name: "Server" }).click();
  await admin.page.locator("tr[data-backup=monday]").waitFor();
  await admin.page.getByText("No query waits or runs.").waitFor();
  const slo = admin.page.locator("tr[data-setting=slo]");
  await slo.waitFor();
  assert.match(await slo.textContent(), /p99=50ms.*command line/);
  await admin.page.getByText(/\d+ defaults/).click();
  await assertAccessible(admin.page, "the page of the server");
  await picture(admin.page, "server");
  await admin.page.goBack();
  await admin.page.waitForSelector("svg.cores");
  assert.deepEqual(admin.broken, []);
  await admin.context.close();
});

test("the first load is quick", async () => {
  // Visitors without any part of the page in their caches: the times from the start of the navigation until the
  // first paint, and until the load is drawn.
  const painted = [];
  const drawn = [];
  const storageState = await page.context().storageState();
  for (let i = 0; i < LOADS; i += 1) {
    const context = await browser.newContext({ storageState });
    const fresh = await context.newPage();
    await fresh.addInitScript(() => {
      // What is there in a frame is painted before the next one.
      const finish = () => (window.drawnMs = performance.now());
      const look = () => requestAnimationFrame(document.querySelector("svg.cores") ? finish : look);
      requestAnimationFrame(look);
    });
    await fresh.goto(URL);
    await fresh.waitForFunction(() => window.drawnMs !== undefined);
    const [paint, picture] = await fresh.evaluate(() => [
      performance.getEntriesByName("first-contentful-paint")[0].startTime,
      window.drawnMs,
    ]);
    painted.push(Math.round(paint));
    drawn.push(Math.round(picture));
    await context.close();
  }
  const median = (times) => {
    const sorted = [...times].sort((a, b) => a - b);
    return (sorted[(times.length - 1) >> 1] + sorted[times.length >> 1]) / 2;
  };
  // A busy machine may take longer than the bar, so the bar is only printed.
  const verdict = median(drawn) <= DRAWN_MS_MAX ? "meets" : "misses";
  const figures = [
    `first load, until the first paint: median ${median(painted)} ms of ${painted.join(", ")}`,
    `first load, until the load is drawn: median ${median(drawn)} ms of ${drawn.join(", ")}, ${verdict} ${DRAWN_MS_MAX} ms`,
  ];
  // tests/console/run prints the file at its end.
  writeFileSync(process.env.FIRST_LOAD, `${figures.join("\n")}\n`);
});

test("after logging out the session is over", async () => {
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("Token").waitFor();
  await page.reload();
  await page.getByLabel("Token").waitFor();
});
