/** Notebooks that the tests of the panel share. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { codeCell, notebook, ROOT } from "./harness.mjs";

export const TRACE_MIME = "application/vnd.tapedebug.trace+json";
export const WIDGET_MIME = "application/vnd.jupyter.widget-view+json";

export const KERNELS = `import tapedebug as wp
%load_ext tapedebug

@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]

@wp.kernel
def refill(x: wp.array(dtype=float)):
    x[wp.tid()] = 0.5

@wp.kernel
def total(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, y[wp.tid()])`;

const ARRAYS = `x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
y = wp.zeros(3, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)`;

const LAUNCHES = `work = wp.clone(x)
wp.launch(square, dim=3, inputs=[work], outputs=[y])
wp.launch(refill, dim=3, outputs=[work])  # overwrites what the adjoint of square needs
wp.launch(total, dim=3, inputs=[y], outputs=[loss])`;

/** A tape with one wrong gradient, shown by the magic: \`tape\`, \`panel\`. */
export const WRONG = `%%tape --name tape --loss loss --panel panel --on-overwrite ignore\n${ARRAYS}\n${LAUNCHES}`;

/** The same tape with nothing shown. */
export const WRONG_TAPE = `${ARRAYS}
with wp.Tape(on_overwrite="ignore") as tape:
    ${LAUNCHES.replaceAll("\n", "\n    ")}
tape.backward(loss)
found = wp.diagnose(tape, loss=loss)`;

export async function netTrace() {
  return JSON.parse(await readFile(join(ROOT, "js/tests/fixtures/net.trace.json"), "utf8"));
}

/** A notebook that was saved with these tapes, by a kernel that nobody has any more. */
export function saved(...traces) {
  const outputs = traces.map((trace) => ({
    output_type: "display_data",
    metadata: { [TRACE_MIME]: { mask: [[null, "throw", "loss"]] } },
    data: {
      "text/plain": "<Tape>",
      "text/html": "<p>static fallback</p>",
      [TRACE_MIME]: trace,
      [WIDGET_MIME]: { version_major: 2, version_minor: 0, model_id: "0123456789abcdef0123456789abcdef" },
    },
  }));
  return { ...notebook(), cells: outputs.map((output, number) => codeCell("tape", number, [output])) };
}
