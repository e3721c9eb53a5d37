"""Rules take values and norms from the summaries of a trace, if it has all of them, instead of a replay."""

from __future__ import annotations

from typing import Any

import pytest

import tapedebug as wp
from tapedebug._progress import Progress
from tapedebug.diagnose._diagnose import _context
from tapedebug.diagnose.experiments.adjoint_profile import _overlap, measure
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.trace_analysis.finiteness import adjoints_are_finite, first_nonfinite_value
from tests.autograd import kernels as k

pytestmark = pytest.mark.unoptimized


def context(values: list[float]) -> RuleContext:
    """A tape of squares of squares, with an input that several launches read."""
    x, y, z, loss = k.vector(values), k.vector([0.0] * 3), k.vector([0.0] * 3), k.vector([0.0])
    with wp.Tape() as tape:
        wp.launch(k.square, 3, [x], [y])
        wp.launch(k.square, 3, [y], [z])
        wp.launch(k.total, 3, [z, loss])
        wp.launch(k.total, 3, [x, loss])
    tape.backward(loss)
    return _context(tape, None, None, Progress(False))


def without_summaries(case: RuleContext) -> RuleContext:
    """The same, without what its summaries say."""
    for version in case.trace.versions:
        version.value = version.adjoint = None
    return case


def test_norms_are_those_of_a_replay() -> None:
    case = context([1.0, 2.0, 3.0])
    assert case.replay is not None
    known = measure(case.replay)
    without_summaries(case)
    found = measure(case.replay)
    assert known.gradients == found.gradients and known.losses == found.losses
    for one, other in zip(known.passages, found.passages, strict=True):
        for name in ("read", "written", "incoming", "outgoing", "gathered"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-6), name


def test_the_first_launch_that_writes_a_nonfinite_value_is_known() -> None:
    case = context([1.0, 1e15, 3.0])
    replay: Any = case.replay
    found = first_nonfinite_value(case.trace)
    assert found is not None and found.launch == 1 == replay.first_bad_value()
    without_summaries(case)
    assert first_nonfinite_value(case.trace) is None and replay.first_bad_value() == 1


def test_finite_adjoints_need_no_reverse_pass() -> None:
    case = context([1.0, 2.0, 3.0])
    assert adjoints_are_finite(case.trace)
    replay: Any = case.replay
    assert replay.first_bad_adjoint("versions") is None and replay._single is None
    for version in case.trace.versions:
        summary = version.adjoint
        if summary is not None:
            summary.inf = 1
            version.adjoint = summary
    assert not adjoints_are_finite(case.trace)
    assert replay.first_bad_adjoint("versions") is None and replay._single is not None


def test_arrays_that_share_memory_have_no_norms_of_their_own() -> None:
    case = context([1.0, 2.0, 3.0])
    assert case.replay is not None and not _overlap(case.replay.arrays)
    assert _overlap([*case.replay.arrays, case.replay.arrays[0]])
