/** A plain object that notifies listeners when its fields change. All state of a panel is in two of these. */
type Listener<S> = (changed: ReadonlySet<keyof S>) => void;

export class Observable<S extends object> {
  private state: S;
  private readonly listeners = new Set<Listener<S>>();

  constructor(initial: S) {
    this.state = { ...initial };
  }

  get value(): Readonly<S> {
    return this.state;
  }

  get<K extends keyof S>(key: K): S[K] {
    return this.state[key];
  }

  /** Changes fields. Listeners are called once, with the fields whose values differ, and not at all if none does. */
  set(patch: Partial<S>): void {
    const changed = new Set<keyof S>();
    for (const key of Object.keys(patch) as (keyof S)[]) {
      if (!Object.is(this.state[key], patch[key])) changed.add(key);
    }
    if (changed.size === 0) return;
    this.state = { ...this.state, ...patch };
    for (const listener of [...this.listeners]) listener(changed);
  }

  /** Returns the function that ends the subscription. */
  subscribe(listener: Listener<S>): () => void {
    this.listeners.add(listener);
    return () => {
      this.listeners.delete(listener);
    };
  }
}
