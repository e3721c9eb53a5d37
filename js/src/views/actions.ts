/** The few things that can be done from several places: going to a launch, a version, a finding, and back to who wrote a value. */
import { evidenceLaunch } from "../trace/model.js";
import type { Arg, Finding, Launch, Version } from "../trace/types.js";
import type { Panel } from "./state.js";

export function selectLaunch(panel: Panel, launch: number | null, backward = false): void {
  const clamped = launch === null ? null : Math.max(0, Math.min(panel.model.launchCount - 1, launch));
  panel.view.set({ tab: "launch", backward, line: null });
  panel.store.select({ launch: clamped });
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
  const launch = launchOfFinding(panel, finding);
  const array = panel.model.arrayId(finding.arrays[0] ?? null);
  const version = array === null || launch === null ? null : (panel.model.versionAt(array, launch)?.version ?? null);
  panel.view.set({ tab: "launch", backward: false, line: finding.location?.line ?? null });
  panel.store.select({ finding: finding.id, launch, array, version });
  panel.announce(`finding: ${finding.rule}, ${finding.message}`);
}

/** Of the launches that a finding names, the one whose kernel has the finding's line; else the one that did the harm. */
function launchOfFinding(panel: Panel, finding: Finding): number | null {
  const pair = [evidenceLaunch(finding, "reader"), evidenceLaunch(finding, "clobberer")];
  const candidates = [...pair, ...finding.launches].filter((at): at is number => panel.model.launch(at) !== null);
  const at = finding.location;
  const holds = candidates.find((index) => {
    const kernel = panel.model.kernel(panel.model.launch(index));
    return (
      kernel && at && kernel.file === at.file && at.line >= kernel.line && at.line < kernel.line + kernel.lines.length
    );
  });
  return holds ?? candidates[0] ?? null;
}

/** The next (1) or previous (-1) finding, around the ends. */
export function stepFinding(panel: Panel, step: number): void {
  const { findings } = panel.model;
  if (findings.length === 0) return;
  const now = findings.findIndex((f) => f.id === panel.store.get("selection").finding);
  const next = now < 0 ? (step > 0 ? 0 : findings.length - 1) : (now + step + findings.length) % findings.length;
  selectFinding(panel, findings[next] ?? null);
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

/** The argument whose values one asks about first: the one a finding names, one that is needed, any that is read. */
function mainArg(panel: Panel, launch: Launch): Arg | null {
  const read = launch.args.filter((arg) => arg.array !== null && arg.reads);
  const selected = panel.store.get("selection").array;
  return (
    read.find((arg) => arg.array === panel.model.arrayId(selected)) ??
    read.find((arg) => arg.needed) ??
    read.find((arg) => panel.model.array(arg.array)?.requiresGrad) ??
    read[0] ??
    null
  );
}

/** Goes to the launch that wrote the selected version, or what the selected launch read. */
export function whoWroteThis(panel: Panel): void {
  const { array, version } = panel.store.get("selection");
  const launch = panel.model.launch(panel.store.get("selection").launch);
  if (panel.view.get("tab") === "array") {
    const selected = panel.model.version(panel.model.arrayId(array), version);
    if (selected) goToWriter(panel, selected);
    return;
  }
  const arg = launch && mainArg(panel, launch);
  const read = arg && panel.model.version(arg.array, arg.readVersion);
  if (read) goToWriter(panel, read);
  else panel.announce("this launch reads no array");
}

export function goToWriter(panel: Panel, version: Version): void {
  const label = panel.model.array(version.array)?.label ?? "array";
  if (version.writtenBy === null) {
    selectVersion(panel, version);
    panel.announce(`${label} version ${version.version} was there before the tape began`);
    return;
  }
  selectLaunch(panel, version.writtenBy);
  panel.store.select({ array: version.array, version: version.version });
}
