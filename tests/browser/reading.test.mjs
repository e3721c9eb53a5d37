/** What is written in the panel can be read where it stands: findings before they are opened, long lines, generated code. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { startReports } from "./reports.mjs";

/** A 32 × 32 field, a line that is longer than any column, a function, and a buffer that is used again. */
const FIELD = `
import numpy as np
import tapedebug as wp

N = 32

@wp.func
def conductivity(u: float):
    return 0.1 + 0.05 * u * u

@wp.kernel
def diffuse(u: wp.array2d(dtype=float), heat: wp.array2d(dtype=float), new: wp.array2d(dtype=float)):
    i, j = wp.tid()
    if i > 0 and j > 0 and i < 31 and j < 31:
        new[i, j] = u[i, j] + conductivity(u[i, j]) * (u[i + 1, j] + u[i - 1, j] + u[i, j + 1] + u[i, j - 1] - 4.0 * u[i, j]) + 0.01 * heat[i, j]
    else:
        new[i, j] = u[i, j]

@wp.kernel
def square(a: wp.array2d(dtype=float), buffer: wp.array2d(dtype=float)):
    i, j = wp.tid()
    buffer[i, j] = a[i, j] * a[i, j]

@wp.kernel
def total(buffer: wp.array2d(dtype=float), loss: wp.array(dtype=float)):
    i, j = wp.tid()
    wp.atomic_add(loss, 0, buffer[i, j] * buffer[i, j])

def field(values=None, grad=True):
    values = np.zeros((N, N), np.float32) if values is None else values
    return wp.array(values, dtype=float, requires_grad=grad)

rng = np.random.default_rng(0)
u = field(0.3 * rng.random((N, N)).astype(np.float32))
heat = field(np.exp(-((np.indices((N, N)) - 16) ** 2).sum(0) / 20.0).astype(np.float32))
pair, buffer = [field(), field()], field()
loss = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape(on_overwrite="ignore") as tape:
    now = u
    for step in range(8):
        wp.launch(diffuse, dim=(N, N), inputs=[now, heat], outputs=[pair[step % 2]])
        now = pair[step % 2]
        wp.launch(square, dim=(N, N), inputs=[now], outputs=[buffer])
        wp.launch(total, dim=(N, N), inputs=[buffer], outputs=[loss])
tape.backward(loss)
found = wp.diagnose(tape, loss=loss)
`;

let reports;
before(async () => {
  reports = await startReports({ field: { program: FIELD } });
});
after(() => reports?.stop());

describe("the panel", () => {
  for (const colorScheme of ["light", "dark"]) {
    test(`says of each finding what is wrong, what that does and what to change (${colorScheme})`, async () => {
      const { page, finish } = await reports.open("field", { colorScheme });
      const folded = page.locator(".td-card[aria-pressed=false]", { hasText: "overwrite" }).first();
      for (const [part, words] of [
        ["cause", /overwrites values of/],
        ["effect", /gradient of .* off by/],
        ["fix", /^Fix: give /],
      ]) {
        const line = folded.locator(`.td-card-${part}`);
        assert.match(await line.textContent(), words);
        const { height } = await line.boundingBox();
        assert.ok(height >= 15, `${part}: ${height} pixels`);
      }
      const fix = folded.locator(".td-card-fix");
      assert.ok(await fix.evaluate((e) => e.scrollHeight <= e.clientHeight + 1), "the fix is cut off");
      await finish();
    });
  }

  test("breaks long lines of the source where its column ends, and cuts none", async () => {
    const { page, finish } = await reports.open("field");
    await page.locator(".td-card", { hasText: "pair[0]" }).first().click();
    const long = page.locator(".td-line", { hasText: "conductivity(u[i, j])" });
    await long.first().waitFor();
    const cut = await page
      .locator(".td-source .td-code")
      .evaluateAll((boxes) => boxes.filter((box) => box.scrollWidth > box.clientWidth).length);
    assert.equal(cut, 0);
    const [one, two] = await Promise.all(
      [long.first(), page.locator(".td-line", { hasText: "i, j = wp.tid()" })].map((line) =>
        line.locator("code").evaluate((code) => code.getBoundingClientRect().height),
      ),
    );
    assert.ok(one > 2 * two, `${one} and ${two} pixels`);
    await finish();
  });

  test("opens the generated adjoint of a line, of a line of a function, and of the whole kernel", async () => {
    const { page, finish } = await reports.open("field");
    await page.locator(".td-card", { hasText: "pair[0]" }).first().click();
    await page.locator(".td-line.td-marked").waitFor();
    assert.equal(await page.locator(".td-adjoint").count(), 0);
    await page.locator(".td-line.td-marked").click();
    await page.locator(".td-adjoint-title", { hasText: /^generated adjoint of line \d+/ }).waitFor();
    await page.locator(".td-line", { hasText: "return 0.1 + 0.05 * u * u" }).click();
    await page.locator(".td-adjoint-title", { hasText: /^generated adjoint of line 9/ }).waitFor();
    assert.equal(await page.locator(".td-adjoint").count(), 1);
    assert.match(await page.locator(".td-adjoint pre").textContent(), /f32\(0\.05/);
    await page.getByRole("button", { name: "show the generated adjoint" }).click();
    assert.match(await page.locator(".td-adjoint-title").textContent(), /^generated adjoint of diffuse/);
    assert.match(await page.locator(".td-adjoint pre").textContent(), /u_adj/);
    await page.getByRole("button", { name: "hide the generated adjoint" }).click();
    assert.equal(await page.locator(".td-adjoint").count(), 0);
    await finish();
  });

  test("shows values and gradient of a field as that field, in one colour map with a scale", async () => {
    const { page, finish } = await reports.open("field");
    await page.locator(".td-card", { hasText: "overwrite · buffer" }).first().click();
    const pictures = page.locator(".td-values canvas.td-picture");
    await pictures.nth(1).waitFor();
    for (const picture of await pictures.all()) {
      const { width, height } = await picture.boundingBox();
      assert.ok(Math.abs(width - height) <= 1, `${width} × ${height} pixels`);
    }
    const bars = await page.locator(".td-heat-bar").evaluateAll((all) => all.map((bar) => bar.style.background));
    assert.equal(bars.length, 2);
    for (const bar of bars) assert.match(bar, /var\(--td-ramp\)/);
    // both are of one hue: the strongest colour of each is that of the ramp's end
    const strongest = await pictures.evaluateAll((all) =>
      all.map((canvas) => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        let most = [255, 255, 255];
        for (let i = 0; i < data.length; i += 4) if (data[i] < most[0]) most = [...data.slice(i, i + 3)];
        return most;
      }),
    );
    assert.deepEqual(strongest[0], strongest[1]);
    await finish();
  });

  test("shows the gradient of a field as that field", async () => {
    const { page, finish } = await reports.open("field");
    await page.locator("td[role=gridcell]", { hasText: "WRONG" }).last().click();
    const field = page.locator(".td-jac-field");
    await field.waitFor();
    assert.match(await field.locator("h3").textContent(), /^∂ loss \/ ∂ \w+ as a field$/);
    const { width, height } = await field.locator("canvas").first().boundingBox();
    assert.ok(Math.abs(width - height) <= 1 && width > 60, `${width} × ${height} pixels`);
    await field
      .locator("canvas")
      .first()
      .hover({ position: { x: width / 2, y: height / 2 } });
    assert.match(await page.locator(".td-jac-readout").textContent(), /^loss by \w+\[1[56], 1[56]\]: AD /);
    await finish();
  });
});
