/**
 * Reports in Chromium, opened from a file as somebody would who got one by mail. Any page error, console message of the
 * error kind (a breach of the content-security policy is one) or request fails the test.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { colours, recoloured } from "./colours.mjs";
import { SCREENSHOTS } from "./harness.mjs";
import { fixture, startReports, watchedPage } from "./reports.mjs";

const EVIL = "</script><img src=x onerror=alert(1)>";
/** A custom adjoint that is wrong; the pair of the launch was checked, too. */
const BENT = `
import numpy as np
import tapedebug as wp

@wp.func
def cubed(x: float):
    return x * x * x

@wp.func_grad(cubed)
def adj_cubed(x: float, adj_ret: float):
    wp.adjoint[x] += 2.0 * x * adj_ret

@wp.kernel
def bend(x: wp.array(dtype=wp.vec3), y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    v = x[i]
    y[i] = wp.vec3(v[0] * v[1], cubed(v[1]), v[2] + v[0])

x = wp.array(np.linspace(0.5, 2.0, 18).reshape(6, 3), dtype=wp.vec3, requires_grad=True)
y = wp.zeros(6, dtype=wp.vec3, requires_grad=True)
with wp.Tape() as tape:
    wp.launch(bend, dim=6, inputs=[x], outputs=[y])
found = wp.diagnose(tape)
found.trace.checks.append(wp.trace.Check(launch=0, input="x", output="y", verdict="WRONG", max_rel_error=0.5))
`;

let reports;
let open;

before(async () => {
  reports = await startReports({
    net: { traces: ["net"] },
    preserve: { traces: ["net-40-preserve"] },
    evil: { traces: [evil(await fixture("net"))] },
    packed: { traces: ["net-40-preserve"], plain: 1000 },
    several: { traces: ["net-40-preserve", "net"] },
    printed: { traces: ["net", "net-40-preserve"] },
    bent: { program: BENT },
  });
  open = reports.open;
});

after(() => reports?.stop());

function evil(trace) {
  trace.name = EVIL;
  for (const item of [...trace.arrays, ...trace.launches, ...trace.kernels, ...trace.scopes]) {
    for (const key of ["name", "label", "adjoint", "file"]) if (key in item) item[key] = EVIL;
  }
  for (const finding of trace.findings) Object.assign(finding, { message: EVIL, rule: EVIL, arrays: [EVIL] });
  return trace;
}

const SMOOTHING = 500;

async function overflow(page) {
  return page.evaluate(() => ({
    page: document.documentElement.scrollWidth - window.innerWidth,
    cut: [...document.querySelectorAll(".td-header, .td-columns, .td-left, .td-right, .td-middle, .td-scrubber")]
      .filter((element) => element.getBoundingClientRect().right > window.innerWidth + 1)
      .map((element) => element.className),
  }));
}

const RED = "185,36,43,255";
const KEEP = "18,102,108,255";

