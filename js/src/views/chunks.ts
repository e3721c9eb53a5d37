/**
 * Chunks: code of the panel that is loaded when it is first needed. A widget requests a chunk from its kernel; reports and
 * JupyterLab have every chunk in their bundles. A chunk is a bundle of its own, with its own copies of the modules that it
 * imports: state that outlives a call belongs to the panel or is passed as an argument.
 */
import type { Panel } from "./state.js";

/** Reference to a chunk; its code is the default export of the module that `load` imports. */
export interface Chunk<Code> {
  /** Name of the folder in `views/` and of the bundle. */
  readonly name: string;
  readonly load: () => Promise<{ readonly default: Code }>;
}

type Source = (panel: Panel, chunk: Chunk<unknown>) => Promise<unknown>;

const defined = new Map<string, Chunk<unknown>>();
const loaded = new Map<string, unknown>();
const loading = new Map<string, Promise<unknown>>();
const imported: Source = async (_, chunk) => (await chunk.load()).default;
let source: Source = imported;

export function defineChunk<Code>(name: string, load: Chunk<Code>["load"]): Chunk<Code> {
  const chunk = { name, load };
  defined.set(name, chunk);
  return chunk;
}

export function chunkNames(): readonly string[] {
  return [...defined.keys()].sort();
}

/** Stores the code of chunks by name, so that `withChunk` passes it on at once; null removes what is stored. */
export function holdChunks(codes: Readonly<Record<string, unknown>>): void {
  for (const [name, code] of Object.entries(codes)) {
    loading.delete(name);
    if (code === null) loaded.delete(name);
    else loaded.set(name, code);
  }
}

/** Imports every chunk, for pages that have all of them in their bundle. */
export async function loadAllChunks(): Promise<void> {
  const load = async ({ name, load }: Chunk<unknown>): Promise<void> => void loaded.set(name, (await load()).default);
  await Promise.all([...defined.values()].map(load));
}

/** Sets where chunks that are not loaded come from; without an argument, they are imported. */
export function fetchChunks(from: Source = imported): void {
  source = from;
}

/**
 * Passes the code of a chunk to `take`: at once if it is loaded, else when it arrives, unless the panel has ended by then. If it
 * does not arrive, `failed` gets the reason, in words for the user, and the next call makes a new attempt.
 */
export function withChunk<Code>(
  panel: Panel,
  chunk: Chunk<Code>,
  take: (code: Code) => void,
  failed: (why: string) => void,
): void {
  if (loaded.has(chunk.name)) {
    take(loaded.get(chunk.name) as Code);
    return;
  }
  let ended = false;
  panel.lifetime.add(() => {
    ended = true;
  });
  const code = loading.get(chunk.name) ?? fetchOnce(panel, chunk);
  code.then(
    (code) => ended || take(code as Code),
    (error: unknown) => ended || failed(error instanceof Error ? error.message : String(error)),
  );
}

/** Requests a chunk once for all panels of a page. */
function fetchOnce(panel: Panel, chunk: Chunk<unknown>): Promise<unknown> {
  const { name } = chunk;
  const code = source(panel, chunk);
  loading.set(name, code);
  code.then(
    (code) => loaded.set(name, code),
    () => undefined,
  );
  const done = (): void => {
    if (loading.get(name) === code) loading.delete(name);
  };
  code.then(done, done);
  return code;
}
