"""Errors that AGREE excludes: planted errors, those found, and claims that do not exceed them."""

from __future__ import annotations

import dataclasses

import pytest

from tests.gallery import detection
from tests.gallery.detection import END_TO_END, ERRORS, HOW, KINDS, SIZES, WHERE, Planted, Said, kept
from tests.sweeps import sample_of

SOONER = [
    Planted(kind, where, size, error)
    for kind in KINDS
    for where, size, error in [
        ("everywhere", 400, 1e-3), ("branch", 16, 1e-4), ("thread", 400, 1e-2), ("thread", 10_000, 1e-3),
        ("entry", 400, 1e-5), ("launch", 16, 1e-2), ("launch", 16, 1e-5), ("thread", 400, 0.0),
    ]
]  # fmt: skip


def key(result: Said) -> tuple[object, ...]:
    return result.kind, result.where, result.size, result.error, result.how


def test_the_page_is_what_was_measured() -> None:
    written = detection.PAGE.read_text(encoding="utf-8")
    assert written == detection.page(), "python -m tests.gallery.detection --page writes it anew"


def test_everything_was_measured() -> None:
    wanted = {
        (it.kind, it.where, it.size, it.error, how)
        for it in detection.planted()
        for how in HOW
        if it.is_for(how)
    }
    assert {key(result) for result in kept()} == wanted
    assert len(wanted) > len(KINDS) * len(WHERE) * len(SIZES) * len(ERRORS)


def test_no_claim_is_more_precise_than_the_truth() -> None:
    untrue = [r for r in kept() if r.claimed is not None and not r.claimed >= r.true]
    assert untrue == []
    assert sum(r.claimed is not None for r in kept()) >= 50


def test_nothing_that_is_found_claims_to_agree() -> None:
    assert [r for r in kept() if r.verdict != "AGREE" and r.claimed is not None] == []


def test_what_the_page_excludes_is_excluded() -> None:
    """A gradient by hand, end to end: errors from 1e-5 on are found wherever float32 can hold them."""
    missed = [r for r in kept() if r.error and r.verdict == "AGREE" and r.how in END_TO_END]
    assert [r for r in missed if r.kind == "func_grad" and r.where != "launch"] == []
    # One launch of 100 moves each entry by 1.5 % of the launch's own error; the other errors are as small.
    assert [r for r in missed if r.true > 2e-6] == []
    assert [r for r in kept() if not r.error and r.verdict != "AGREE"] == []


def test_single_kernels_find_what_their_tolerances_exclude() -> None:
    alone = [r for r in kept() if r.error and r.how not in END_TO_END]
    assert [r for r in alone if r.error >= 0.1 and r.verdict != "WRONG"] == []
    assert [r for r in alone if r.how == "tight" and r.error >= 1e-3 and r.verdict != "WRONG"] == []


@pytest.mark.parametrize(
    "it", sample_of(SOONER, first=0, step=3), ids=lambda it: f"{it.kind}-{it.where}-{it.size}-{it.error:g}"
)
def test_what_was_kept_is_what_checks_say_now(it: Planted) -> None:
    before = {key(result): result for result in kept()}
    for now in detection.said(it):
        then = before[key(now)]
        assert now.verdict == then.verdict, now
        assert (now.claimed is None) == (then.claimed is None), now
        assert now.claimed is None or now.claimed >= now.true, now
        assert now.true == pytest.approx(then.true, rel=0.5)


def test_an_untrue_claim_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    worse = tuple(dataclasses.replace(r, true=r.true + 1e-3) for r in kept())
    monkeypatch.setitem(globals(), "kept", lambda: worse)
    with pytest.raises(AssertionError):
        test_no_claim_is_more_precise_than_the_truth()
