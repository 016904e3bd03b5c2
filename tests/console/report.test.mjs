// The report of `ebb demo`: the page of the console in one file, without a server and without changes.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { SIZES, assertAccessible, launch, picture, visit } from "./browser.mjs";

const URL_OF_REPORT = pathToFileURL(process.env.REPORT).href;
/** The smallest font in a chart that is readable, in CSS pixels as they are drawn. */
const FONT_PX_MIN = 10;
let browser;

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
      const { scroll, width, fonts } = await page.evaluate(() => ({
        scroll: document.documentElement.scrollWidth,
        width: window.innerWidth,
        fonts: [...document.querySelectorAll("svg text")].map(
          (text) => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a,
        ),
      }));
      assert.ok(scroll <= width, `it is ${scroll} wide on ${width}`);
      assert.ok(fonts.length > 0 && Math.min(...fonts) >= FONT_PX_MIN, `${fonts}`);
      await assertAccessible(page, `the report, ${size}, ${theme}`);
      await picture(page, `report-${size}-${theme}`, true);
      assert.deepEqual(broken, []);
      await context.close();
    });
  }
}
