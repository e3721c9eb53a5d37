/** Python source as coloured pieces. Small and forgiving: what it does not know stays plain, and nothing is ever left out. */
export type Ink = "plain" | "comment" | "text" | "number" | "keyword" | "decorator" | "name";

export interface Piece {
  readonly ink: Ink;
  readonly text: string;
}

const KEYWORDS = new Set(
  (
    "and as assert async await break case class continue def del elif else except False finally for from global if import in " +
    "is lambda match None nonlocal not or pass raise return True try while with yield"
  ).split(" "),
);

const TOKEN =
  /(#.*)|([rbfuRBFU]{0,2}(?:"""|'''))|([rbfuRBFU]{0,2}(?:"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?))|(@[\w.]+)|(\b(?:0[xXoObB][\da-fA-F_]+|\d[\d_]*\.?\d*(?:[eE][+-]?\d+)?j?)\b)|([A-Za-z_]\w*)/g;

/** The pieces of each line; strings in three quotes may go on over several. */
export function highlight(lines: readonly string[]): Piece[][] {
  let open: string | null = null;
  return lines.map((line) => {
    const pieces: Piece[] = [];
    let at = 0;
    const add = (ink: Ink, end: number): void => {
      if (end <= at) return;
      const last = pieces.at(-1);
      const text = line.slice(at, end);
      if (last?.ink === ink) pieces[pieces.length - 1] = { ink, text: last.text + text };
      else pieces.push({ ink, text });
      at = end;
    };
    while (at < line.length) {
      if (open !== null) {
        const end = line.indexOf(open, at);
        add("text", end < 0 ? line.length : end + 3);
        if (end >= 0) open = null;
        continue;
      }
      TOKEN.lastIndex = at;
      const found = TOKEN.exec(line);
      if (!found) break;
      add("plain", found.index);
      const end = found.index + found[0].length;
      if (found[2]) {
        open = found[2].slice(-3);
        add("text", end);
      } else add(inkOf(found, pieces), end);
    }
    add("plain", line.length);
    return pieces;
  });
}

function inkOf(found: RegExpExecArray, before: readonly Piece[]): Ink {
  if (found[1]) return "comment";
  if (found[3]) return "text";
  if (found[4]) return "decorator";
  if (found[5]) return "number";
  if (KEYWORDS.has(found[0])) return "keyword";
  return before.at(-2)?.text === "def" ? "name" : "plain";
}
