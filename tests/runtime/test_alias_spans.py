"""Memory cells that share elements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tapedebug.runtime.memory.alias_spans import (
    AliasSpan,
    alias_span,
    arrangement,
    contiguous,
    overlapping_pairs,
)


def of(array: np.ndarray, name: int = 0, item: int = 0) -> AliasSpan:
    """The memory of a NumPy array; with `item`, of that many bytes an element."""
    return alias_span(("value", name), array.ctypes.data, array.shape, array.strides, item or array.itemsize)


def meet(one: AliasSpan, other: AliasSpan) -> bool:
    return bool(list(overlapping_pairs([one, other])))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (np.s_[:10], np.s_[10:], False),
        (np.s_[:11], np.s_[10:], True),
        (np.s_[::2], np.s_[1::2], False),
        (np.s_[::2], np.s_[::2], True),
        (np.s_[::2], np.s_[1::3], True),
        (np.s_[::4], np.s_[2::4], False),
        (np.s_[::-1], np.s_[19:], True),
        (np.s_[9::-1], np.s_[10:], False),
        (np.s_[:0], np.s_[:], False),
    ],
)
def test_views_of_one_array(first, second, expected):
    a = np.zeros(20, np.float32)
    assert meet(of(a[first], 0), of(a[second], 1)) is expected
    assert meet(of(a[second], 1), of(a[first], 0)) is expected


def test_nothing_is_said_to_be_apart_that_is_not():
    """Against NumPy's exact answer, on random views."""
    rng = np.random.default_rng(0)
    a = np.zeros((12, 16), np.float32)
    together = 0
    for _ in range(400):
        views = []
        for _ in range(2):
            low = rng.integers(0, 8, 2)
            step = rng.integers(1, 4, 2) * rng.choice([-1, 1], 2)
            rows, columns = (
                np.s_[lo::st] if st > 0 else np.s_[: max(lo - 1, 0) : st]
                for lo, st in zip(low, step, strict=True)
            )
            views.append(a[rows, columns])
        exact = np.shares_memory(*views)
        together += exact
        assert meet(of(views[0], 0), of(views[1], 1)) or not exact
    assert 50 < together < 400


def test_fields_of_structs():
    kind = np.dtype([("a", np.float32), ("b", np.float32, 3), ("c", np.int32)])
    many = np.zeros((4, 5), kind)
    fields = [of(many["a"], 0), of(many["b"][..., 0], 1, item=12), of(many["c"], 2)]
    assert not list(overlapping_pairs(fields))
    wide = of(many["b"][..., 0], 3, item=16)
    assert {tuple(sorted((a.place[1], b.place[1]))) for a, b in overlapping_pairs([*fields, wide])} == {
        (1, 3),
        (2, 3),
    }


def test_elements_that_are_one():
    assert not of(np.zeros((3, 4))).folded
    assert not of(np.zeros((3, 4)).T).folded
    assert of(np.broadcast_to(np.zeros(4), (3, 4))).folded
    windows = np.lib.stride_tricks.sliding_window_view(np.zeros(9), 3)
    assert of(windows).folded
    assert not of(windows[:1]).folded


def test_the_very_same_view():
    a = np.zeros((4, 4), np.float32)
    assert of(a).same(of(a, 1))
    assert not of(a).same(of(a.T, 1))
    assert not of(a).same(of(a[1:], 1))


def test_contiguous_strides():
    for shape in itertools.product((1, 2, 5), repeat=3):
        assert contiguous(shape, 4) == np.zeros(shape, np.float32).strides


def test_arrangements_are_told_apart():
    """The same where arrays lie elsewhere, another where they meet in another way."""
    spans = [(0, 100), (0, 100), (-50, 50)]
    assert arrangement((1000, 2000, 3000), spans) == ()
    assert arrangement((2000, 1000, 5000), spans) == ()
    assert arrangement((1000, 1100, 1250), spans) == ()
    same = arrangement((1000, 1000, 3000), spans)
    assert same == (((0, 0), (1, 0)),) == arrangement((7000, 7000, 3000), spans)
    after = arrangement((1000, 1050, 3000), spans)
    before = arrangement((1050, 1000, 3000), spans)
    assert len({same, after, before, arrangement((1000, 1051, 3000), spans)}) == 4
    chained = arrangement((1000, 1080, 1200), spans)
    assert chained == (((0, 0), (1, 80), (2, 200)),)
    two = arrangement((1000, 5000, 1060, 5010), [*spans, (0, 10)])
    assert two == (((0, 0), (2, 60)), ((1, 0), (3, 10)))
    assert arrangement((1000, 1000), [(0, 100), (0, 0)]) == ()
    assert arrangement((0, 0), [(0, 100), (0, 100)]) == ()


def test_what_is_not_there_meets_nothing():
    a = np.zeros(4, np.float32)
    absent = alias_span(("value", 1), 0, (2**40,), (4,), 4)
    assert not meet(of(a), absent)
