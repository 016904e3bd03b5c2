// Helpers for tests in a browser: pages, logging in, pictures, and checks by axe.

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

/** A limit in milliseconds that only ends a hang. It is long, because jobs get the cores that others leave. */
export const LONG_MS = 180_000;

export async function launch() {
  // A sandbox needs privileges that containers lack. It is not needed: only pages of this server are visited.
  return chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
}

/** Opens a page of the server at `url` for a new visitor. `broken` collects the errors of the page. */
export async function visit(browser, url, { size = "wide", theme = "light", address = url } = {}) {
  const context = await browser.newContext({ viewport: SIZES[size], colorScheme: theme });
  const page = await context.newPage();
  page.setDefaultTimeout(LONG_MS);
  const broken = [];
  page.on("pageerror", (error) => broken.push(error.message));
  page.on("console", (message) => {
    // The page explains requests that the server refuses, such as those of a visitor who is not logged in.
    const isRefused = /status of 4\d\d/.test(message.text()) && /^[^/]*\/\/[^/]*\/v1\//.test(message.location().url);
    if (message.type() === "error" && !isRefused)
      broken.push(`${message.text()}: ${message.location().url}`);
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(url)) broken.push(`request to another host: ${request.url()}`);
  });
  await page.goto(address);
  return { page, context, broken };
}

export async function logIn(page, token) {
  await page.getByLabel("Token").fill(token);
  await page.keyboard.press("Enter");
  await page.waitForSelector("svg.cores");
}

/** Returns the faults that axe finds on the page. Its script goes in by the debugger, because the page's policy
 * allows no other scripts. */
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
