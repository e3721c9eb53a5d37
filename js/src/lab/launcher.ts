/** A card in the launcher: a new notebook with the usual first cells. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import { ILauncher } from "@jupyterlab/launcher";
import { guarded, PALETTE } from "./commands.js";
import { tapeIcon } from "./icon.js";

const CELLS = [
  "import tapedebug as wp\n%load_ext tapedebug",
  `@wp.kernel
def square(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * x[i])

x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)`,
  "%%tape --loss loss\nwp.launch(square, dim=3, inputs=[x], outputs=[loss])",
];

function notebook(kernel: string, display: string, language: string): object {
  return {
    nbformat: 4,
    nbformat_minor: 5,
    metadata: { kernelspec: { name: kernel, display_name: display, language } },
    cells: CELLS.map((source, i) => ({
      cell_type: "code",
      id: `tape-${i}`,
      metadata: {},
      execution_count: null,
      source,
      outputs: [],
    })),
  };
}

export const launcherPlugin: JupyterFrontEndPlugin<void> = {
  id: "tapedebug:launcher",
  description: "Creates a notebook for debugging gradients, from the launcher.",
  autoStart: true,
  optional: [ILauncher, ICommandPalette],
  activate: (app: JupyterFrontEnd, launcher: ILauncher | null, palette: ICommandPalette | null) => {
    const { commands, serviceManager } = app;
    const command = "tapedebug:new-notebook";
    commands.addCommand(command, {
      label: (args) => (args.isPalette ? "New Gradient Notebook" : "Gradient Notebook"),
      caption: "A new Python notebook that loads tapedebug, with a kernel and a tape to begin with",
      icon: tapeIcon,
      execute: guarded()(async (args) => {
        await serviceManager.kernelspecs.ready;
        const known = Object.values(serviceManager.kernelspecs.specs?.kernelspecs ?? {});
        const preferred = serviceManager.kernelspecs.specs?.default;
        const pythons = known.filter((spec) => spec?.language === "python");
        const python = pythons.find((spec) => spec?.name === preferred) ?? pythons[0];
        if (python === undefined) throw new Error("This server has no Python kernel; install ipykernel.");
        const path = typeof args.cwd === "string" ? args.cwd : "";
        const { contents } = serviceManager;
        const made = await contents.newUntitled({ path, type: "notebook" });
        const content = notebook(python.name, python.display_name, python.language);
        await contents.save(made.path, { type: "notebook", format: "json", content });
        return commands.execute("docmanager:open", {
          path: made.path,
          factory: "Notebook",
          kernel: { name: python.name },
        });
      }),
    });
    launcher?.add({ command, category: "Other", rank: 50 });
    palette?.addItem({ command, category: PALETTE, args: { isPalette: true } });
  },
};
