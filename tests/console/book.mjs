// Makes pictures of the console for the book: `book.mjs day`, of a running demo. `book.mjs report` checks the file
// that the demo leaves.

import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";
import { assertAccessible, launch, picture, visit } from "./browser.mjs";

const { ADDRESS, REPORT, SECONDS_OF_DAY } = process.env;
const browser = await launch();

if (process.argv[2] === "day") {
  const { origin } = new URL(ADDRESS);
  // The address that the demo prints logs the visitor in.
  const entered = await visit(browser, origin, { address: ADDRESS });
  const { page } = entered;
  await page.waitForSelector("svg.cores");
  assert.equal(page.url(), `${origin}/`, "the token is out of the address");
  // The day begins once its jobs exist. 45% of its length later is about the middle of the day.
  await page.locator("tr[data-job]").first().waitFor();
  await page.waitForTimeout(Number(SECONDS_OF_DAY) * 450);
  await picture(page, "console-light");
  await assertAccessible(page, "the day");
  await page.locator("body").press("w");
  await page.locator("dialog input[name=maps]").fill("80");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("500 ms");
  await page.keyboard.press("Enter");
  await page.locator(".answer", { hasText: "Done at" }).waitFor();
  await picture(page, "console-what-if");
  const phone = await visit(browser, origin, { size: "phone", theme: "dark", address: ADDRESS });
  await phone.page.waitForSelector("svg.cores");
  await phone.page.locator("tr[data-job]").first().waitFor();
  await picture(phone.page, "console-phone");
  assert.deepEqual([...entered.broken, ...phone.broken], []);
} else {
  const url = pathToFileURL(REPORT).href;
  const { page, broken } = await visit(browser, url);
  await page.waitForSelector("svg.cores");
  await page.getByText(/goals met/).waitFor();
  assert.equal(await page.getByRole("button", { name: /New|Cancel|What if|Log out/ }).count(), 0);
  assert.ok((await page.locator("tr[data-job]").count()) >= 4, "its jobs");
  await assertAccessible(page, "the report");
  assert.deepEqual(broken, []);
}
await browser.close();
