"""Summaries are exact about NaN and Inf; repeated sequences are found whole."""

from __future__ import annotations

import math
import time

import numpy as np

from tapedebug.trace import (
    Argument,
    Launch,
    Sequence,
    Summary,
    TapeInfo,
    Trace,
    Version,
    find_sequences,
    sequences_of,
    sequences_within,
    summarise,
)
from tapedebug.trace.model import pack_summary


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


def test_packed_summaries_are_read_as_they_were() -> None:
    few, many = np.array([-4.0, 0.1, 3.0]), np.linspace(0.0, 1.0, 20_000) ** 2
    for values in (few, many, np.array([1.0, math.nan, math.inf]), np.array([math.nan]), np.zeros(0)):
        version = Version(array=0, version=0, written_by=None)
        version.value = pack_summary(summarise(values))
        assert version.value == summarise(values) and version.adjoint is None
    written = Summary(count=2, min=1.0, max=2.0, mean=1.5, norm=2.5)
    assert pack_summary(written) is written  # without a histogram, as some files have it
    apart = summarise(few)
    assert apart.histogram is not None
    apart.histogram.low = -5.0
    assert pack_summary(apart) is apart
    huge = summarise(few)
    huge.count = 2**32
    assert pack_summary(huge) is huge


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
    started = time.process_time()  # processor time, for the machine may be busy
    find_sequences(list(rng.integers(0, 3, 20_000)))
    assert find_sequences("abc" * 30_000) == [Sequence(first=0, length=3, count=30_000)]
    assert time.process_time() - started < 5  # 0.3 s


def loop_trace(rounds: int, *, swap: bool, break_at: int | None = None) -> Trace:
    """`start` writes x, then rounds of `force` (x → f) and `step` (x, f → next x), then `loss`."""
    trace = Trace(name="loop", tape=TapeInfo(id=0, on_overwrite="preserve", launches=0))
    current: dict[int, Version] = {}

    def launch(name: str, reads: list[int], writes: list[int]) -> None:
        index = len(trace.launches)
        args = [
            Argument(name=f"r{array}", array=array, reads=True, read_version=version(array).version)
            for array in reads
        ]
        for array in writes:
            old = version(array)
            current[array] = Version(array=array, version=old.version + 1, written_by=index)
            trace.versions.append(current[array])
            args.append(Argument(name="w", array=array, writes=True, write_version=current[array].version))
        trace.launches.append(Launch(index=index, kind="kernel", kernel=None, name=name, dim=[4], args=args))

    def version(array: int) -> Version:
        if array not in current:
            current[array] = Version(array=array, version=0, written_by=None)
            trace.versions.append(current[array])
        return current[array]

    x, spare, constant, force = 0, 1, 100, 101
    launch("start", [constant], [x])
    for number in range(rounds):
        following = (spare if x == 0 else 0) if swap else number + 1
        launch("force", [constant if number == break_at else x, constant], [force])
        launch("step", [x, force], [following])
        x = following
    launch("loss", [x], [102])
    return trace


def test_swapped_and_distinct_arrays_fold_alike_with_the_first_round() -> None:
    for swap in (True, False):
        assert sequences_of(loop_trace(6, swap=swap)) == [Sequence(first=1, length=2, count=6)]


def test_a_round_with_another_data_flow_is_not_folded_in() -> None:
    assert sequences_of(loop_trace(6, swap=True, break_at=3)) == [
        Sequence(first=1, length=2, count=3),
        Sequence(first=8, length=2, count=2),
    ]


def nested_trace(outer: int, inner: int) -> Trace:
    """Rounds of `round` (x → y), `inner` times `there` (y → z) and `back` (z → y), then `end` (y → x)."""
    chain = [("round", 0, 1), *[("there", 1, 2), ("back", 2, 1)] * inner, ("end", 1, 0)]
    return chain_trace([*chain * outer, ("loss", 0, 3)])


