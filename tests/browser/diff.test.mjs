/** Two tapes side by side in Chromium, opened from a file. Console errors, page errors and requests fail the test. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { SCREENSHOTS } from "./harness.mjs";
import { startReports } from "./reports.mjs";

let reports;

before(async () => {
  reports = await startReports({ diff: { traces: ["recorded-ignore", "recorded-preserve"], diff: true } });
});

after(() => reports?.stop());

async function open(options) {
  const opened = await reports.open("diff", options);
  await opened.page.waitForFunction(() => document.querySelectorAll(".td-badge").length === 2);
  return opened;
}

describe("before and after", () => {
  test("what changed is on top, both tapes below, and a launch chosen in one is chosen in the other", async () => {
    const { page, finish } = await open();
    assert.match(await page.title(), /before and after/);
    assert.deepEqual(await page.locator(".td-badge").allTextContents(), ["✕ gradient WRONG", "✓ gradient AGREE"]);
    assert.match(await page.textContent(".td-diff-overview"), /verdictWRONG → AGREE/);
    const said = await page.getByLabel("In short").locator("dd").allTextContents();
    assert.match(said[0], /^Two tapes are compared, before and after a change: .*WRONG.* and .*AGREE/);
    assert.match(
      said[1],
      /^Before: The gradient of .* is wrong: it is off by .* After: Nothing was found to be wrong: /,
    );
    assert.match(said[2], /Nothing is left to change\.$/);
    const scrubbed = () => page.locator(".td-scrub-text").allTextContents();
    const sides = page.locator(".td-diff-side");
    await sides.first().locator(".td-canvas").focus();
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowRight");
    const [one, other] = await scrubbed();
    assert.equal(one, other);
    await sides.last().locator(".td-canvas").focus();
    await page.keyboard.press("ArrowRight");
    const [back, moved] = await scrubbed();
    assert.equal(back, moved);
    assert.notEqual(back, one);
    await page.getByRole("tab", { name: "What was checked" }).click();
    assert.equal(await page.locator(".td-account-tape").count(), 2);
    await finish();
  });

  for (const [width, colorScheme] of [
    [1400, "light"],
    [1400, "dark"],
    [700, "dark"],
    [400, "light"],
  ]) {
    test(`${width} pixels, ${colorScheme}: nothing is cut off`, async () => {
      const { page, finish } = await open({ width, height: 900, colorScheme });
      const seen = await page.evaluate(() => ({
        wide: document.documentElement.scrollWidth - window.innerWidth,
        cut: [...document.querySelectorAll(".td-diff-summary, .td-diff-side, .td-canvas, .td-header")]
          .filter((element) => element.getBoundingClientRect().right > window.innerWidth + 1)
          .map((element) => element.className),
        // the tapes lie beside or below each other, never on top
        over: [...document.querySelectorAll(".td-diff-side")].map((element) => {
          const { left, top, right, bottom } = element.getBoundingClientRect();
          return { left, top, right, bottom };
        }),
      }));
      assert.deepEqual([seen.wide, seen.cut], [0, []]);
      const [one, other] = seen.over;
      assert.ok(one.right <= other.left + 1 || one.bottom <= other.top + 1, JSON.stringify(seen.over));
      await page.screenshot({ path: join(SCREENSHOTS, `diff-${colorScheme}-${width}.png`) });
      await finish();
    });
  }
});
