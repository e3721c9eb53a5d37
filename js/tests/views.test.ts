/** What every view of the panel keeps: its folder is listed, its keys are its own and in the help, its code is a chunk or built in. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CHUNKS, foldersWith } from "../bundles.mjs";
import { openJson } from "../src/trace/json.js";
import { PanelStore } from "../src/trace/store.js";
import { chunkNames } from "../src/views/chunks.js";
import { mountPanel } from "../src/views/panel.js";
import { VIEWS } from "../src/views/stage.js";
import * as list from "../src/views/views.js";
import { makeNet } from "./make.js";

it("the folders with a ViewSpec are those that views.ts lists, by the same names", () => {
  expect(Object.keys(list).sort()).toEqual(foldersWith("spec.ts"));
  for (const [name, spec] of Object.entries(list)) expect(spec.key).toBe(name);
});

it("the folders with a chunk are those whose chunk the panel defines", () => {
  expect(chunkNames()).toEqual(CHUNKS);
});

it("keys, titles, ranks and shortcuts are used once, and the first view needs no shortcut", () => {
  const fields: readonly (readonly (string | number)[])[] = [
    VIEWS.map(({ key }) => key),
    VIEWS.map(({ title }) => title),
    VIEWS.map(({ rank }) => rank),
    VIEWS.flatMap(({ shortcut }) => shortcut ?? []),
  ];
  for (const values of fields) expect(new Set(values).size).toBe(values.length);
  expect(VIEWS.map(({ shortcut }) => shortcut === null)).toEqual(VIEWS.map((_, i) => i === 0));
});

describe.each(VIEWS.map((spec) => [spec.key, spec] as const))("the view %s", (key, spec) => {
  let host: HTMLElement;
  let unmount: () => void;
  beforeEach(() => {
    host = document.createElement("div");
    document.body.append(host);
    unmount = mountPanel(host, new PanelStore({ trace: openJson(makeNet()) }));
  });
  afterEach(() => {
    unmount();
    host.remove();
  });

  const press = (pressed: string): void => {
    const root = host.querySelector(".tapedebug");
    root?.dispatchEvent(new KeyboardEvent("keydown", { key: pressed, bubbles: true, cancelable: true }));
  };
  const tabs = (): HTMLElement[] => [...host.querySelectorAll<HTMLElement>(".td-stagetab")];
  const tab = (): HTMLElement => tabs().find(({ textContent }) => textContent === spec.title) as HTMLElement;
  const open = (): string[] =>
    tabs().flatMap((one) => (one.getAttribute("aria-selected") === "true" ? [one.textContent ?? ""] : []));
  const rows = (where: string): string[][] => {
    const group = [...host.querySelectorAll(".td-help tbody")].find(
      ({ firstChild }) => firstChild?.textContent === where,
    );
    return [...(group?.querySelectorAll("tr:not(:first-child)") ?? [])].map((row) =>
      [...row.querySelectorAll("kbd")].map((one) => one.textContent ?? ""),
    );
  };

  it("says in the help what its keys do", () => {
    expect(spec.name).toMatch(/^the [a-z]/);
    expect(rows(`In ${spec.name}`)).toEqual(spec.keys.map(([keys]) => keys.split("  ")));
    for (const [, text] of spec.keys) expect(text.length).toBeGreaterThan(5);
  });

  it("opens by its tab, and by a key that means nothing else in the panel", () => {
    tab().click();
    expect(open()).toEqual([spec.title]);
    const body = document.getElementById(tab().getAttribute("aria-controls") ?? "");
    expect([body?.hidden, body?.getAttribute("role"), body?.classList.contains(`td-${key}`)]).toEqual([
      false,
      "tabpanel",
      true,
    ]);
    if (spec.shortcut === null) return;
    press(spec.shortcut);
    expect(open()).toEqual([VIEWS[0]?.title]);
    press(spec.shortcut);
    expect(open()).toEqual([spec.title]);
    const meanings = rows("In the whole panel").filter((keys) => keys.includes(spec.shortcut as string));
    expect(meanings).toHaveLength(1);
  });

  it("takes the focus of the tab that was open, and of what is in that view", () => {
    if (spec.shortcut === null) return;
    const first = tabs()[0] as HTMLElement;
    first.click();
    first.focus();
    press(spec.shortcut);
    expect(document.activeElement).toBe(tab());
    press(spec.shortcut);
    expect(document.activeElement).toBe(first);
    const body = document.getElementById(first.getAttribute("aria-controls") ?? "");
    const inside = body?.querySelector<HTMLElement>("button, [tabindex]");
    inside?.focus();
    expect(body?.contains(document.activeElement)).toBe(true);
    press(spec.shortcut);
    expect(document.activeElement).toBe(tab());
    const search = host.querySelector<HTMLElement>("input[type=search]");
    search?.focus();
    tabs()[0]?.click();
    expect(document.activeElement).toBe(search);
  });

  it("has a legend of its own, and takes every key of the panel without an error", () => {
    tab().click();
    const shown = host.querySelectorAll(".td-legend ul:not([hidden])");
    expect(shown).toHaveLength(1);
    expect(shown[0]?.querySelectorAll("li").length).toBeGreaterThan(0);
    for (const pressed of ["f", "+", "-", "j", "w", "ArrowRight", "Escape"]) press(pressed);
    expect(open()).toEqual([spec.title]);
  });
});
