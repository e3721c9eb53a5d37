/**
 * What makes a view hard to read, found in the page itself: text that is cut off, that lies over other text, that leaves its
 * container, or that stands out too little from what is behind it; words that are broken because their column is too narrow,
 * numbers with more digits than anybody reads, and numbers of a table of which a part is hidden.
 */

/** Everything that is wrong with what `panel` shows now, in words; nothing if all can be read. */
export function untidy(panel) {
  return panel.evaluate(inspect);
}

/** Runs in the page: no name of this module is known in it. */
function inspect(root) {
  const CONTRAST = 4.5;
  /** Digits after the point. Everything that is measured is shown with six figures at the most. */
  const LONG_NUMBER = /\d\.\d{9}/;
  /** Words that fit any column, with what may stand around them. */
  const WORD = /[("]*[A-Za-z_]{2,14}[)",.:;]*/y;
  const found = new Set();
  const nameOf = (element) => `${element.tagName.toLowerCase()}.${[...element.classList].join(".")}`;
  /** The page stays as it is meanwhile: each element is asked once. */
  const once = (ask) => {
    const known = new Map();
    return (element) => {
      if (!known.has(element)) known.set(element, ask(element));
      return known.get(element);
    };
  };
  /** The values, not the live object, which computes each of them again. */
  const styleOf = once((element) => {
    const { textOverflow, webkitLineClamp, overflowX, overflowY, backgroundColor, fill, color, opacity } =
      getComputedStyle(element);
    return { textOverflow, webkitLineClamp, overflowX, overflowY, backgroundColor, fill, color, opacity };
  });
  const boxOf = once((element) => element.getBoundingClientRect());

  /** The text nodes that can be seen, with their boxes on the screen. */
  const shown = once(
    (element) =>
      element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }) &&
      element.closest(".td-sr") === null &&
      element.closest("option") === null,
  );
  const pieces = [];
  const texts = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const element = node.parentElement;
    if (node.data.trim() === "" || !shown(element)) continue;
    texts.push({ node, element });
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) {
      if (box.width > 1 && box.height > 1) pieces.push({ element, box, text: node.data.trim().slice(0, 40) });
    }
  }

  /** The part of a box that its containers let one see; what no scrolling and no "…" can bring back is a fault. */
  const visiblePart = ({ element, box, text }) => {
    let { left, top, right, bottom } = box;
    let told = false;
    for (let at = element; at !== null && root.contains(at); at = at.parentElement) {
      const style = styleOf(at);
      told ||= at instanceof SVGSVGElement; // one pans in it
      const edge = boxOf(at);
      const told_x = style.textOverflow === "ellipsis";
      const told_y = style.webkitLineClamp !== "none";
      const past = {
        x: Math.max(edge.left - left, right - edge.right),
        y: Math.max(edge.top - top, bottom - edge.bottom),
      };
      const scrolled = ["auto", "scroll"].includes(style.overflowX) && element.closest("td, th") !== null;
      // half a number is another number: what one has to scroll to must not end in the middle
      if (scrolled && past.x > 1.5 && past.x < right - left) found.add(`cut in two by ${nameOf(at)}: "${text}"`);
      const cut = (axis) => ["hidden", "clip"].includes(style[`overflow${axis}`]);
      if (cut("X") && past.x > 1.5 && !told_x && !told) found.add(`cut off at the side by ${nameOf(at)}: "${text}"`);
      if (cut("Y") && past.y > 3 && !told_y && !told) found.add(`cut off below by ${nameOf(at)}: "${text}"`);
      if (style.overflowX !== "visible" || style.overflowY !== "visible") {
        if (["auto", "scroll"].some((kind) => style.overflowX === kind || style.overflowY === kind)) told = true;
        left = Math.max(left, edge.left);
        right = Math.min(right, edge.right);
        top = Math.max(top, edge.top);
        bottom = Math.min(bottom, edge.bottom);
      }
    }
    return { left, top, right, bottom };
  };

  /** What "…" took away has to be said somewhere: in a title, or where a card is opened. */
  const untold = (element) => {
    const style = styleOf(element);
    const wide = style.textOverflow === "ellipsis" && element.scrollWidth > element.clientWidth + 1;
    const long = style.webkitLineClamp !== "none" && element.scrollHeight > element.clientHeight + 3;
    return (wide || long) && element.closest("[title]:not([title='']), .td-card") === null;
  };
  for (const element of root.querySelectorAll("*")) {
    if (shown(element) && untold(element)) found.add(`ends in "…" and says the rest nowhere: "${element.textContent}"`);
  }

  /** Of a text that may be broken anywhere: the words that were, though they are short. */
  const brokenWords = ({ node, element }) => {
    if (element.closest("code, pre, svg") !== null) return;
    const range = document.createRange();
    for (const { index, 0: word } of node.data.matchAll(/\S+/g)) {
      WORD.lastIndex = 0;
      if (WORD.exec(word)?.[0] !== word) continue;
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      const tops = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
      if (tops.size > 1) found.add(`broken in two in ${nameOf(element)}: "${word}"`);
    }
  };
  for (const { node, element } of texts) {
    brokenWords({ node, element });
    if (LONG_NUMBER.test(node.data) && element.closest("code, pre") === null)
      found.add(`too many digits in ${nameOf(element)}: "${node.data.trim().slice(0, 40)}"`);
  }

  const layerOf = (element) => element.closest(".td-results, .td-tip, .td-help, .td-checked-body, .td-graph-tip");
  const seen = [];
  for (const piece of pieces) {
    const part = visiblePart(piece);
    if (part.right - part.left > 1 && part.bottom - part.top > 1)
      seen.push({ ...piece, part, layer: layerOf(piece.element) });
  }
  const frame = root.getBoundingClientRect();
  for (const { part, text } of seen) {
    if (part.left < frame.left - 1 || part.right > frame.right + 1) found.add(`outside the panel: "${text}"`);
  }

  /** Text over text: only within one layer, for what opens over the rest hides it on purpose. */
  for (const [i, a] of seen.entries()) {
    for (const b of seen.slice(i + 1)) {
      if (a.element === b.element || a.layer !== b.layer) continue;
      const wide = Math.min(a.part.right, b.part.right) - Math.max(a.part.left, b.part.left);
      const high = Math.min(a.part.bottom, b.part.bottom) - Math.max(a.part.top, b.part.top);
      const least = Math.min(a.part.bottom - a.part.top, b.part.bottom - b.part.top);
      if (wide > 2 && high > 0.35 * least)
        found.add(`"${a.text}" lies over "${b.text}" (${nameOf(a.element)}, ${nameOf(b.element)})`);
    }
  }

  // contrast, with everything that is see-through laid over what is behind it
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const ink = canvas.getContext("2d", { willReadFrequently: true });
  const cache = new Map();
  const rgba = (text) => {
    if (!cache.has(text)) {
      ink.clearRect(0, 0, 1, 1);
      ink.fillStyle = text;
      ink.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = ink.getImageData(0, 0, 1, 1).data;
      cache.set(text, [r, g, b, a / 255]);
    }
    return cache.get(text);
  };
  const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a)];
  const behind = (element) => {
    const layers = [];
    for (let at = element; at !== null; at = at.parentElement) {
      const colour = rgba(styleOf(at).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255]);
  };
  // a sign in a drawing stands on the shape that was drawn before it
  const shapeBehind = (element, ground) => {
    const { left, right, top, bottom } = boxOf(element);
    const [x, y] = [(left + right) / 2, (top + bottom) / 2];
    let under = ground;
    for (let at = element.previousElementSibling; at !== null; at = at.previousElementSibling) {
      const box = boxOf(at);
      if (x < box.left || x > box.right || y < box.top || y > box.bottom) continue;
      if (styleOf(at).fill === "none") continue;
      const [r, g, b, a] = rgba(styleOf(at).fill);
      under = over([r, g, b, a * Number(styleOf(at).opacity)], ground);
      break;
    }
    return under;
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  for (const { element, text } of seen) {
    const ground = element instanceof SVGElement ? shapeBehind(element, behind(element)) : behind(element);
    let opacity = 1;
    for (let at = element; at !== null && root.contains(at); at = at.parentElement)
      opacity *= Number(styleOf(at).opacity);
    const style = styleOf(element);
    const paint = element instanceof SVGElement ? style.fill : style.color;
    const [r, g, b, a] = rgba(paint);
    const [one, two] = [light(over([r, g, b, a * opacity], ground)), light(ground)].sort((x, y) => y - x);
    const ratio = (one + 0.05) / (two + 0.05);
    if (ratio < CONTRAST) found.add(`contrast ${ratio.toFixed(2)} of ${nameOf(element)}: "${text}"`);
  }
  return [...found];
}
