/**
 * Chunks of the panel that not everybody looks at. Reports and JupyterLab carry their code; a widget asks its kernel for it when
 * somebody looks. A chunk is a bundle with modules of its own: what keeps something between two calls is handed to it, or is kept
 * by the panel.
 */
import type { DetailsChunk } from "./details/shell.js";
import type { GraphChunk } from "./graph/shell.js";
import type { JacobianChunkFactory } from "./jacobian/shell.js";
import type { Panel } from "./state.js";

/** What the module of each chunk has as its default. */
export interface Chunks {
  details: DetailsChunk;
  graph: GraphChunk;
  jacobian: JacobianChunkFactory;
}

export type ChunkName = keyof Chunks;
type Source = (panel: Panel, name: ChunkName) => Promise<Chunks[ChunkName]>;

const held = new Map<ChunkName, Chunks[ChunkName]>();
const coming = new Map<ChunkName, Promise<Chunks[ChunkName]>>();
let from: Source = () => Promise.reject(new Error("This page has no code for it."));

/** Parts whose code is here already; those that are null are not, whatever was held before. */
export function holdChunks(parts: { readonly [Name in ChunkName]?: Chunks[Name] | null }): void {
  for (const [name, make] of Object.entries(parts) as [ChunkName, Chunks[ChunkName] | null][]) {
    coming.delete(name);
    if (make === null) held.delete(name);
    else held.set(name, make);
  }
}

/** Where the code of the others comes from. */
export function fetchChunks(source: Source): void {
  from = source;
}

/**
 * Hands over the code of a chunk: at once where it is here, else when it comes, unless the panel has ended by then. `failed` is
 * told why it does not come, in words for the user; whoever asks later makes a new attempt.
 */
export function withChunk<Name extends ChunkName>(
  panel: Panel,
  name: Name,
  take: (make: Chunks[Name]) => void,
  failed: (why: string) => void,
): void {
  const here = held.get(name) as Chunks[Name] | undefined;
  if (here !== undefined) {
    take(here);
    return;
  }
  let over = false;
  panel.lifetime.add(() => {
    over = true;
  });
  const chunk = coming.get(name) ?? fetchOnce(panel, name);
  chunk.then(
    (make) => over || take(make as Chunks[Name]),
    (error: unknown) => over || failed(error instanceof Error ? error.message : String(error)),
  );
}

/** One question for all the panels of a page. */
function fetchOnce(panel: Panel, name: ChunkName): Promise<Chunks[ChunkName]> {
  const chunk = from(panel, name);
  coming.set(name, chunk);
  chunk.then(
    (make) => held.set(name, make),
    () => undefined,
  );
  const done = (): void => {
    if (coming.get(name) === chunk) coming.delete(name);
  };
  chunk.then(done, done);
  return chunk;
}
