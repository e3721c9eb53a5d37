/**
 * Parts of the panel that not everybody looks at. Reports and JupyterLab carry their code; a widget asks its kernel for it when
 * somebody looks. A part is a bundle with modules of its own: what keeps something between two calls is handed to it, or is kept
 * by the panel.
 */
import type { Details } from "./details/part.js";
import type { MakeGraph } from "./graph/part.js";
import type { MakeJacobian } from "./jacobian/part.js";
import type { Panel } from "./state.js";

/** What the module of each part has as its default. */
export interface Parts {
  details: Details;
  graph: MakeGraph;
  jacobian: MakeJacobian;
}

export type PartName = keyof Parts;
type Source = (panel: Panel, name: PartName) => Promise<Parts[PartName]>;

const held = new Map<PartName, Parts[PartName]>();
const coming = new Map<PartName, Promise<Parts[PartName]>>();
let from: Source = () => Promise.reject(new Error("This page has no code for it."));

/** Parts whose code is here already; those that are null are not, whatever was held before. */
export function holdParts(parts: { readonly [Name in PartName]?: Parts[Name] | null }): void {
  for (const [name, make] of Object.entries(parts) as [PartName, Parts[PartName] | null][]) {
    coming.delete(name);
    if (make === null) held.delete(name);
    else held.set(name, make);
  }
}

/** Where the code of the others comes from. */
export function fetchParts(source: Source): void {
  from = source;
}

/**
 * Hands over the code of a part: at once where it is here, else when it comes, unless the panel has ended by then. `failed` is
 * told why it does not come, in words for the user; whoever asks later makes a new attempt.
 */
export function withPart<Name extends PartName>(
  panel: Panel,
  name: Name,
  take: (make: Parts[Name]) => void,
  failed: (why: string) => void,
): void {
  const here = held.get(name) as Parts[Name] | undefined;
  if (here !== undefined) {
    take(here);
    return;
  }
  let over = false;
  panel.lifetime.add(() => {
    over = true;
  });
  const part = coming.get(name) ?? fetchOnce(panel, name);
  part.then(
    (make) => over || take(make as Parts[Name]),
    (error: unknown) => over || failed(error instanceof Error ? error.message : String(error)),
  );
}

/** One question for all the panels of a page. */
function fetchOnce(panel: Panel, name: PartName): Promise<Parts[PartName]> {
  const part = from(panel, name);
  coming.set(name, part);
  part.then(
    (make) => held.set(name, make),
    () => undefined,
  );
  const done = (): void => {
    if (coming.get(name) === part) coming.delete(name);
  };
  part.then(done, done);
  return part;
}
