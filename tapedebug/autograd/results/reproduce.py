"""`GradcheckResult.reproduce`: write or run a script that reproduces one failure."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._atomic import is_special, write_whole
from tapedebug._dataclass import dataclass
from tapedebug._errors import GradcheckError
from tapedebug.autograd.finite_diff.verdict import VERDICTS
from tapedebug.autograd.subjects.repro_script import ReproScript, Writer

if TYPE_CHECKING:
    from tapedebug.autograd.results.gradcheck_result import GradcheckResult
    from tapedebug.autograd.results.pair_result import PairResult

MANY = 16  # launches whose scripts go along


@dataclass(frozen=True)
class Text:
    """A script that was written before its result was sent to another process."""

    text: str

    def __call__(self) -> str:
        """Return the text."""
        return self.text


def reproduce(result: GradcheckResult, pair: PairResult | None, path: str | os.PathLike[str] | None) -> str:
    """See `GradcheckResult.reproduce`."""
    pair = pair or _worst(result) or next(iter(result.pairs), None)
    if pair is None:
        raise GradcheckError("no script can be written for a check without pairs")
    index = next((i for i, own in enumerate(result.pairs) if own is pair), None)
    if index is None:
        index = next((i for i, own in enumerate(result.pairs) if own == pair), None)
    if index is None:
        raise GradcheckError(
            f"no script can be written: {pair.output} with respect to {pair.input} is no pair of this result",
            hint="choose one of result.pairs",
        )
    if index not in result.scripts:
        raise GradcheckError(_missing(pair))
    script = result.scripts[index]
    text = script()
    if path is not None:
        _write(Path(path), script, text)
    return text


def _worst(result: GradcheckResult) -> PairResult | None:
    """Return the worst pair with a script; the worst of all if none has one."""
    order = sorted(
        (number for number, pair in enumerate(result.pairs) if pair.verdict != "AGREE"),
        key=lambda number: (number not in result.scripts, -VERDICTS.index(result.pairs[number].verdict)),
    )
    return result.pairs[order[0]] if order else None


def _missing(pair: PairResult) -> str:
    if pair.launch is None and pair.subject in {"the whole tape", "tape"}:
        return (
            "no script can be written for the whole tape: an end-to-end check rests on all launches and on "
            "what was between them; gradcheck_tape(tape) checks launches that can be shown alone"
        )
    return (
        f"no script can be written for {pair.subject}: only kernels, launches of kernels and functions can "
        "be shown alone, as long as the result has not been read from data (results that were pickled keep "
        f"the scripts of {MANY} launches)"
    )


def _write(path: Path, script: Callable[[], str], text: str) -> None:
    if isinstance(script, ReproScript) and script.arrays and not is_special(path):
        text = script(data_beside=True)
        data = io.BytesIO()
        arrays: dict[str, Any] = dict(script.arrays)
        np.savez_compressed(data, **arrays)
        write_whole(path.with_suffix(".npz").absolute(), data.getvalue())
    write_whole(path.absolute(), text)


def portable(result: GradcheckResult) -> dict[int, Callable[[], str]]:
    """Return the scripts of a result that are pickled: those of a few launches, failing pairs first.

    Writing the script of a launch replays its tape, which takes too long for all launches of a long tape.
    """
    found: dict[int, Callable[[], str]] = {}
    writers: list[Writer] = []
    for index in sorted(result.scripts, key=lambda index: (result.pairs[index].verdict == "AGREE", index)):
        script = result.scripts[index]
        if isinstance(script, ReproScript):
            if not any(script.writer is known for known in writers):
                if len(writers) == MANY:
                    continue
                writers.append(script.writer)
            found[index] = script
        elif isinstance(script, Text):
            found[index] = script
        elif len(found) < MANY:
            with contextlib.suppress(GradcheckError):
                found[index] = Text(script())
    return dict(sorted(found.items()))
