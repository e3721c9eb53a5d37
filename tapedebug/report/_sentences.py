"""The three sentences at the top of a report: the program, the bug with its effect, the fix."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

Json = dict[str, Any]

TITLES = ("Run", "Result", "Change")
"""The subjects of the sentences, in their order."""
_COMPARED = "finite differences of the loss"
_MINOR = 1e-2  # a gradient that agrees with a larger error is close to zero


def sentences(head: Json) -> list[str]:
    """Return the sentences about one tape, of which `head` is the head of the packed trace."""
    return [_run(head), _result(head), _change(head)]


def compared(
    names: Sequence[str], heads: Sequence[Json], counts: tuple[int, int, int], worst: Json | None = None
) -> list[str]:
    """Return the sentences about two tapes, before and after a change.

    Args:
        names: The names of the two tapes.
        heads: The heads of their packed traces.
        counts: The numbers of findings that are fixed, new, and unchanged.
        worst: The worst finding that is fixed.
    """
    before, after = heads
    gone, new, still = counts
    launches = " and ".join(
        f"{name} ({_plural(head['tape']['launches'], 'launch')}, gradient {head['verdict']})"
        for name, head in zip(names, heads, strict=True)
    )
    left = _change(after).replace("Nothing has to change.", "Nothing is left to change.")
    return [
        f"Two tapes are compared, before and after a change: {launches}.",
        f"Before: {_result(before)} After: {_result(after)}",
        f"{_plural(gone, 'finding')} gone{_named(worst)}, {new} new, {still} still there. {left}",
    ]


def _named(finding: Json | None) -> str:
    """Return `` (the worst: overwrite of x, x_next at net.py:177)``."""
    if finding is None:
        return ""
    of = f" of {', '.join(finding['arrays'][:4])}" if finding["arrays"] else ""
    at = finding["call_site"] or finding["location"]
    return f" (the worst: {finding['rule']}{of}{f' at {_place(at)}' if at else ''})"


def _run(head: Json) -> str:
    launches = _plural(head["tape"]["launches"], "launch")
    kernels = head["kernels"]
    of = ""
    if kernels:
        files = list(dict.fromkeys(_file(kernel["file"]) for kernel in kernels))
        where = f"{files[0]} and {_plural(len(files) - 1, 'other file')}" if len(files) > 1 else files[0]
        of = f" of {_plural(len(kernels), 'kernel')} from {where}"
    backward, arrays = head["backward"], head["arrays"]
    loss = None if backward["loss"] is None else arrays[backward["loss"]]["label"]
    if backward["ran"]:
        reverse = "its reverse pass ran" + (f" from {loss}" if loss else "")
    else:
        reverse = "no reverse pass was run"
    return f"{_tape(head)} recorded {launches}{of}; {reverse}."


def _tape(head: Json) -> str:
    """Return the name of a tape for the beginning of a sentence."""
    name = head["name"]
    if name in ("", "tape"):
        return f"Tape {head['tape']['id']}"
    return f"T{name[1:]}" if name.startswith("tape ") else f"The tape \u201c{name}\u201d"


def _result(head: Json) -> str:
    verdict, summary = head["verdict"], _stopped(head["coverage"]["summary"])
    if verdict == "WRONG":
        return _wrong(head) or f"The gradient is wrong: {summary}"
    if verdict == "AGREE":
        checks = _whole(head, "AGREE")
        worst = max((_number(check["max_rel_error"]) for check in checks), default=0.0)
        to = f"to a relative error of {worst:.1g}"
        if worst > _MINOR:  # near a stationary point, where the size of the gradient is no suitable scale
            to = "as far as float32 resolves it near a stationary point"
        agrees = f"{_gradient(checks)} with {_COMPARED} in float64, {to}"
        found = " and ".join(_counted(head["findings"]))
        if found:
            return f"{agrees}. What else was found: {found}."
        return f"Nothing was found to be wrong: {_lower(agrees)}."
    if verdict == "NOT CHECKED":
        return f"The gradient was not checked: {summary}"
    text = {
        "KINK": "The loss has no derivative here: its slopes on both sides differ, so no gradient is right",
        "NONDETERMINISTIC": "Two runs on the same values differ, so the gradient could not be compared",
    }.get(verdict, "The comparison cannot decide whether the gradient is right")
    return f"{text}: {summary}"


def _wrong(head: Json) -> str:
    """Return the error of the worst gradient; empty if no pair of the whole tape was measured."""
    checks = _whole(head, "WRONG")
    if not checks:
        return ""
    worst = max(checks, key=lambda check: _size(check["max_rel_error"]))
    off = _off(_number(worst["max_rel_error"]))
    if len(checks) == 1:
        return f"The gradient of {worst['output']} with respect to {worst['input']} is wrong: it is {off}."
    inputs = [check["input"] for check in checks]
    return (
        f"The gradients of {worst['output']} with respect to {_listed(inputs)} are wrong; the worst, that of "
        f"{worst['input']}, is {off}."
    )


def _gradient(checks: list[Json]) -> str:
    if not checks:
        return "The gradient agrees"
    inputs = _listed([check["input"] for check in checks])
    if len(checks) == 1:
        return f"The gradient of {checks[0]['output']} with respect to {inputs} agrees"
    return f"The gradients of {checks[0]['output']} with respect to {inputs} agree"


def _change(head: Json) -> str:
    findings = head["findings"]
    serious = [finding for finding in findings if finding["severity"] != "info"]
    if not serious:
        if head["verdict"] == "AGREE":
            return "Nothing has to change."
        if head["verdict"] == "NOT CHECKED" and not findings:
            return "A diagnosis says what to change: wp.diagnose(tape, loss=loss)."
        return "No finding says what to change."
    worst = min(serious, key=lambda finding: finding["severity"] != "error")
    where = _where(worst)
    fix = _stopped(worst["fix"] or f"see the finding {worst['rule']}")
    text = f"{where}, {_lower(fix)}" if where else f"{fix[:1].upper()}{fix[1:]}"
    more = " and ".join(_counted([item for item in serious if item is not worst], "more "))
    return text + (f" Then look at {more}." if more else "")


def _where(finding: Json) -> str:
    """Return ``At net.py:177 (launch) or net.py:107 (kernel integrate)``."""
    call, line = finding["call_site"], finding["location"]
    if call and line and line != call:
        named = f" {line['function']}" if line["function"] else ""
        return f"At {_place(call)} (launch) or {_place(line)} (kernel{named})"
    at = call or line
    return f"At {_place(at)}" if at else ""


def _place(at: Json) -> str:
    return f"{_file(at['file'])}:{at['line']}"


def _lower(text: str) -> str:
    """Return a sentence with a lower-case first letter, to append it; a name in capitals is unchanged."""
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def _counted(findings: list[Json], more: str = "") -> Iterator[str]:
    """Yield the numbers of errors and of warnings, in words."""
    for kind in ("error", "warning"):
        count = sum(finding["severity"] == kind for finding in findings)
        if count:
            yield _plural(count, more + kind)


def _whole(head: Json, verdict: str) -> list[Json]:
    return [check for check in head["checks"] if check["launch"] is None and check["verdict"] == verdict]


def _off(relative: float) -> str:
    if not math.isfinite(relative):
        return "zero or not finite where the true one is not"
    if relative >= 10:
        return f"off by {relative:.3g} times its size"
    return f"off by {100 * relative:.0f} %" if relative >= 0.1 else f"off by {100 * relative:.2g} %"


def _number(value: float | str | None) -> float:
    """Return a number of a trace as a float: JSON has no NaN and no infinities, which are text there."""
    return math.nan if value is None else float(value)


def _size(value: float | str | None) -> float:
    found = _number(value)
    return math.inf if math.isnan(found) else found


def _file(path: str) -> str:
    return PurePath(path.replace("\\", "/")).name or path


def _stopped(text: str) -> str:
    """Return a text with a full stop at its end."""
    text = text.strip()
    return text if text[-1:] in (".", "!", "?") else f"{text}."


def _plural(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}{'es' if word.endswith('ch') else 's'}"


def _listed(names: list[str], most: int = 4) -> str:
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
