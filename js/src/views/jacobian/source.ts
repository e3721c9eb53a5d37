/**
 * The Jacobian that is shown: requested when its pair is selected, again after a run with new results, and in finer cells on
 * zoom. One for each panel; the tab and the large view share it.
 */
import { checkKey } from "../../trace/model.js";
import { Observable } from "../../trace/observable.js";
import type { Answer, MaskEntry } from "../../trace/store.js";
import type { Check } from "../../trace/types.js";
import type { Panel } from "../state.js";
import { type Cells, cellAt, type Jacobian, readJacobian } from "./data.js";
import type { Host } from "./shell.js";
import { asked, clamped, closeTo, following, type Window, whole, zoomed } from "./window.js";

interface JacobianState {
  pair: MaskEntry | null;
  /** The check of the pair. */
  check: Check | null;
  jacobian: Jacobian | null;
  /** Finer cells of a part, where the first ones are pooled. */
  detail: Cells | null;
  /** Whole rows and columns, entry by entry, where the first cells are pooled: the newest one first. */
  lines: readonly Cells[];
  window: Window;
  /** The entry that is pointed at. */
  cursor: { readonly row: number; readonly column: number } | null;
  loading: boolean;
  /** Why there is nothing to show. */
  refusal: string;
}

/** Milliseconds for which the view stays where it is before finer cells are asked for. */
const SETTLED = 150;
/** Number of rows and columns in the cache, for a pointer that moves quickly. */
const MOST_LINES = 8;

export class JacobianSource extends Observable<JacobianState> {
  private turn = 0;
  private timer = 0;
  private line = "";
  private lineTimer = 0;

  constructor(
    private readonly panel: Panel,
    private readonly host: Host,
  ) {
    super({
      ...{ pair: null, check: null, jacobian: null, detail: null, cursor: null, lines: [] },
      window: { top: 0, left: 0, height: 0, width: 0 },
      loading: false,
      refusal: "",
    });
    const { store, lifetime } = panel;
    lifetime.add(
      store.subscribe((changed) => {
        if (changed.has("selection") || changed.has("checks")) this.follow();
      }),
    );
    lifetime.add(() => window.clearTimeout(this.timer));
    lifetime.add(() => window.clearTimeout(this.lineTimer));
    lifetime.add(() => {
      this.turn += 1;
    });
    this.follow();
  }

  /** Takes up the pair that is selected, and what was found of it last. */
  private follow(): void {
    const { store } = this.panel;
    const { pair } = store.get("selection");
    const check = pair === null ? null : this.host.checkOf(this.panel, pair);
    const before = this.value;
    const samePair = key(pair) === key(before.pair);
    if (samePair && JSON.stringify(check) === JSON.stringify(before.check)) return;
    this.turn += 1;
    if (!samePair) this.set({ jacobian: null, detail: null, cursor: null, lines: [] });
    this.set({ pair, check, refusal: "", loading: false });
    if (pair !== null && check?.verdict != null && check.verdict !== "NOT CHECKED") void this.load();
  }

  /** Asks for the pair; with `all`, for the entries that were not evaluated, too. */
  async load(all = false): Promise<void> {
    const { pair } = this.value;
    if (pair === null) return;
    this.turn += 1;
    const { turn } = this;
    this.set({ loading: true, refusal: "" });
    try {
      const [launch, input, output] = pair;
      const answer = await this.panel.store.ask({
        type: "jacobian",
        ...{ launch, input, output },
        ...(all ? { whole: true } : {}),
      });
      if (turn === this.turn) this.take(pair, answer);
    } catch (error) {
      if (turn === this.turn) this.set({ loading: false, refusal: reason(error) });
    }
  }

  private take(pair: MaskEntry, answer: Answer): void {
    const jacobian = readJacobian(pair, answer);
    const before = this.value.jacobian;
    const same = before !== null && String(before.shape) === String(jacobian.shape);
    this.set({
      jacobian,
      detail: null,
      lines: [],
      loading: false,
      window: same ? this.value.window : whole(jacobian.shape),
      cursor: same ? this.value.cursor : null,
    });
    this.refine();
  }

  get shape(): readonly [number, number] {
    return this.value.jacobian?.shape ?? [0, 0];
  }

  zoom(factor: number, row?: number, column?: number): void {
    this.look(zoomed(this.value.window, this.shape, factor, row, column));
  }

  /** Returns whether anything moved. */
  pan(rows: number, columns: number): boolean {
    const { window: before } = this.value;
    const after = clamped({ ...before, top: before.top + rows, left: before.left + columns }, this.shape);
    if (after.top === before.top && after.left === before.left) return false;
    this.look(after);
    return true;
  }

  fit(): void {
    this.look(whole(this.shape));
  }

  point(row: number | null, column: number | null): void {
    const { cursor } = this.value;
    if (row === null || column === null) {
      if (cursor !== null) this.set({ cursor: null });
    } else if (cursor?.row !== row || cursor.column !== column) this.set({ cursor: { row, column } });
  }