describe("report", () => {
  test("opens on what is wrong: finding, lanes, source", async () => {
    const { page, finish } = await open("net");
    assert.equal(await page.textContent(".td-badge"), "✕ gradient WRONG");
    assert.match(await page.textContent(".td-card[aria-pressed=true]"), /overwrite · x, x_next/);
    assert.equal(await page.textContent(".td-choice[aria-selected=true]"), "Launch 1 · spring_forces");
    assert.match(await page.textContent(".td-code"), /p = x\[i\]/);
    assert.equal(await page.textContent(".td-line.td-marked .td-number"), "29");
    const painted = await colours(page);
    assert.ok(Object.keys(painted).length > 50, `only ${Object.keys(painted).length} colours in the lanes`);
    assert.ok(painted[RED] > 100, `${painted[RED] ?? 0} red pixels in the lanes`);
    assert.equal(painted[KEEP], undefined);
    await finish();
  });

  test("shows preserved values calmly: nothing in the lanes is red", async () => {
    const { page, finish } = await open("preserve");
    assert.equal(await page.textContent(".td-badge"), "✓ gradient AGREE");
    const painted = await colours(page);
    assert.ok(painted[KEEP] > 100, `${painted[KEEP] ?? 0} pixels of kept values`);
    assert.equal(painted[RED], undefined);
    await finish();
  });

  test("names that are markup stay text", async () => {
    const { page, finish } = await open("evil");
    assert.equal(await page.locator("img").count(), 0);
    assert.equal(await page.textContent(".td-name"), `${EVIL} · tape 3`);
    assert.equal(await page.textContent(".td-card-title"), `✕${EVIL} · ${EVIL}`);
    await page.locator(".td-canvas").hover({ position: { x: 300, y: 140 } });
    assert.match(await page.textContent(".td-tip"), /<img src=x/);
    await finish();
  });

  test("a click in the lanes chooses, the wheel zooms, f shows all again", async () => {
    const { page, finish } = await open("net");
    const canvas = page.locator(".td-canvas");
    const before = await colours(page);
    await canvas.hover({ position: { x: 240, y: 205 } });
    await page.keyboard.down("Control");
    await page.mouse.wheel(0, -600);
    await page.keyboard.up("Control");
    await page.waitForTimeout(100);
    assert.ok(recoloured(before, await colours(page)) > 4 * SMOOTHING);
    await canvas.focus();
    await page.keyboard.press("f");
    await page.waitForTimeout(100);
    assert.ok(recoloured(before, await colours(page)) < SMOOTHING);
    await canvas.click({ position: { x: 300, y: 20 } });
    const { width } = await canvas.boundingBox();
    await canvas.click({ position: { x: width - 20, y: 28 } });
    assert.equal(await page.textContent(".td-scrub-text"), "launch 0 backward");
    await page.keyboard.press("ArrowLeft");
    assert.equal(await page.textContent(".td-scrub-text"), "launch 1 backward");
    await finish();
  });

  test("keys act in a page where nothing has the focus yet, and not behind the account", async () => {
    const { page, finish } = await open("net");
    await page.keyboard.press("?");
    await page.locator(".td-help").waitFor();
    await page.keyboard.press("Escape");
    const first = await page.textContent(".td-scrub-text");
    await page.keyboard.press("ArrowRight");
    const launch = await page.textContent(".td-scrub-text");
    assert.notEqual(launch, first);
    await page.getByRole("tab", { name: "What was checked" }).click();
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press("ArrowRight");
    assert.equal(await page.textContent(".td-scrub-text"), launch);
    await finish();
  });

  test("a band folds when it is clicked", async () => {
    const { page, finish } = await open("preserve");
    const box = page.getByLabel("fold repetitions");
    const folded = await colours(page);
    await box.uncheck();
    await page.waitForTimeout(100);
    assert.ok(recoloured(folded, await colours(page)) > 4 * SMOOTHING);
    await box.check();
    await page.waitForTimeout(100);
    assert.ok(recoloured(folded, await colours(page)) < SMOOTHING);
    await finish();
  });

  test("packed data is unpacked by the browser", async () => {
    const { page, finish } = await open("packed");
    await page.waitForSelector(".td-badge");
    assert.equal(await page.textContent(".td-badge"), "✓ gradient AGREE");
    assert.match(await page.textContent(".td-coverage"), /^122 of 122 launches checked/);
    await finish();
  });

  test("what needs a kernel is off and says so", async () => {
    const { page, finish } = await open("net");
    for (const [name, count] of Object.entries({ "Run checks": 2, "Export report": 1 })) {
      const button = page.getByRole("button", { name }).last();
      assert.equal(await page.getByRole("button", { name }).count(), count);
      assert.equal(await button.isDisabled(), true);
      assert.equal(await button.getAttribute("title"), "needs the kernel that recorded this tape");
    }
    await finish();
  });

  test("several tapes are shown one at a time, the one with the worst finding first", async () => {
    const { page, finish } = await open("several");
    assert.equal(await page.textContent(".td-badge"), "✕ gradient WRONG");
    const choice = page.getByLabel("Tape", { exact: true });
    assert.equal(await choice.inputValue(), "1");
    assert.match(await choice.locator("option").last().textContent(), / · WRONG · error$/);
    const width = (selector) => page.locator(selector).evaluate((element) => element.clientWidth);
    assert.ok((await width(".td-code")) > 0.9 * (await width(".td-source")), "nothing stands beside the source");
    await choice.selectOption({ index: 0 });
    assert.equal(await page.textContent(".td-badge"), "✓ gradient AGREE");
    assert.equal(await page.locator(".td-canvas").count(), 1);
    await finish();
  });

  test("it is readable without JavaScript", async () => {
    const { page, finish } = await open("net", { javaScriptEnabled: false });
    const text = await page.innerText("body");
    assert.match(text, /✕ gradient WRONG\. 11 of 11 launches checked/);
    assert.match(text, /overwrite · x, x_next/);
    await finish();
  });

  test("three sentences on top say what was run, what is wrong by how much, and what to change where", async () => {
    const { page, finish } = await open("net");
    const said = page.getByLabel("In short");
    assert.deepEqual(await said.locator("dt").allTextContents(), ["Run", "Result", "Change"]);
    const [run, result, change] = await said.locator("dd").allTextContents();
    assert.equal(run, "The tape “net” recorded 11 launches of 5 kernels from net.py; its reverse pass ran from loss.");
    assert.equal(result, "The gradient of loss with respect to throw is wrong: it is off by 38 %.");
    assert.match(change, /^At net\.py:86 \(launch\) or net\.py:29 \(kernel spring_forces\), give each step its own x/);
    const { y } = await said.boundingBox();
    assert.ok(y < (await page.locator(".td-header").boundingBox()).y);
    await finish();
  });

  test("says in words what was checked, to somebody who was not there", async () => {
    const { page, finish } = await open("net", { width: 400, height: 900 });
    const about = page.getByRole("tabpanel", { name: "What was checked" });
    assert.equal(await about.isVisible(), false);
    await page.getByRole("tab", { name: "What was checked" }).click();
    const text = await about.innerText();
    for (const words of [
      "How to read this",
      "✕ gradient WRONG",
      "11 of 11 launches checked end to end",
      "2 integer arrays (a, b) have no gradient",
      "error: overwrite · x, x_next",
      "Fix: give each step its own x",
      "line of the kernel\nnet.py:29, in",
      "∂ loss / ∂ throw",
      "7 pairs could be checked and were not.",
      "2.4.0",
      "Nothing was left out.",
    ]) {
      assert.ok(text.includes(words), `${words} is not in: ${text}`);
    }
    assert.doesNotMatch(text, /\b(max change|occurrences|write line|clobberer)\b/, "no names of fields");
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 400);
    await page.screenshot({ path: join(SCREENSHOTS, "report-about-400.png") });
    await page.keyboard.press("ArrowLeft");
    assert.equal(await about.isVisible(), false);
    await finish();
  });

  test("works in a frame without an origin, from a file and as srcdoc", async () => {
    const content = await reports.text("net");
    const { page, finish } = await watchedPage(reports.browser, { width: 1200, height: 800 });
    await page.setContent("<iframe sandbox='allow-scripts' style='width:1100px;height:700px'></iframe>");
    await page.evaluate((text) => document.querySelector("iframe").setAttribute("srcdoc", text), content);
    const frame = page.frameLocator("iframe");
    await frame.locator(".td-badge").waitFor();
    assert.equal(await frame.locator(".td-badge").textContent(), "✕ gradient WRONG");
    await frame.getByRole("tab", { name: "What was checked" }).click();
    await frame.getByText("How to read this").waitFor();
    await finish();
  });

  test("prints on light pages what is folded on the screen", async () => {
    const traces = [await fixture("net"), await fixture("net-40-preserve")];
    const { page, finish } = await open("printed", { colorScheme: "dark" });
    // what the browser does before it prints, and with the style for paper
    await page.emulateMedia({ media: "print", colorScheme: "dark" });
    await page.evaluate(() => window.dispatchEvent(new Event("beforeprint")));
    const text = await page.innerText("body");
    for (const trace of traces) for (const { message } of trace.findings) assert.ok(text.includes(message), message);
    for (const words of ["∂ loss / ∂ throw", "How to read this"]) assert.ok(text.includes(words), words);
    for (const words of ["Run checks", "gradient-carrying only"]) assert.ok(!text.includes(words), words);
    const white = await page.evaluate(() =>
      [...document.querySelectorAll(".tapedebug")].map((element) => getComputedStyle(element).backgroundColor),
    );
    assert.deepEqual(white, ["rgb(255, 255, 255)", "rgb(255, 255, 255)"]);
    const painted = await colours(page);
    assert.ok((painted["255,255,255,255"] ?? 0) > 10_000, "the lanes are on white");
    assert.ok((painted[RED] ?? 0) > 100, "in the colours of the light theme");
    await page.evaluate(() => window.dispatchEvent(new Event("afterprint")));
    await page.emulateMedia({ media: null, colorScheme: "dark" });
    const pdf = await page.pdf({ format: "A4", path: join(SCREENSHOTS, "report-net.pdf") });
    const pages = pdf.toString("latin1").match(/\/Type\s*\/Page\b/g)?.length ?? 0;
    assert.ok(pages >= 3 && pages <= 12, `${pages} pages`);
    await finish();
  });

  test("shows the Jacobian of a wrong adjoint in the panel, and names the worst entry", async () => {
    const { page, finish } = await open("bent");
    await page.locator("td[aria-description^='y by x, WRONG']").click();
    assert.match(await page.locator(".td-jac-worstline").textContent(), /^worst: y\[5\]\.y by x\[5\]\.y: /);
    await page.waitForFunction(() => ![300, undefined].includes(document.querySelector(".td-jac-canvas")?.width));
    assert.equal(await page.locator(".td-jac .td-jac-canvas").count(), 3);
    const painted = await colours(page, '.td-jac [data-map="error"] canvas');
    assert.ok(painted[RED] > 10, `${painted[RED] ?? 0} red pixels in the map of errors`);
    assert.equal(await page.getByRole("button", { name: "Run this pair" }).count(), 0, "there is no kernel");
    await page.getByRole("button", { name: "worst entry" }).click();
    assert.match(await page.locator(".td-jac-readout").textContent(), /^y\[5\]\.y by x\[5\]\.y: AD 3\.8\d*, FD 10\.9/);
    await page.screenshot({ path: join(SCREENSHOTS, "report-jacobian-1400.png") });
    await finish();
  });

  for (const [width, colorScheme] of [
    [1400, "dark"],
    [400, "light"],
  ]) {
    test(`has the pictures of Jacobians among what was checked, ${width} pixels, ${colorScheme}`, async () => {
      const { page, finish } = await open("bent", { width, colorScheme });
      await page.getByRole("tab", { name: "What was checked" }).click();
      const section = page.locator(".td-account-jac");
      assert.match(await section.innerText(), /Worst entry: y\[5\]\.y by x\[5\]\.y: AD 3\.8\d*, FD 10\.9/);
      const label = await section.getByRole("img").getAttribute("aria-label");
      assert.match(label, /^Heat maps of ∂ y \/ ∂ x of launch 0 \(bend\)\. Worst entry: y\[5\]\.y by x\[5\]\.y/);
      const errors = ".td-account-jac figure:last-child canvas";
      const screen = await colours(page, errors);
      const red = colorScheme === "dark" ? "255,133,135,255" : RED;
      assert.ok(screen[red] > 30, `${screen[red] ?? 0} red pixels`);
      assert.ok(Object.keys(await colours(page, ".td-account-jac figure:first-child canvas")).length > 5);
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width);
      await section.scrollIntoViewIfNeeded();
      await page.screenshot({ path: join(SCREENSHOTS, `report-pictures-${colorScheme}-${width}.png`) });
      // on paper they are in the colours of the light theme
      await page.emulateMedia({ media: "print", colorScheme });
      await page.evaluate(() => window.dispatchEvent(new Event("beforeprint")));
      const paper = await colours(page, errors);
      assert.ok(paper[RED] > 30, `${paper[RED] ?? 0} red pixels on paper`);
      assert.ok(paper["255,255,255,255"] > 500);
      await page.evaluate(() => window.dispatchEvent(new Event("afterprint")));
      await page.emulateMedia({ media: null, colorScheme });
      assert.ok((await colours(page, errors))[red] > 30, "afterwards as before");
      await section.getByRole("button", { name: "∂ y / ∂ x" }).click();
      await page.locator(".td-jac-worstline").waitFor();
      if (width === 1400) await page.pdf({ format: "A4", path: join(SCREENSHOTS, "report-pictures.pdf") });
      await finish();
    });
  }

  test("says calmly, in one line, that the numbers are not in the file", async () => {
    const { page, finish } = await open("net");
    await page
      .getByRole("tab", { name: /^(Array|x)/ })
      .first()
      .click();
    const why = page.locator(".td-values .td-why");
    await why.first().waitFor();
    assert.deepEqual(await why.allTextContents(), [
      "Not in this file: computing it needs the kernel that recorded the tape.",
    ]);
    await finish();
  });

  for (const name of ["net", "preserve"]) {
    for (const colorScheme of ["light", "dark"]) {
      for (const [width, height] of [
        [1400, 860],
        [700, 1000],
        [400, 1000],
      ]) {
        test(`${name}, ${colorScheme}, ${width} pixels: nothing is cut off`, async () => {
          const { page, finish } = await open(name, { width, height, colorScheme });
          await page.waitForTimeout(100);
          assert.deepEqual(await overflow(page), { page: 0, cut: [] });
          const { background } = await page.evaluate(() => ({
            background: getComputedStyle(document.querySelector(".tapedebug")).backgroundColor,
          }));
          assert.equal(background, colorScheme === "dark" ? "rgb(21, 24, 30)" : "rgb(255, 255, 255)");
          await page.screenshot({ path: join(SCREENSHOTS, `report-${name}-${colorScheme}-${width}.png`) });
          await finish();
        });
      }
    }
  }
});
