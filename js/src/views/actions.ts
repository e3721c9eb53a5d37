/** Actions that several views share: selecting a launch, a version or a finding, and following a value to its writer. */
import type { Arg, Finding, Launch, Version } from "../trace/types.js";
import { findingPlace } from "./findingPlace.js";
import { historyOf } from "./history.js";
import { foldAround } from "./lanes/folds.js";
import { origin } from "./phrases.js";
import type { Panel } from "./state.js";

export function selectLaunch(panel: Panel, launch: number | null, backward = false): void {
  const clamped = launch === null ? null : Math.max(0, Math.min(panel.model.launchCount - 1, launch));
  panel.view.set({ tab: "launch", backward, line: null, adjoint: false });
  const array = panel.model.arrayId(panel.store.get("selection").array);
  // while the user steps through the launches, the selected array shows its version at that launch
  const version = array === null || clamped === null ? null : panel.model.versionAt(array, clamped);
  panel.store.select(version ? { launch: clamped, version: version.version } : { launch: clamped });
  const found = panel.model.launch(clamped);
  if (found) panel.announce(`launch ${found.index}, ${found.name}${backward ? ", backward pass" : ""}`);
}

export function selectVersion(panel: Panel, version: Version, launch?: number): void {
  panel.view.set({ tab: "array" });
  const patch = { array: version.array, version: version.version };
  panel.store.select(launch === undefined ? patch : { ...patch, launch });
  const array = panel.model.array(version.array);
  panel.announce(`${array?.label ?? "array"} version ${version.version}, ${version.status}`);
}

export function selectFinding(panel: Panel, finding: Finding | null): void {
  if (finding === null) {
    panel.store.select({ finding: null });
    return;
  }
  const { launch, array } = findingPlace(panel.model, finding);
  const version = array === null || launch === null ? null : (panel.model.versionAt(array, launch)?.version ?? null);
  panel.view.set({ tab: "launch", backward: false, line: finding.location, adjoint: false });
  panel.store.select({ finding: finding.id, launch, array, version });
  panel.announce(`finding: ${finding.rule}, ${finding.message}`);
}

/** The next (1) or previous (-1) finding, around the ends. */
export function stepFinding(panel: Panel, step: number, findings: readonly Finding[] = panel.model.findings): void {
  if (findings.length === 0) return;
  const now = findings.findIndex((f) => f.id === panel.store.get("selection").finding);
  const next = now < 0 ? (step > 0 ? 0 : findings.length - 1) : (now + step + findings.length) % findings.length;
  selectFinding(panel, findings[next] ?? null);
}

/**
 * One step along the tape as the lanes show it: a fold is one step, however long it is. In time, forward through
 * the launches and then backward through them again.
 */
export function stepShown(panel: Panel, step: 1 | -1): void {
  const { launch } = panel.store.get("selection");
  const fold =
    launch === null || panel.view.get("main") !== "lanes" ? null : foldAround(panel.model, panel.view.value, launch);
  if (launch === null || fold === null) {
    stepLaunch(panel, step);
    return;
  }
  const time = (index: number): number => timeOf(index, panel.view.get("backward"), panel.model.launchCount);
  const ends = [time(fold.first), time(fold.last)];
  stepLaunch(panel, step + (step > 0 ? Math.max(...ends) : Math.min(...ends)) - time(launch));
}

/** One step along the tape in the order of time: forward through the launches, then backward through them again. */
export function stepLaunch(panel: Panel, step: number): void {
  const count = panel.model.launchCount;
  if (count === 0) return;
  const launch = panel.store.get("selection").launch;
  const at = launch === null ? (step > 0 ? -1 : 0) : timeOf(launch, panel.view.get("backward"), count);
  const time = Math.max(0, Math.min(lastTime(panel), at + step));
  const next = launchAt(time, count);
  selectLaunch(panel, next.launch, next.backward);
}

export function lastTime(panel: Panel): number {
  const count = panel.model.launchCount;
  return (panel.model.trace.backward.ran ? 2 * count : count) - 1;
}

export function timeOf(launch: number, backward: boolean, count: number): number {
  return backward ? 2 * count - 1 - launch : launch;
}

export function launchAt(time: number, count: number): { launch: number; backward: boolean } {
  return time < count ? { launch: time, backward: false } : { launch: 2 * count - 1 - time, backward: true };
}

/** The argument to trace back: the selected one, else one that the adjoint needs, else any that is read. */
export function mainArg(panel: Panel, launch: Launch): Arg | null {
  const read = launch.args.filter((arg) => arg.array !== null && arg.reads);
  const selected = panel.model.arrayId(panel.store.get("selection").array);
  return (
    read.find((arg) => arg.array === selected) ??
    read.find((arg) => arg.needed) ??
    read.find((arg) => panel.model.array(arg.array)?.requiresGrad) ??
    read[0] ??
    null
  );
}

/** Goes to the launch that wrote the selected version, or what the selected launch read; once more goes on from there. */
export function selectWriter(panel: Panel): void {
  const { array, version } = panel.store.get("selection");
  const launch = panel.model.launch(panel.store.get("selection").launch);
  if (panel.view.get("tab") === "array") {
    const selected = panel.model.version(panel.model.arrayId(array), version);
    if (selected) goToWriter(panel, selected);
    else panel.announce("no version is selected");
    return;
  }
  const arg = launch && mainArg(panel, launch);
  const read = arg && panel.model.version(arg.array, arg.readVersion);
  if (read) goToWriter(panel, read);
  else panel.announce(launch ? "this launch reads no array" : "no launch is selected");
}

export function goToWriter(panel: Panel, version: Version): void {
  historyOf(panel).wrote(version);
  const label = panel.model.array(version.array)?.label ?? "array";
  if (version.writtenBy === null) {
    selectVersion(panel, version);
    panel.announce(`${label} version ${version.version} was ${origin(panel.model, version)}`);
    return;
  }
  panel.store.select({ array: version.array, version: version.version });
  selectLaunch(panel, version.writtenBy);
  const name = panel.model.launch(version.writtenBy)?.name ?? "";
  panel.announce(`${label} version ${version.version} was written by launch ${version.writtenBy}, ${name}`);
}

/** One step back along the provenance: to the launch that read the value. */
export function selectReader(panel: Panel): void {
  const history = historyOf(panel);
  const { provenance } = history;
  const here = provenance ? history.position(provenance) : -1;
  if (!provenance || here <= 0) panel.announce("no step back: press w to go to the launch that wrote a value");
  else goToStep(panel, here - 1);
}

/** To a step of the provenance; 0 is where it began. */
export function goToStep(panel: Panel, to: number): void {
  const { provenance } = historyOf(panel);
  const step = provenance?.steps[to - 1];
  if (!provenance) return;
  if (!step) {
    const first = provenance.steps[0];
    if (provenance.from !== null) selectLaunch(panel, provenance.from);
    else if (first) showVersion(panel, first.array, first.version);
    return;
  }
  if (step.launch === null) showVersion(panel, step.array, step.version);
  else {
    panel.store.select({ array: step.array, version: step.version });
    selectLaunch(panel, step.launch);
  }
}

function showVersion(panel: Panel, array: number, version: number): void {
  const found = panel.model.version(array, version);
  if (found) selectVersion(panel, found);
}
