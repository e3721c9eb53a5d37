import type { ViewSpec } from "../spec.js";
import { lanesLegend } from "./legend.js";
import { LanesView } from "./view.js";

export const lanes: ViewSpec = {
  key: "lanes",
  title: "Lanes",
  name: "the lanes",
  rank: 10,
  shortcut: null,
  keys: [
    ["↑  ↓", "the array above, below"],
    ["Home  End", "first launch, end of the tape"],
    ["Page Up  Page Down", "a page of arrays up, down"],
    ["Enter", "fold or unfold what the selected launch belongs to"],
  ],
  make: (panel) => new LanesView(panel),
  legend: lanesLegend,
};