def chain_trace(launches: list[tuple[str, int, int]]) -> Trace:
    """Launches by name, the array that each reads and the one that it writes."""
    trace = Trace(name="chain", tape=TapeInfo(id=0, on_overwrite="preserve", launches=0))
    latest: dict[int, int] = {}
    for index, (name, source, target) in enumerate(launches):
        for array in (source, target):
            if array not in latest:
                latest[array] = 0
                trace.versions.append(Version(array=array, version=0, written_by=None))
        read = Argument(name="x", array=source, reads=True, read_version=latest[source])
        latest[target] += 1
        trace.versions.append(Version(array=target, version=latest[target], written_by=index))
        write = Argument(name="y", array=target, writes=True, write_version=latest[target])
        trace.launches.append(
            Launch(index=index, kind="kernel", kernel=None, name=name, dim=[4], args=[read, write])
        )
    return trace


def test_a_loop_of_loops_begins_where_it_begins() -> None:
    trace = nested_trace(5, 6)
    assert sequences_of(trace) == [Sequence(first=0, length=14, count=5)]
    assert sequences_within(trace, [(0, 14), (14, 14)]) == [
        [Sequence(first=1, length=2, count=6)],
        [Sequence(first=15, length=2, count=6)],
    ]


def test_inner_loops_of_other_lengths_are_loops_of_their_own() -> None:
    one, two = nested_trace(1, 6), nested_trace(1, 4)
    names = [(launch.name, launch.args[0].array, launch.args[1].array) for launch in one.launches[:-1]]
    names += [(launch.name, launch.args[0].array, launch.args[1].array) for launch in two.launches[:-1]]
    assert sequences_of(chain_trace(names)) == [
        Sequence(first=1, length=2, count=6),
        Sequence(first=15, length=2, count=4),
    ]


def test_arrays_that_take_turns_are_there_from_the_first_round() -> None:
    """Three buffers in turn: each round reads two that the loop has not written yet."""
    turns = [("step", k % 3, (k + 1) % 3) for k in range(9)]
    for launch in (trace := chain_trace(turns)).launches:
        number = (launch.index + 2) % 3
        read = max(
            v.version
            for v in [*trace.versions, Version(array=number, version=0, written_by=None)]
            if v.array == number and (v.written_by is None or v.written_by < launch.index)
        )
        launch.args.append(Argument(name="old", array=number, reads=True, read_version=read))
    assert sequences_of(trace) == [Sequence(first=0, length=1, count=9)]


def test_constants_that_differ_are_not_folded_in() -> None:
    assert sequences_of(chain_trace([("layer", 9, 0), *[("layer", 8, 0)] * 4])) == [
        Sequence(first=1, length=1, count=4)
    ]


def test_rounds_of_many_launches_are_found() -> None:
    chain = [("first", 0, 1), *[("middle", 1, 2), ("middle", 2, 1)] * 400, ("last", 1, 0)]
    assert sequences_of(chain_trace(chain * 4)) == [Sequence(first=0, length=802, count=4)]


def test_a_loop_begins_where_its_first_round_does() -> None:
    """Only the first launch of the round reads what was there before."""
    trace = Trace(name="loop", tape=TapeInfo(id=0, on_overwrite="preserve", launches=0))
    version = {"price": 0, "sold": 0}
    writer: dict[tuple[int, int], int | None] = {(0, 0): None, (1, 0): None}
    for index in range(9):
        read, write = (0, 1) if index % 2 == 0 else (1, 0)
        names = ["price", "sold"]
        args = [Argument(name="r", array=read, reads=True, read_version=version[names[read]])]
        if index < 8:
            version[names[write]] += 1
            writer[write, version[names[write]]] = index
            args.append(Argument(name="w", array=write, writes=True, write_version=version[names[write]]))
        name = "loss" if index == 8 else ("demand", "offer")[index % 2]
        trace.launches.append(Launch(index=index, kind="kernel", kernel=None, name=name, dim=[4], args=args))
    trace.versions = [Version(array=a, version=n, written_by=by) for (a, n), by in writer.items()]
    assert sequences_of(trace) == [Sequence(first=0, length=2, count=4)]
