// A browser, pages of it, and axe.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import assert from "node:assert/strict";

const require = createRequire(process.env.MODULES);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const SIZES = {
  phone: { width: 390, height: 844 },
  wide: { width: 1440, height: 900 },
  wall: { width: 2560, height: 1440 },
};

/** Longer than anything takes on any machine, in milliseconds: jobs get what others leave. */
export const LONG_MS = 180_000;

export async function launch() {
  // A sandbox takes rights that containers do not give; only this page is visited.
  return chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
}

/** A page of a visitor of its own, of a server at `url`. What it reports as broken is in `broken`. */
export async function visit(browser, url, { size = "wide", theme = "light", address = url } = {}) {
  const context = await browser.newContext({ viewport: SIZES[size], colorScheme: theme });
  const page = await context.newPage();
  page.setDefaultTimeout(LONG_MS);
  const broken = [];
  page.on("pageerror", (error) => broken.push(error.message));
  page.on("console", (message) => {
    // What the server refuses, the page tells in its own words: that nobody is logged in, say.
    const isRefused = /status of 4\d\d/.test(message.text()) && /^[^/]*\/\/[^/]*\/v1\//.test(message.location().url);
    if (message.type() === "error" && !isRefused)
      broken.push(`${message.text()}: ${message.location().url}`);
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(url)) broken.push(`asked elsewhere: ${request.url()}`);
  });
  await page.goto(address);
  return { page, context, broken };
}

export async function logIn(page, token) {
  await page.getByLabel("Token").fill(token);
  await page.keyboard.press("Enter");
  await page.waitForSelector("svg.cores");
}

/** What axe finds fault with, wherever it is. The page's policy keeps scripts out, the debugger's is let in. */
export async function violations(page) {
  const debug = await page.context().newCDPSession(page);
  await debug.send("Runtime.evaluate", { expression: axe });
  const { result } = await debug.send("Runtime.evaluate", {
    expression:
      "axe.run().then(({ violations }) => JSON.stringify(violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html.slice(0, 200))])))",
    awaitPromise: true,
    returnByValue: true,
  });
  await debug.detach();
  return JSON.parse(result.value);
}

export async function assertAccessible(page, where) {
  assert.deepEqual(await violations(page), [], where);
}

export async function picture(page, name, fullPage = false) {
  await page.screenshot({ path: `${process.env.PICTURES}/${name}.png`, fullPage });
}
