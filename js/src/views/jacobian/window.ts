/** Which part of a Jacobian is seen, in rows and columns; shared by its three maps. Pure. */

export interface Window {
  readonly top: number;
  readonly left: number;
  readonly height: number;
  readonly width: number;
}

/** Entries on a side that are seen at the least. */
const LEAST = 2;

export function whole([rows, columns]: readonly [number, number]): Window {
  return { top: 0, left: 0, height: rows, width: columns };
}

function clampedSide(start: number, length: number, size: number): [number, number] {
  const long = Math.min(size, Math.max(Math.min(LEAST, size), length));
  return [Math.max(0, Math.min(size - long, start)), long];
}

export function clamped(window: Window, [rows, columns]: readonly [number, number]): Window {
  const [top, height] = clampedSide(window.top, window.height, rows);
  const [left, width] = clampedSide(window.left, window.width, columns);
  return { top, left, height, width };
}

/** Zooms about a point (in rows and columns) that stays where it is. */
export function zoomed(
  window: Window,
  shape: readonly [number, number],
  factor: number,
  row = window.top + window.height / 2,
  column = window.left + window.width / 2,
): Window {
  const fits = clamped({ ...window, height: window.height / factor, width: window.width / factor }, shape);
  const y = window.height > 0 ? (row - window.top) / window.height : 0;
  const x = window.width > 0 ? (column - window.left) / window.width : 0;
  return clamped({ ...fits, top: row - y * fits.height, left: column - x * fits.width }, shape);
}

/** Pans as little as brings an entry into view. */
export function following(window: Window, shape: readonly [number, number], row: number, column: number): Window {
  const near = (start: number, length: number, at: number): number =>
    at < start ? at : at + 1 > start + length ? at + 1 - length : start;
  return clamped(
    { ...window, top: near(window.top, window.height, row), left: near(window.left, window.width, column) },
    shape,
  );
}

/** So close to an entry that its surroundings can be told apart. */
export function closeTo(shape: readonly [number, number], row: number, column: number, most = 16): Window {
  const height = Math.min(shape[0], most);
  const width = Math.min(shape[1], most);
  return clamped({ top: row + 0.5 - height / 2, left: column + 0.5 - width / 2, height, width }, shape);
}

type Range = readonly [number, number];

/** The window in whole entries, with a margin, so that a little panning needs no new answer. */
export function asked(window: Window, [rows, columns]: readonly [number, number]): { rows: Range; columns: Range } {
  const around = (start: number, length: number, size: number): Range => {
    const margin = Math.ceil(length / 4);
    return [Math.max(0, Math.floor(start) - margin), Math.min(size, Math.ceil(start + length) + margin)];
  };
  return { rows: around(window.top, window.height, rows), columns: around(window.left, window.width, columns) };
}
