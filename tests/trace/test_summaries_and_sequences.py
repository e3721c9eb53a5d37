"""Summaries are exact about NaN and Inf; repeated sequences are found whole."""

from __future__ import annotations

import math
import time

import numpy as np

from tapedebug.trace import Sequence, Summary, find_sequences, summarise


def test_a_summary_counts_what_is_not_finite_and_measures_the_rest() -> None:
    summary = summarise(np.array([[3.0, math.nan, -4.0], [math.inf, -math.inf, math.nan]], dtype=np.float32))
    assert (summary.count, summary.nan, summary.inf) == (6, 2, 2)
    assert (summary.min, summary.max, summary.mean, summary.norm) == (-4.0, 3.0, -0.5, 5.0)
    assert summary.histogram is not None
    assert summary.histogram.counts == [1] + 14 * [0] + [1]


def test_summaries_of_nothing_of_one_value_and_of_huge_values() -> None:
    assert summarise(np.zeros(0)) == Summary(count=0)
    assert summarise(np.array([math.nan])) == Summary(count=1, nan=1)
    one = summarise(np.full(5, 2, dtype=np.int32))
    assert one.histogram is not None
    assert one.histogram.counts == [5] + 15 * [0]
    huge = summarise(np.array([1.7e308, 1.7e308, -1.7e308, -1.7e308]))
    assert (huge.inf, huge.mean) == (0, 0.0)
    assert huge.histogram is not None
    assert sum(huge.histogram.counts) == 4


def test_all_values_are_in_the_histogram() -> None:
    values = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    histogram = summarise(values).histogram
    assert histogram is not None
    assert sum(histogram.counts) == 1000
    assert histogram.counts == np.histogram(values.astype(np.float64), bins=16)[0].tolist()


def test_a_time_loop_is_one_sequence() -> None:
    assert find_sequences("i" + "abc" * 40 + "l") == [Sequence(first=1, length=3, count=40)]


def test_the_shortest_period_wins() -> None:
    assert find_sequences("aaaa") == [Sequence(first=0, length=1, count=4)]
    assert find_sequences("abababab") == [Sequence(first=0, length=2, count=4)]


def test_nothing_repeats_in_a_chain_that_only_looks_alike() -> None:
    assert find_sequences("abcdef") == []
    assert find_sequences("abcacb") == []
    assert find_sequences("") == []


def test_two_loops_are_two_sequences() -> None:
    assert find_sequences("ababab" + "x" + "ccc") == [
        Sequence(first=0, length=2, count=3),
        Sequence(first=7, length=1, count=3),
    ]


def test_long_and_hostile_tapes_are_folded_quickly() -> None:
    rng = np.random.default_rng(1)
    started = time.perf_counter()
    find_sequences(list(rng.integers(0, 3, 20_000)))
    assert find_sequences("abc" * 30_000) == [Sequence(first=0, length=3, count=30_000)]
    assert time.perf_counter() - started < 5
