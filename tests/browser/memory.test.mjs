/** The memory view of a report: it paints, in both themes, what the tape kept, and a click or a key goes to the version. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startReports } from "./reports.mjs";

let reports;
before(async () => {
  reports = await startReports({ net: { traces: ["net-40-preserve"] } });
});
after(() => reports?.stop());

/** How many different colours a canvas shows. */
const colours = (canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size;
};

for (const colorScheme of ["light", "dark"]) {
  test(`it shows what the tape kept, and goes to a version (${colorScheme})`, async () => {
    const { page, finish } = await reports.open("net", { colorScheme });
    await page.locator(".td-stagetab").first().focus();
    await page.keyboard.press("m");
    const first = page.locator(".td-mem-table tbody tr").first();
    await first.waitFor();
    assert.match(
      await page.locator(".td-mem-says").first().textContent(),
      /Copies for the reverse pass: .+ of \d+ versions/,
    );
    assert.ok((await page.locator(".td-mem-growth-canvas").evaluate(colours)) > 2);
    assert.ok((await first.locator("canvas").evaluate(colours)) > 1);
    await first.locator("button").focus();
    await page.keyboard.press("Enter");
    assert.equal(await page.locator(".td-mem-chosen").count(), 1);
    assert.match(await page.locator(".td-mem-here").textContent(), /^After launch \d+ .+ copied\./);
    assert.match(await page.locator(".td-fate").textContent(), /kept a copy/);
    const { x, y, width } = await page.locator(".td-mem-growth-canvas").boundingBox();
    await page.mouse.click(x + width - 2, y + 40);
    const last = await page.locator(".td-mem-here").textContent();
    assert.match(last, /A memory_budget below .+ would be full here/);
    await finish();
  });
}
