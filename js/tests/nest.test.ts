/** A style sheet, nested: the same rules in the same order, and fewer bytes. */
import { describe, expect, test } from "vitest";
import { nest } from "../nest.mjs";

const nested = (css: string): string => nest(css, ".a");

describe("nesting", () => {
  test("takes a selector out that rules share", () => {
    expect(nested(".a .b{c:d}.a .e,.a [f]{g:h}")).toBe(".a{.b{c:d}.e,[f]{g:h}}");
    expect(nested(".a h2{c:d}.a.b .c{d:e}.a>p{f:g}")).toBe(".a{& h2{c:d}&.b .c{d:e}}.a>p{f:g}");
  });

  test("keeps the order: what is none of them stays between", () => {
    expect(nested(".a .b{c:d}.a{e:f}.a .g{h:i}")).toBe(".a{.b{c:d}}.a{e:f}.a{.g{h:i}}");
    expect(nested(".a-b .c{d:e}.a .c,.d .e{f:g}")).toBe(".a-b .c{d:e}.a .c,.d .e{f:g}");
  });

  test("goes into groups of rules, and into nothing else", () => {
    expect(nested("@media print{.a .b{c:d}}@page{.a .b{c:d}}")).toBe("@media print{.a{.b{c:d}}}@page{.a .b{c:d}}");
    expect(nested('@import "x.css";.a .b{c:d}')).toBe('@import "x.css";.a{.b{c:d}}');
  });

  test("knows what is quoted, and what is in brackets", () => {
    expect(nested('.a .b:after{content:"}.a .c{"}.a :is(.d,.e){f:g}')).toBe(
      '.a{.b:after{content:"}.a .c{"}:is(.d,.e){f:g}}',
    );
    expect(nested(".a .b\\,c{d:e}")).toBe(".a{.b\\,c{d:e}}");
    expect(() => nested(".a .b{c:d")).toThrow(/does not end/);
  });
});
