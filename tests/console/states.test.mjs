// States that a real server rarely has, over a mock server: the page explains each in words, and looks right.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { after, before, test } from "node:test";
import { SIZES, assertAccessible, launch, logIn, picture, visit } from "./browser.mjs";

const TOKEN = "ebb_made-up";
let browser;
const servers = [];

/** Starts a mock server; returns its address. */
async function serve(...args) {
  return start("0", ...args);
}

async function start(port, ...args) {
  const server = spawn(process.execPath, ["server/console/mock/server.mjs", port, ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  servers.push(server);
  const [line] = await new Promise((resolve) => server.stdout.once("data", (data) => resolve(String(data).split("\n"))));
  return line;
}

before(async () => {
  browser = await launch();
});

after(async () => {
  await browser.close();
  servers.forEach((server) => server.kill());
});

for (const size of Object.keys(SIZES)) {
  for (const theme of ["light", "dark"]) {
    test(`the page on a ${size} screen, ${theme}`, async () => {
      const { page, context, broken } = await visit(browser, await serve(), { size, theme });
      await logIn(page, TOKEN);
      await page.locator(".run-list svg").first().waitFor();
      await page.locator(".goal.late").nth(1).waitFor();
      const done = (job) => page.locator("tr[data-job]", { has: page.getByRole("button", { name: job, exact: true }) });
      await done("join").getByText("not within a week").waitFor();
      await done("sort").getByText("not known yet").waitFor();
      const waits = "waits: other jobs come first: they get 0.90 of 1 core left for jobs";
      await page.locator("tr[data-job]", { hasText: waits }).waitFor();
      await page.locator(".run-list[aria-label$='1 damaged file'] .run.damaged").waitFor();
      await page.locator(".one-table[data-table='shop.reviews'] .bad", { hasText: "1 file" }).waitFor();
      await assertAccessible(page, `${size}, ${theme}`);
      const { scroll, width } = await page.evaluate(() => ({
        scroll: document.documentElement.scrollWidth,
        width: window.innerWidth,
      }));
      assert.ok(scroll <= width, `it is ${scroll} wide on ${width}`);
      await picture(page, `${size}-${theme}-top`);
      await picture(page, `${size}-${theme}`, true);
      assert.deepEqual(broken, []);
      await context.close();
    });
  }
}

for (const [size, theme] of [["phone", "dark"], ["wide", "light"]]) {
  test(`the page of the server on a ${size} screen, ${theme}`, async () => {
    const { page, context, broken } = await visit(browser, await serve(), { size, theme });
    await logIn(page, TOKEN);
    await page.locator("body").press("p");
    await page.locator("tr[data-query]").first().waitFor();
    await page.getByRole("progressbar", { name: "Progress of backup" }).waitFor();
    await page.getByText(/\d+ defaults/).click();
    await assertAccessible(page, `server, ${size}, ${theme}`);
    const { scroll, width } = await page.evaluate(() => ({
      scroll: document.documentElement.scrollWidth,
      width: window.innerWidth,
    }));
    assert.ok(scroll <= width, `it is ${scroll} wide on ${width}`);
    await picture(page, `server-${size}-${theme}`, true);
    await page.getByRole("button", { name: "Kill query 7" }).click();
    await page.getByRole("button", { name: "Kill the query" }).click();
    await page.locator("tr[data-query='7']").waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Kill query 9" }).click();
    await page.getByRole("button", { name: "Kill the query" }).click();
    await page.locator("dialog .problem", { hasText: "it goes on to its end" }).waitFor();
    assert.deepEqual(broken, []);
    await context.close();
  });
}

for (const [size, theme] of [["phone", "dark"], ["wide", "light"]]) {
  test(`a degraded server says why, and damage is found among many tables, on a ${size} screen, ${theme}`, async () => {
    const { page, context, broken } = await visit(browser, await serve("--degraded", "--tables", "40"), { size, theme });
    await logIn(page, TOKEN);
    const state = page.locator(".state.degraded");
    await state.waitFor();
    assert.equal((await state.textContent()).trim(), "degraded: the disk is full: no space for writes");
    assert.equal(await state.locator("svg.warning").count(), 1);
    await page.getByText("and 1 other reason").click();
    await page.getByText("shop.reviews: files are damaged or unreadable").waitFor();
    // The smallest of all tables is damaged.
    const tables = page.locator(".one-table");
    await page.locator(".section-head .bad", { hasText: "2 damaged tables" }).waitFor();
    await page.locator(".one-table[data-table='small.t39'] .bad", { hasText: "1 file" }).waitFor();
    assert.equal(await tables.count(), 12);
    await page.getByRole("button", { name: "12 more tables" }).click();
    await tables.nth(23).waitFor();
    await page.getByLabel("A table by name").fill("t3");
    await page.getByRole("button", { name: "Find", exact: true }).click();
    // small.t3 and small.t30 to small.t39.
    await page.locator(".one-table[data-table='shop.orders']").waitFor({ state: "detached" });
    assert.equal(await tables.count(), 11);
    await assertAccessible(page, `degraded, ${size}, ${theme}`);
    const { scroll, width } = await page.evaluate(() => ({
      scroll: document.documentElement.scrollWidth,
      width: window.innerWidth,
    }));
    assert.ok(scroll <= width, `it is ${scroll} wide on ${width}`);
    await picture(page, `degraded-${size}-${theme}`, true);
    await page.getByRole("button", { name: "All tables" }).click();
    await page.locator(".one-table[data-table='shop.orders']").waitFor();
    assert.deepEqual(broken, []);
    await context.close();
  });
}

test("a run is chosen by keyboard and by a finger, and its details are shown", async () => {
  const { page, context, broken } = await visit(browser, await serve(), { size: "phone" });
  await logIn(page, TOKEN);
  const table = page.locator(".one-table[data-table='shop.orders']");
  const runs = table.locator(".run-target");
  await runs.nth(5).waitFor();
  assert.equal(await table.locator(".run-target[tabindex='0']").count(), 1);
  const detail = table.locator(".run-detail");
  await runs.first().focus();
  await detail.getByText("run 1 of 6, the newest").waitFor();
  await page.keyboard.press("ArrowRight");
  await detail.getByText("run 2 of 6").waitFor();
  assert.equal(await runs.nth(1).evaluate((run) => run === document.activeElement), true);
  await page.keyboard.press("End");
  await detail.getByText(/run 6 of 6, the oldest; 774 MiB.*commits 1 to 41200; stratum 3 of 3; seen by sunday, monday/).waitFor();
  await runs.nth(4).click();
  await detail.getByText("run 5 of 6").waitFor();
  await detail.getByRole("button", { name: "Previous run" }).click();
  await detail.getByText("run 4 of 6").waitFor();
  await assertAccessible(page, "with a run that is chosen");
  await table.scrollIntoViewIfNeeded();
  await picture(page, "run");
  assert.deepEqual(broken, []);
  await context.close();
});

test("the bound of a ratio is drawn, and the load is red above it", async () => {
  const { page, context, broken } = await visit(browser, await serve("--ratio", "--guard-cut"));
  await logIn(page, TOKEN);
  const path = (selector) => page.locator(selector).getAttribute("d");
  await page.locator("svg.latency .objective-name", { hasText: "objective" }).waitFor();
  assert.match(await path("svg.latency path.objective"), /^M.*L/);
  // A burst of each 97 seconds is above the bound.
  assert.match(await path("svg.latency path.broken"), /^M.*L/);
  const colour = await page.locator("svg.latency path.broken").evaluate((line) => getComputedStyle(line).stroke);
  const [red, green, blue] = colour.match(/\d+/g).map(Number);
  assert.ok(red > 150 && red > 2 * green && red > 2 * blue, colour);
  await page.locator("svg.guard .cut text", { hasText: "older decisions are not kept" }).waitFor();
  const slider = page.getByRole("slider");
  await slider.focus();
  await page.keyboard.press("Home");
  assert.match(await slider.getAttribute("aria-valuetext"), /decisions of the guard are not kept$/);
  await picture(page, "ratio");
  assert.deepEqual(broken, []);
  await context.close();
});

test("jobs beyond the eighth have a texture", async () => {
  const { page, context, broken } = await visit(browser, await serve("--running", "9"));
  await logIn(page, TOKEN);
  await page.locator("svg.cores path.texture").first().waitFor();
  await page.locator("tr[data-job] .swatch.texture-1").first().waitFor();
  await picture(page, "many-jobs", true);
  assert.deepEqual(broken, []);
  await context.close();
});

test("the sheet of a job requests a page of its attempts once they are opened", async () => {
  const { page, context, broken } = await visit(browser, await serve());
  const requested = [];
  page.on("request", (request) => request.url().includes("/attempts") && requested.push(new URL(request.url()).search));
  await logIn(page, TOKEN);
  await page.locator("tr[data-job]").getByRole("button", { name: "wordcount", exact: true }).click();
  await page.locator("dialog dl.facts").waitFor();
  assert.deepEqual(requested, []);
  await page.getByText("Attempts at tasks").click();
  await page.locator("dialog details tbody tr", { hasText: "map 0" }).waitFor();
  assert.equal(requested[0], "?limit=50");
  await assertAccessible(page, "attempts");
  assert.deepEqual(broken, []);
  await context.close();
});

test("a job behind the first page of the list has its row and its goal, also when it ends", async () => {
  const { page, context, broken } = await visit(browser, await serve("--jobs", "1200"));
  await logIn(page, TOKEN);
  await page.getByText("5 jobs at work").waitFor();
  const late = page.locator(".goal.late").first();
  await late.waitFor();
  const row = page.locator(`tr[data-job="${await late.getAttribute("data-job")}"]`);
  await row.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Cancel the job" }).click();
  await page.getByText("4 jobs at work").waitFor();
  assert.equal(await row.getAttribute("data-state"), "cancelled");
  const ended = page.getByRole("table", { name: "Jobs that ended" }).locator("tbody tr");
  assert.equal(await ended.count(), 20);
  await page.getByRole("button", { name: "Show more" }).click();
  await ended.nth(39).waitFor();
  assert.deepEqual(broken, []);
  await context.close();
});

test("a server that falls silent is told as such, with the age of what is shown", async () => {
  const { page, context } = await visit(browser, await serve("--silent-after", "4"));
  await logIn(page, TOKEN);
  await page.getByText("live", { exact: true }).waitFor();
  const stale = page.locator(".state.stale", { hasText: "no data since" });
  await stale.waitFor();
  assert.match(await stale.textContent(), /no data since \d+ s, connecting again/);
  await picture(page, "stale");
  await assertAccessible(page, "stale");
  await context.close();
});

test("when a server comes back, the page is live again by itself", async () => {
  const url = await serve();
  const { page, context } = await visit(browser, url);
  await logIn(page, TOKEN);
  await page.getByText("live", { exact: true }).waitFor();
  const server = servers.at(-1);
  server.kill();
  await page.locator(".state.stale", { hasText: "no data since" }).waitFor();
  await start(new URL(url).port);
  await page.getByText("live", { exact: true }).waitFor();
  assert.equal(await page.locator(".state.stale").count(), 0);
  assert.equal(await page.locator(".problem").count(), 0);
  await context.close();
});

test("the keyboard moves through the pictures, and each place is described in words", async () => {
  const { page, context } = await visit(browser, await serve());
  await logIn(page, TOKEN);
  const slider = page.getByRole("slider");
  await slider.focus();
  const atEnd = await slider.getAttribute("aria-valuetext");
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowLeft");
  // Two steps of 5 s. The present goes on meanwhile.
  const behindS = -Number(await slider.getAttribute("aria-valuenow"));
  assert.ok(behindS >= 10 && behindS < 60, `${behindS} s`);
  const before = await slider.getAttribute("aria-valuetext");
  assert.match(before, /load \d\.\d\d, jobs \d\.\d\d, free \d\.\d\d of 2 cores.*p99.*guard [a-z ]+, allows \d+%$/);
  assert.notEqual(before, atEnd);
  await page.keyboard.press("Escape");
  assert.equal(await slider.getAttribute("aria-valuenow"), "0");
  await context.close();
});

test("single keys can be turned off", async () => {
  const { page, context } = await visit(browser, await serve());
  await logIn(page, TOKEN);
  await page.locator("body").press("?");
  await assertAccessible(page, "help");
  await page.getByLabel("Single keys are shortcuts").uncheck();
  await page.keyboard.press("Escape");
  await page.locator("body").press("n");
  assert.equal(await page.locator("dialog").count(), 0);
  await context.close();
});

test("a what-if names its victims, and is drawn until it is dismissed", async () => {
  const { page, context } = await visit(browser, await serve());
  await logIn(page, TOKEN);
  await page.locator("body").press("n");
  await page.locator("dialog").getByLabel("Table").first().fill("shop.orders");
  await page.locator("input[name=output]").fill("shop.counts");
  await page.locator("input[name=goal]").fill("5 min");
  await page.getByRole("button", { name: "What if?" }).click();
  await page.getByText("One goal would be broken").waitFor();
  await picture(page, "submit");
  await assertAccessible(page, "submit");
  await page.keyboard.press("Escape");
  await page.locator(".lane-name", { hasText: "what if: wordcount" }).waitFor();
  // Of the last lane.
  await page.locator("svg.lanes g > g:last-child > .lane-goal").waitFor();
  await page.getByRole("button", { name: "Dismiss" }).click();
  assert.equal(await page.locator(".lane-name", { hasText: "what if" }).count(), 0);
  await context.close();
});
