/** Requests values while the user scrubs: after a short delay, the newest first, a few at a time, and never twice. */
import { isUnanswered, type PanelStore, type Question } from "../../trace/store.js";
import { type Of, readValues, type VersionValues } from "../../trace/values.js";

export type Found =
  | { readonly state: "known"; readonly values: VersionValues }
  | { readonly state: "refused"; readonly why: string }
  | { readonly state: "waiting" };

export interface Wanted {
  readonly array: number;
  readonly version: number;
  readonly of: Of;
  /** The first element, if it is not the beginning. */
  readonly start?: number;
}

/** Milliseconds without another request before the kernel is asked. */
const PAUSE = 70;
/** Questions that are under way at once: a kernel answers one after the other. */
const MOST_OPEN = 2;
const MOST_KEPT = 200;

export class Lookup {
  private readonly known = new Map<string, VersionValues>();
  private readonly refused = new Map<string, string>();
  private readonly open = new Set<string>();
  /** The answer to this request will be out of date. */
  private readonly outdated = new Set<string>();
  private wanted: readonly Wanted[] = [];
  private timer: ReturnType<typeof setTimeout> | undefined;
  private ended = false;

  /** `onChange` is called when something that is wanted now has been answered. */
  constructor(
    private readonly store: PanelStore,
    private readonly onChange: () => void,
  ) {}

  /** Sets what is shown; earlier requests that are still waiting are dropped. */
  want(wanted: readonly Wanted[]): void {
    const keys = new Set(wanted.map(keyOf));
    for (const key of this.refused.keys()) if (!keys.has(key)) this.refused.delete(key); // may be answered next time
    this.wanted = wanted;
    clearTimeout(this.timer);
    if (wanted.some((one) => this.missing(one))) this.timer = setTimeout(() => this.ask(), PAUSE);
  }

  /** Another reverse pass has run: all adjoints are other ones. */
  forgetAdjoints(): void {
    const adjoint = (key: string): boolean => key.split(" ")[2] === "adjoint";
    for (const known of [this.known, this.refused]) for (const key of known.keys()) if (adjoint(key)) known.delete(key);
    for (const key of this.open) if (adjoint(key)) this.outdated.add(key);
  }

  find(wanted: Wanted): Found {
    const key = keyOf(wanted);
    const values = this.known.get(key);
    if (values) return { state: "known", values };
    const why = this.refused.get(key);
    return why === undefined ? { state: "waiting" } : { state: "refused", why };
  }

  end(): void {
    this.ended = true;
    clearTimeout(this.timer);
  }

  private missing(wanted: Wanted): boolean {
    const key = keyOf(wanted);
    return !this.known.has(key) && !this.refused.has(key) && !this.open.has(key);
  }

  private ask(): void {
    for (const wanted of this.wanted) {
      if (this.open.size >= MOST_OPEN) return; // goes on when an answer is there
      if (this.missing(wanted)) void this.answer(wanted);
    }
  }

  private async answer(wanted: Wanted): Promise<void> {
    const key = keyOf(wanted);
    this.open.add(key);
    try {
      const values = readValues(await this.store.ask(questionOf(wanted)));
      if (this.known.size >= MOST_KEPT) this.known.delete(this.known.keys().next().value ?? "");
      this.known.set(key, values);
    } catch (error) {
      this.refused.set(key, isUnanswered(error) ? error.message : "The values could not be read.");
      if (!isUnanswered(error)) console.warn(error);
    }
    this.open.delete(key);
    if (this.outdated.delete(key)) {
      this.known.delete(key);
      this.refused.delete(key);
    }
    if (this.ended) return;
    if (this.wanted.some((one) => keyOf(one) === key)) this.onChange();
    this.ask();
  }
}

/** The key under which a report embeds the answer: the question without a window at the beginning. */
export function questionOf({ array, version, of, start }: Wanted): Question {
  const question = { type: "values", array, version, of };
  return start === undefined || start === 0 ? question : { ...question, start };
}

function keyOf({ array, version, of, start }: Wanted): string {
  return `${array} ${version} ${of} ${start ?? 0}`;
}
