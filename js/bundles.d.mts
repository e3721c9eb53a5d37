import type { BuildOptions } from "esbuild";

export function foldersWith(file: string): string[];
export const CHUNKS: readonly string[];
export const widget: BuildOptions;
export const BUNDLES: readonly BuildOptions[];
