/** Phrases about versions and launches, shared by tooltips, the inspector and screen readers. */
import type { TraceModel } from "../trace/model.js";
import type { Launch, Severity, Verdict, Version, VersionStatus } from "../trace/types.js";
import { listed, number, place, short } from "./format.js";

export const STATUS_NAMES: Readonly<Record<VersionStatus, string>> = {
  kept: "intact",
  preserved: "kept a copy",
  lost: "lost",
  harmless: "harmless",
  live: "live",
};

export const SEVERITY_SIGNS: Readonly<Record<Severity, string>> = { error: "✕", warning: "!", info: "i" };

export const VERDICT_SIGNS: Readonly<Record<Verdict, string>> = {
  AGREE: "✓",
  WRONG: "✕",
  UNDECIDABLE: "?",
  KINK: "∧",
  NONDETERMINISTIC: "≈",
  "NOT CHECKED": "–",
};

export const VERDICT_MEANINGS: Readonly<Record<Verdict, string>> = {
  AGREE: "the gradient agrees with the float64 reference",
  WRONG: "the gradient that would be consumed is wrong",
  UNDECIDABLE: "the reference is too uncertain to tell",
  KINK: "the function is not smooth here; left and right slopes differ",
  NONDETERMINISTIC: "two runs of the same tape differ",
  "NOT CHECKED": "it was not compared with a reference",
};

/** A sentence ends at a full stop with a space after it, and the next begins with a capital, a digit or a norm. */
const SENTENCE_END = /(?<=[.!?]["”)]?)\s+(?=[A-Z0-9‖⟨"“(])/;
const ABOUT_THE_EFFECT = /\b(gradients?|loss|harmless|objective)\b/i;

/** The message of a finding in two parts, cause and effect; each is cut by itself if there is little room. */
export function messageParts(message: string): { readonly cause: string; readonly effect: string } {
  const sentences = message.split(SENTENCE_END);
  const told = sentences.findIndex((sentence, i) => i > 0 && ABOUT_THE_EFFECT.test(sentence));
  const at = told < 0 ? 1 : told;
  return { cause: sentences.slice(0, at).join(" "), effect: sentences.slice(at).join(" ") };
}

/** Return the fate of a version in one sentence. */
export function fate(model: TraceModel, version: Version): string {
  const { overwrittenBy, neededBy, status } = version;
  const several = neededBy.length > 1;
  const needers = `the ${several ? "adjoints of launches" : "adjoint of launch"} ${listed(neededBy, 3)}`;
  const need = several ? "need" : "needs";
  const by = overwrittenBy === null ? "" : launchName(model, overwrittenBy);
  switch (status) {
    case "lost":
      return `${needers} ${need} these values; ${by} overwrote them`;
    case "preserved":
      return `${by} overwrote these values; ${needers} ${need} them and the tape ${version.recomputed ? "recomputes them, to stay within its memory_budget" : "kept a copy"}`;
    case "harmless":
      return `${by} overwrote these values; no adjoint needs them: harmless`;
    case "live":
      return version.writtenBy === null ? "nothing on the tape overwrites it" : "the last version: still in memory";
    case "kept":
      return neededBy.length > 0 ? `needed by ${needers}; never overwritten` : "never overwritten";
  }
}

export function launchName(model: TraceModel, index: number): string {
  const launch = model.launch(index);
  return launch ? `launch ${index} (${short(launch.name, 32)})` : `launch ${index}`;
}

export function origin(model: TraceModel, version: Version): string {
  if (version.writtenBy !== null) return `written by ${launchName(model, version.writtenBy)}`;
  return version.version === 0 ? "set before the tape began" : "written outside the tape";
}

/** The lines of a tooltip about a version. */
export function versionLines(model: TraceModel, version: Version): string[] {
  const label = model.array(version.array)?.label ?? "array";
  const lines = [`${short(label, 48)} v${version.version}`, origin(model, version), fate(model, version)];
  if (version.value) lines.push(`‖value‖ ${number(version.value.norm)}`);
  if (version.adjoint) lines.push(`‖adjoint‖ ${number(version.adjoint.norm)}`);
  return lines;
}

export function launchLines(model: TraceModel, launch: Launch, backward: boolean): string[] {
  const lines = [`launch ${launch.index} · ${short(launch.name, 48)}${backward ? " · backward" : ""}`];
  const scopes = model.scopesOf(launch).map((scope) => short(scope.name, 24));
  if (scopes.length > 0) lines.push(scopes.join(" › "));
  if (launch.callSite) lines.push(place(launch.callSite));
  for (const finding of model.findingsOf(launch.index).slice(0, 3)) {
    lines.push(`${SEVERITY_SIGNS[finding.severity]} ${finding.rule} ${short(finding.arrays.join(", "), 40)}`);
  }
  return lines;
}
