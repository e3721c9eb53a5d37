"""A 1 % error in the derivative of each operation, by each operand in turn, is found where it is."""

from __future__ import annotations

import pytest

from tapedebug.autograd import GradcheckResult
from tapedebug.lang.rules import RULES
from tests.gallery import injection
from tests.gallery.injection import FLAT, SMOOTH, SUBJECTS, Subject, check, injected, places
from tests.lang import cases
from tests.sweeps import sample_of


def wrong(result: GradcheckResult) -> set[tuple[str, str]]:
    """The inputs of the pairs that are wrong, and what is."""
    return {(pair.input, pair.check) for pair in result.pairs if pair.verdict == "WRONG"}


@pytest.mark.parametrize("subject", sample_of(SMOOTH, first=1, step=12), ids=str)
def test_one_percent_is_found(subject: Subject) -> None:
    right = check(subject)
    assert right, right.summary()
    for place in places(subject):
        with injected(subject, place, into="adjoint"):
            result = check(subject)
        assert wrong(result) == {(f"x{place}", "adjoint")}, result.summary()
        failing = result.failing
        assert failing is not None and failing.worst is not None
        assert failing.worst.ad == pytest.approx(
            (1 + injection.ERROR) * failing.worst.fd, rel=subject.tolerances["rtol"]
        )
        assert not subject.is_rule or result.dot_product.message, "adjoint and tangent differ"


@pytest.mark.parametrize("subject", [s for s in SMOOTH if s.is_rule], ids=str)
def test_one_percent_in_a_tangent_is_found(subject: Subject) -> None:
    for place in places(subject):
        with injected(subject, place, into="tangent"):
            result = check(subject, check_forward_ad=True)
        assert wrong(result) == {(f"x{place}", "tangent")}, result.summary()
        assert result.dot_product.message.startswith("dot-product test: ⟨w, J v⟩ = ")


def test_no_operation_is_left_out() -> None:
    assert all(places(subject) for subject in SMOOTH)
    assert len(SMOOTH) + len(FLAT) == len(SUBJECTS)
    left_out = set(RULES) - {subject.name for subject in SUBJECTS if subject.is_rule}
    assert left_out <= cases.INTEGER_ONLY | cases.INTERNAL
    # No program calls the rules that decompositions are made of; `test_repeated_singular_values` has those.
    assert not any(RULES[name].differentiable for name in left_out - cases.INTERNAL)


def test_at_the_default_tolerance_one_percent_is_what_was_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(injection, "TOLERANCES", {})
    (subject,) = [subject for subject in SMOOTH if str(subject) == "mul-ss"]
    with injected(subject, 0, into="adjoint"):
        assert check(subject)
