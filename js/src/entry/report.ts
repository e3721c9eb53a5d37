/** The script of a stand-alone report: shows the trace that the page carries as data. There is no kernel behind it. */
import { PanelStore } from "../trace/store.js";
import { mountPanel } from "../views/panel.js";

/** Element ids that `tapedebug/report` writes. */
const DATA = "tapedebug-trace";
const HOST = "tapedebug-panel";

function show(): void {
  const host = document.getElementById(HOST);
  const data = document.getElementById(DATA)?.textContent;
  if (!host || !data) return;
  let trace: unknown;
  try {
    trace = JSON.parse(data);
  } catch {
    host.textContent = "The data of this report is damaged: it is no JSON any more. Write the report again.";
    return;
  }
  mountPanel(host, new PanelStore({ trace }), { fill: true });
}

show();
