/** What axe-core, the checker of the accessibility rules of the WCAG, has to say of a part of a page. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ROOT } from "./harness.mjs";

let source = null;

/**
 * Every violation within `selector`, as "rule: element", each once; nothing if all is well.
 * @param {import("playwright-core").Page} page
 */
export async function violations(page, selector = "body") {
  source ??= await readFile(join(ROOT, "js", "node_modules", "axe-core", "axe.min.js"), "utf8");
  await page.evaluate(`globalThis.axe === undefined && (() => { ${source} })()`);
  return page.evaluate(async (within) => {
    const found = await globalThis.axe.run(within, { resultTypes: ["violations"] });
    const told = found.violations.flatMap(({ id, nodes }) =>
      nodes.map(
        ({ html, failureSummary }) => `${id}: ${html.slice(0, 160)} · ${failureSummary.split("\n")[1]?.trim()}`,
      ),
    );
    return [...new Set(told)];
  }, selector);
}
