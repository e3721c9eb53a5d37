/** Opens saved traces in a tab: a zip with `trace.json`, or plain JSON. Nothing runs on the server. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ABCWidgetFactory, type DocumentRegistry, DocumentWidget } from "@jupyterlab/docregistry";
import { Widget } from "@lumino/widgets";
import { bytesOf } from "../trace/compressed.js";
import { openSaved } from "../trace/json.js";
import { TraceError } from "../trace/reader.js";
import { PanelStore } from "../trace/store.js";
import { loadAllChunks } from "../views/chunks.js";
import { mountPanel } from "../views/panel.js";
import { element } from "./dom.js";
import { tapeIcon } from "./icon.js";
import { readTraceFile } from "./readTraceFile.js";
import { ITapeSettings } from "./tokens.js";

void loadAllChunks().catch(() => undefined); // imported again when they are needed

class TraceFile extends Widget {
  private unmount: (() => void) | null = null;
  private readonly store = new PanelStore();
  /** Counts attempts: one that ends late must not replace a newer one. */
  private attempts = 0;

  constructor(
    private readonly context: DocumentRegistry.Context,
    private readonly settings: ITapeSettings,
  ) {
    super();
    this.addClass("td-tab");
    void context.ready.then(() => {
      if (this.isDisposed) return;
      context.model.contentChanged.connect(this.render, this);
      settings.changed.connect(this.render, this);
      this.render();
    });
  }

  override dispose(): void {
    if (this.isDisposed) return;
    this.settings.changed.disconnect(this.render, this);
    this.context.model?.contentChanged.disconnect(this.render, this);
    this.unmount?.();
    super.dispose();
  }

  private render(): void {
    this.attempts += 1;
    const attempt = this.attempts;
    const content = this.context.model.toString();
    const packed = this.context.contentsModel?.format === "base64";
    const bytes = packed ? fromBase64(content) : new TextEncoder().encode(content);
    readTraceFile(bytes, this.settings.largestTrace)
      .then(openSaved)
      .then(
        (trace) => attempt === this.attempts && !this.isDisposed && this.draw(trace),
        (error: Error) => attempt === this.attempts && !this.isDisposed && this.fail(error),
      );
  }

  private draw(trace: unknown): void {
    if (this.unmount === null) this.node.replaceChildren();
    this.store.set({ trace });
    this.unmount ??= mountPanel(this.node, this.store, { fill: true });
  }

  private fail(error: Error): void {
    this.unmount?.();
    this.unmount = null;
    const known = error instanceof TraceError;
    if (!known) console.warn(error);
    const hint = /at most/.test(error.message)
      ? "The limit is the setting “Largest trace file to open” of Gradient Tapes."
      : "Write it again with Trace.save, or open it in Python with wp.trace.load_trace, whose error says more.";
    const failure = element(
      "div",
      "td-file-failure",
      element("h2", "", `${this.context.path.split("/").pop() ?? "This file"} cannot be shown`),
      element("p", "", error.message.slice(0, 1000)),
      element("p", "td-file-hint", hint),
    );
    failure.setAttribute("role", "alert");
    this.node.replaceChildren(failure);
  }
}

function fromBase64(text: string): Uint8Array {
  try {
    return bytesOf(text);
  } catch {
    return new TextEncoder().encode(text);
  }
}

class TraceFileFactory extends ABCWidgetFactory<DocumentWidget<TraceFile>> {
  constructor(
    options: DocumentRegistry.IWidgetFactoryOptions<DocumentWidget<TraceFile>>,
    private readonly settings: ITapeSettings,
  ) {
    super(options);
  }

  protected createNewWidget(context: DocumentRegistry.Context): DocumentWidget<TraceFile> {
    const widget = new DocumentWidget({ context, content: new TraceFile(context, this.settings) });
    widget.title.icon = tapeIcon;
    widget.toolbar.hide();
    return widget;
  }
}

export const traceFilePlugin: JupyterFrontEndPlugin<void> = {
  id: "tapedebug:trace-files",
  description: "Opens saved traces (.tapetrace, .trace.json) in the gradient debugger.",
  autoStart: true,
  requires: [ITapeSettings],
  activate: (app: JupyterFrontEnd, settings: ITapeSettings) => {
    const { docRegistry } = app;
    const kinds = [
      ["tapetrace", "Tape Trace", ".tapetrace", "base64", "application/vnd.tapedebug.tapetrace+zip"],
      ["tapetrace-json", "Tape Trace (JSON)", ".trace.json", "text", "application/vnd.tapedebug.trace-file+json"],
    ] as const;
    for (const [name, displayName, extension, fileFormat, mimeType] of kinds) {
      docRegistry.addFileType({
        name,
        displayName,
        extensions: [extension],
        mimeTypes: [mimeType],
        contentType: "file",
        fileFormat,
        icon: tapeIcon,
      });
      const options = {
        name: displayName,
        modelName: fileFormat,
        fileTypes: [name],
        defaultFor: [name],
        readOnly: true,
      };
      // JupyterLab's base class does not match its own type under exactOptionalPropertyTypes
      docRegistry.addWidgetFactory(new TraceFileFactory(options, settings) as DocumentRegistry.WidgetFactory);
    }
  },
};
