import type { MaskEntry } from "../trace/store.js";

/** The pairs that were switched on when the notebook was saved; the file may hold anything. */
export function savedPairs(metadata: unknown): MaskEntry[] {
  const mask = typeof metadata === "object" && metadata !== null && "mask" in metadata ? metadata.mask : null;
  return Array.isArray(mask) ? mask.filter(isEntry) : [];
}

function isEntry(entry: unknown): entry is MaskEntry {
  if (!Array.isArray(entry) || entry.length !== 3) return false;
  const [launch, input, output] = entry as unknown[];
  return (launch === null || typeof launch === "number") && typeof input === "string" && typeof output === "string";
}
