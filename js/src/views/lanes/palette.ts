/** The canvas's colours, read from the same CSS variables as everything else, so that a theme is one thing. */

const NAMES = [
  "bg",
  "bg-2",
  "fg",
  "fg-2",
  "border",
  "accent",
  "bar",
  "bar-off",
  "adj",
  "adj-bar",
  "red",
  "red-tint",
  "keep",
  "green",
  "amber",
  "select",
] as const;
export type Tone = (typeof NAMES)[number];
export type Palette = Readonly<Record<Tone, string>> & { readonly font: string; readonly ramp: readonly string[] };

/** Steps of the scale that colours bars by a number; few, so that a frame changes colour seldom. */
export const RAMP_STEPS = 8;

export function readPalette(root: HTMLElement): Palette {
  const probe = document.createElement("span");
  probe.style.display = "none";
  root.append(probe);
  const resolve = (css: string): string => {
    probe.style.color = css;
    return getComputedStyle(probe).color || "#888";
  };
  const tones = Object.fromEntries(NAMES.map((name) => [name, resolve(`var(--td-${name})`)])) as Record<Tone, string>;
  const ramp = Array.from({ length: RAMP_STEPS }, (_, i) => {
    const share = Math.round(14 + (86 * i) / (RAMP_STEPS - 1));
    return resolve(`color-mix(in srgb, var(--td-ramp) ${share}%, var(--td-bg))`);
  });
  const font = getComputedStyle(root).fontFamily || "sans-serif";
  probe.remove();
  return { ...tones, font, ramp };
}

/** Red stripes for lost values, calm ones for preserved ones: the pattern distinguishes them without the colour. */
export function hatch(
  context: CanvasRenderingContext2D,
  colour: string,
  gap: number,
  ratio: number,
  lean: 1 | -1,
  weight: number,
): CanvasPattern | string {
  const size = gap * 2;
  const tile = document.createElement("canvas");
  tile.width = tile.height = Math.max(2, Math.round(size * ratio));
  const ctx = tile.getContext("2d");
  if (!ctx) return colour;
  const side = tile.width;
  ctx.strokeStyle = colour;
  ctx.lineWidth = side * weight;
  ctx.beginPath();
  for (let k = -1; k <= 1; k++) {
    ctx.moveTo(k * side - side / 4, lean > 0 ? side * 1.25 : -side / 4);
    ctx.lineTo((k + 1) * side + side / 4, lean > 0 ? -side / 4 : side * 1.25);
  }
  ctx.stroke();
  const pattern = context.createPattern(tile, "repeat");
  if (!pattern) return colour;
  pattern.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern;
}
