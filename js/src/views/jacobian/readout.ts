/** The entry under the pointer, in words: the same text on the page and for screen readers. */
import { COMPARED, cellAt, entryName, entryNumbers, type Jacobian, NOTHING_KNOWN, ZERO } from "./data.js";
import type { JacobianSource } from "./source.js";

export function cursorText(source: JacobianSource): string {
  const { jacobian, cursor } = source.value;
  if (!jacobian || !cursor) return "";
  const found = source.cellOf(cursor.row, cursor.column);
  if (!found) return "";
  const { cells, at } = found;
  const row = cells.row[at] as number;
  const column = cells.column[at] as number;
  const known = cells.known[at] as number;
  if (cells.pooled && row >= 0 && known !== NOTHING_KNOWN && (row !== cursor.row || column !== cursor.column)) {
    const block = `${cells.pooled[0]} × ${cells.pooled[1]}`;
    return `largest error of up to ${block} entries here: ${named(jacobian, row, column)}: ${numbersAt(source, row, column)}`;
  }
  const place = named(jacobian, cursor.row, cursor.column);
  if (known === NOTHING_KNOWN) return `${place}: not evaluated`;
  if (known === ZERO) return `${place}: zero, by its sparsity`;
  return `${place}: ${numbersAt(source, cursor.row, cursor.column)}`;
}

function named(jacobian: Jacobian, row: number, column: number): string {
  const whole = jacobian.pair[0] === null;
  const output = whole ? jacobian.output.name : entryName(jacobian.output, row);
  return `${output} by ${entryName(jacobian.input, column)}`;
}

function numbersAt(source: JacobianSource, row: number, column: number): string {
  const { jacobian } = source.value;
  const found = source.cellOf(row, column);
  if (!jacobian || !found) return "";
  const { cells, at } = found;
  if (cellAt(cells, row, column) !== at) return "";
  const alone = cells.known[at] !== COMPARED;
  return entryNumbers(
    {
      ad: cells.ad[at] as number,
      fd: alone ? null : (cells.fd[at] as number),
      bar: alone ? null : (cells.bar[at] as number),
      reference: cells.reference ? (cells.reference[at] as number) : null,
      error: cells.error[at] as number,
    },
    jacobian.against,
  );
}
