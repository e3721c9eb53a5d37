/** Answers about values as the kernel gives them. */
import type { Answer } from "../src/trace/store.js";
import type { Json } from "./make.js";

/** Float32 values of an array, whole or from `start` on. */
export function valuesAnswer(
  values: readonly number[],
  {
    shape = [values.length],
    element = [],
    start = 0,
    size = values.length,
    ...more
  }: Json & {
    shape?: number[];
    element?: number[];
    start?: number;
    size?: number;
  } = {},
  before: readonly number[] | null = null,
): Answer {
  const components = element.reduce((a, b) => a * b, 1);
  const pack = (list: readonly number[]): DataView => new DataView(Float32Array.from(list).buffer);
  const data: Json = {
    ...{ dtype: "float32", sent: "<f4", shape, element, start, count: values.length / components },
    summary: {
      ...{ count: size, nan: values.filter(Number.isNaN).length, inf: 0, min: 0, max: 9, mean: 4, norm: 77 },
      histogram: null,
    },
    first: { nan: null, inf: null },
    change: null,
    overview: null,
    buffers: before ? ["values", "before"] : ["values"],
    ...more,
  };
  return { data, buffers: before ? [pack(values), pack(before)] : [pack(values)] };
}
