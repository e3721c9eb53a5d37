/** What a canvas shows, counted. */

/** How many pixels of a canvas have each colour; one that was never painted has one, transparent. */
export function colours(page, selector = ".td-canvas") {
  return page.evaluate((name) => {
    const canvas = document.querySelector(name);
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const counts = {};
    for (let i = 0; i < data.length; i += 4) {
      const key = `${data[i]},${data[i + 1]},${data[i + 2]},${data[i + 3]}`;
      counts[key] = (counts[key] ?? 0) + 1;
    }
    return counts;
  }, selector);
}

/** Pixels that changed colour. The rasteriser smooths a few differently from one time to the next. */
export function recoloured(before, after) {
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keys].reduce((sum, key) => sum + Math.abs((before[key] ?? 0) - (after[key] ?? 0)), 0) / 2;
}
