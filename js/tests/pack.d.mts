export interface PackedTrace {
  head: Record<string, unknown>;
  columns: Record<string, DataView>;
}
export function packTrace(trace: object): PackedTrace;
