/** What axe-core, the checker of the accessibility rules of the WCAG, has to say of a part of a page. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ROOT } from "./harness.mjs";

let source = null;

/** The rules that depend on the theme: where another theme was checked, these are left. */
export const COLOURS = ["color-contrast", "link-in-text-block"];

/**
 * Every violation within `selector`, as "rule: element", each once; nothing if all is well.
 * @param {import("playwright-core").Page} page
 * @param {string[] | null} rules The rules to check; null for all.
 */
export async function violations(page, selector = "body", rules = null) {
  source ??= await readFile(join(ROOT, "js", "node_modules", "axe-core", "axe.min.js"), "utf8");
  await page.evaluate(`globalThis.axe === undefined && (() => { ${source} })()`);
  return page.evaluate(
    async ([within, only]) => {
      const options = { resultTypes: ["violations"], ...(only && { runOnly: only }) };
      const found = await globalThis.axe.run(within, options);
      const told = found.violations.flatMap(({ id, nodes }) =>
        nodes.map(
          ({ html, failureSummary }) => `${id}: ${html.slice(0, 160)} · ${failureSummary.split("\n")[1]?.trim()}`,
        ),
      );
      return [...new Set(told)];
    },
    [selector, rules],
  );
}