  /** Moves the cursor (by default from the middle of the visible part), and brings it into view. */
  step(rows: number, columns: number): void {
    const [height, width] = this.shape;
    if (height === 0 || width === 0) return;
    const seen = this.value.window;
    const from = this.value.cursor ?? {
      row: Math.floor(seen.top + seen.height / 2) - rows,
      column: Math.floor(seen.left + seen.width / 2) - columns,
    };
    const row = Math.max(0, Math.min(height - 1, from.row + rows));
    const column = Math.max(0, Math.min(width - 1, from.column + columns));
    this.look(following(seen, this.shape, row, column));
    this.point(row, column);
  }

  /** Goes to an entry: close enough to see it among its neighbours. */
  goTo(row: number, column: number): void {
    const [height, width] = this.shape;
    const small = height <= 16 && width <= 16;
    this.look(small ? whole(this.shape) : closeTo(this.shape, row, column));
    this.point(row, column);
  }

  /** The finest cells that show an entry, and the place among them. */
  cellOf(row: number, column: number): { readonly cells: Cells; readonly at: number } | null {
    for (const cells of [this.value.detail, this.value.jacobian?.cells]) {
      const at = cells ? cellAt(cells, row, column) : null;
      if (cells && at !== null) return { cells, at };
    }
    return null;
  }

  /** Requests a whole row or column once the pointer has rested for a moment. */
  wantLine({ along, index }: { readonly along: "row" | "column"; readonly index: number }): void {
    const { pair, jacobian } = this.value;
    const wanted = `${along} ${index}`;
    if (pair === null || !jacobian?.cells?.pooled || wanted === this.line) return;
    this.line = wanted;
    window.clearTimeout(this.lineTimer);
    this.lineTimer = window.setTimeout(() => void this.loadLine(pair, along, index), SETTLED);
  }

  private async loadLine(pair: MaskEntry, along: "row" | "column", index: number): Promise<void> {
    const { turn } = this;
    const [launch, input, output] = pair;
    const [height, width] = this.shape;
    const window_ =
      along === "row"
        ? { rows: [index, index + 1], columns: [0, width] }
        : { rows: [0, height], columns: [index, index + 1] };
    try {
      const answer = await this.panel.store.ask({ type: "jacobian", ...{ launch, input, output }, ...window_ });
      const { cells } = readJacobian(pair, answer);
      if (turn === this.turn && cells) this.set({ lines: [cells, ...this.value.lines].slice(0, MOST_LINES) });
    } catch {
      // a report has no finer cells: there the maps are all there is
    }
  }

  private look(seen: Window): void {
    this.set({ window: seen });
    this.refine();
  }

  /** Requests finer cells once the view has rested for a moment. */
  private refine(): void {
    window.clearTimeout(this.timer);
    if (this.coarse()) this.timer = window.setTimeout(() => void this.loadDetail(), SETTLED);
  }

  /** True if finer cells than those at hand are available for the visible part. */
  private coarse(): boolean {
    const { jacobian, window: seen, detail } = this.value;
    if (!jacobian?.cells?.pooled) return false;
    const finest = Math.max(seen.height / 256, seen.width / 256, 1);
    const overview = Math.max(...jacobian.cells.pooled);
    if (finest > overview / 1.5) return false;
    if (!detail) return true;
    const covers =
      detail.rows[0] <= seen.top &&
      detail.rows[1] >= seen.top + seen.height &&
      detail.columns[0] <= seen.left &&
      detail.columns[1] >= seen.left + seen.width;
    return !covers || (detail.pooled !== null && Math.max(...detail.pooled) > 1.5 * finest);
  }

  private async loadDetail(): Promise<void> {
    const { pair, window: seen } = this.value;
    if (pair === null) return;
    const { turn } = this;
    const [launch, input, output] = pair;
    try {
      const answer = await this.panel.store.ask({
        type: "jacobian",
        ...{ launch, input, output },
        ...asked(seen, this.shape),
      });
      if (turn !== this.turn) return;
      this.set({ detail: readJacobian(pair, answer).cells });
      if (this.value.window !== seen) this.refine();
    } catch (error) {
      // the coarse cells stay, with the reason beside them: a report has no finer ones
      if (turn === this.turn) this.set({ refusal: `No finer cells: ${reason(error)}` });
    }
  }
}

function key(pair: MaskEntry | null): string {
  return pair === null ? "" : checkKey(...pair);
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

const SOURCES = new WeakMap<object, JacobianSource>();

/** The source of a panel; it ends with the panel's own lifetime, so hand over the panel itself. */
export function sourceOf(panel: Panel, host: Host): JacobianSource {
  let found = SOURCES.get(panel.view);
  if (!found) {
    found = new JacobianSource(panel, host);
    SOURCES.set(panel.view, found);
  }
  return found;
}
