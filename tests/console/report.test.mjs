// The report of `ebb demo`: the page of the console in one file, without a server and without changes. And the
// reports of `ebb demo --compare`, which has no server: a page of its own for all days, and one for each day.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { SIZES, assertAccessible, launch, picture, visit } from "./browser.mjs";

const URL_OF_REPORT = pathToFileURL(process.env.REPORT).href;
/** The smallest font in a chart that is readable, in CSS pixels as they are drawn. */
const FONT_PX_MIN = 10;
const { COMPARED } = process.env;
let browser;

/** Asserts that the page is no wider than its window, and that all text in its charts is readable. */
async function assertReadable(page) {
  const { scroll, width, fonts } = await page.evaluate(() => ({
    scroll: document.documentElement.scrollWidth,
    width: window.innerWidth,
    // A drawing that the style sheet hides has no transformation to the screen.
    fonts: [...document.querySelectorAll("svg text")]
      .filter((text) => text.checkVisibility())
      .map((text) => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a),
  }));
  assert.ok(scroll <= width, `it is ${scroll} wide on ${width}`);
  assert.ok(fonts.length > 0 && Math.min(...fonts) >= FONT_PX_MIN, `${fonts}`);
}

before(async () => {
  browser = await launch();
});

after(async () => {
  await browser.close();
});

for (const size of Object.keys(SIZES)) {
  for (const theme of ["light", "dark"]) {
    test(`the report on a ${size} screen, ${theme}`, async () => {
      // Fails by `broken` if the page requests anything outside of the file.
      const { page, context, broken } = await visit(browser, URL_OF_REPORT, { size, theme });
      await page.waitForSelector("svg.cores");
      await page.getByText(/goals met/).waitFor();
      // The day has four jobs.
      await page.locator("tr[data-job]").nth(3).waitFor();
      assert.equal(await page.getByRole("button", { name: /New|Cancel|What if|Log out/ }).count(), 0);
      await assertReadable(page);
      await assertAccessible(page, `the report, ${size}, ${theme}`);
      await picture(page, `report-${size}-${theme}`, true);
      assert.deepEqual(broken, []);
      await context.close();
    });
  }
}

for (const [file, name] of [["compare.html", "comparison"], ["report-fifo.html", "day"]]) {
  for (const [size, theme] of [["phone", "dark"], ["phone", "light"], ["wide", "light"]]) {
    test(`the ${name} without a server on a ${size} screen, ${theme}`, async () => {
      const url = pathToFileURL(join(COMPARED, file)).href;
      const { page, context, broken } = await visit(browser, url, { size, theme });
      await page.getByRole("table").first().waitFor();
      await assertReadable(page);
      await assertAccessible(page, `${file}, ${size}, ${theme}`);
      await picture(page, `${name}-${size}-${theme}`, true);
      assert.deepEqual(broken, []);
      await context.close();
    });
  }
}
