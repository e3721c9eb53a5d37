"""The suite at sizes of nothing: every case is right on ours, by hand and on Warp, and what it says holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks import __main__ as command
from tests.benchmarks import bound, busy, by_hand, launching, nets, processes, suite
from tests.benchmarks.cases import CASES, Case
from tests.benchmarks.engines import NUMBA, OURS, WARP, installed
from tests.benchmarks.figures import Figure, Figures, compared
from tests.benchmarks.goals import Outcome, outcomes
from tests.benchmarks.suite import Engines
from tests.benchmarks.timing import Run, Timed, duration

NAMES = list(CASES)


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Engines:
    return Engines(tmp_path_factory.mktemp("ours"), [NUMBA])


@pytest.fixture(scope="module")
def with_warp(tmp_path_factory: pytest.TempPathFactory) -> Engines:
    pytest.importorskip("warp")
    return Engines(tmp_path_factory.mktemp("both"), [WARP])


@pytest.mark.parametrize("name", NAMES)
def test_ours_is_what_numba_by_hand_says(name: str, engines: Engines) -> None:
    """Forward, backward, the adjoint alone and, by the dot product, the tangent."""
    case = CASES[name]
    setup = case.make(case.tiny)
    launched = engines.bound(setup)
    hands = bound.by_hands(setup, parallel=False)
    assert suite.check(name, case, launched, hands, None) == {}


@pytest.mark.peer
@pytest.mark.parametrize("name", NAMES)
def test_warp_says_the_same_but_for_what_it_reverses_wrongly(name: str, with_warp: Engines) -> None:
    case = CASES[name]
    setup = case.make(case.tiny)
    launched = with_warp.bound(setup)
    notes = suite.check(name, case, launched, bound.by_hands(setup, parallel=False), None)
    assert set(notes) == ({WARP} if case.wrong else set())


@pytest.mark.peer
@pytest.mark.parametrize("name", NAMES)
def test_jax_says_the_same(name: str) -> None:
    pytest.importorskip("jax")
    from tests.benchmarks import in_jax

    case = CASES[name]
    setup = case.make(case.tiny)
    theirs = in_jax.InJax(setup)
    hands = bound.by_hands(setup, parallel=False)
    for part, ways in hands.items():
        bound.compare(name, theirs.results(part), ways[f"{NUMBA}, serial"].results(), case.tolerance)
    tangent = theirs.results("tangent")
    forward, back, size = bound.dot_products(setup, tangent, hands["backward"][f"{NUMBA}, serial"].results())
    assert abs(forward - back) <= 10 * case.tolerance * size


@pytest.mark.slow
@pytest.mark.parametrize("name", ["deposit", "matvec"])
def test_parallel_ways_are_what_serial_ones_are(name: str) -> None:
    """Those that are written otherwise; the suite compares all before it times them."""
    case = CASES[name]
    setup = case.make(case.tiny)
    for part, ways in bound.by_hands(setup).items():
        first, *others = [way.results() for way in ways.values()]
        for other in others:
            bound.compare(f"{name} {part}", other, first, case.tolerance)


def differences(way: bound.ByHand, setup: bound.Setup, name: str) -> tuple[float, float]:
    """Along one input's tangent: how far `Jᵀ seed · t` is from a difference of forward runs; its size."""
    gradient = way.results()[name].astype(np.float64)
    step = 1e-3
    values = []
    for sign in (1.0, -1.0):
        moved = setup.arguments[name] + np.float32(sign * step) * setup.tangents[name]
        arguments = {**setup.arguments, name: moved}
        other = dataclasses.replace(setup, arguments=arguments)
        forward = by_hand.ways(setup.kernel, "forward", parallel=False)[0]
        out = bound.ByHand(forward, other, "forward").results()[setup.writes]
        values.append(float((out.astype(np.float64) * setup.seed).sum()))
    terms = gradient * setup.tangents[name]
    return float(terms.sum()) - (values[0] - values[1]) / (2 * step), float(np.sqrt((terms**2).sum()))


@pytest.mark.parametrize("name", NAMES)
def test_adjoints_by_hand_are_derivatives_of_what_is_forward_by_hand(name: str) -> None:
    """The reference is no copy of ours."""
    case = CASES[name]
    setup = case.make(case.tiny)
    way = bound.ByHand(by_hand.ways(setup.kernel, "backward", parallel=False)[0], setup, "backward")
    for read in setup.reads:
        if (name, read) != ("deposit", "p"):  # particles leave their cells
            error, size = differences(way, setup, read)
            assert abs(error) < 2e-2 * size, read


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All cases at their tiny sizes, one run a turn."""
    tiny = {n: dataclasses.replace(case, sizes=(case.tiny,) * 3) for n, case in CASES.items()}
    monkeypatch.setattr(suite, "CASES", tiny)
    monkeypatch.setattr("tests.benchmarks.timing.LONGEST", 0.0)
    monkeypatch.setattr("tests.benchmarks.timing.SETTLE", 0.0)
    monkeypatch.setattr(by_hand, "ways", lambda *a, parallel=True: ways(*a, parallel=False))
    yield


ways = by_hand.ways


@pytest.mark.usefixtures("small")
def test_the_command_measures_prints_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.json"
    options = ["--only", "sum", "--sizes", "large", "--rounds", "1", "--peers", "numba", "--json", str(path)]
    assert command.main(options) == 0
    said = capsys.readouterr().out
    assert "sum forward, 257 floats" in said
    assert "goals hold" in said
    figures = Figures.load_from(path)
    assert figures.largest("sum", "adjoint")[OURS].count == 1
    assert set(figures.largest("sum", "tangent")) == {OURS}
    assert command.main(["compare", str(path), str(path)]) == 0
    said = capsys.readouterr().out
    assert "sum forward, 257 floats" in said
    assert said.splitlines()[-1] == "other engines, which are the same: ×1.00 in the mean"


def test_engines_that_differ_are_not_timed(engines: Engines) -> None:
    case = CASES["double"]
    setup = case.make(case.tiny)
    wrong = dataclasses.replace(setup, arguments={**setup.arguments, "x": setup.arguments["x"] + 1.0})
    launched = engines.bound(wrong)
    with pytest.raises(bound.Different, match=r"^double forward, tapedebug: y differs by \d"):
        suite.check("double", case, launched, bound.by_hands(setup, parallel=False), None)


def test_throws_of_the_net_are_what_numba_by_hand_says(engines: Engines) -> None:
    nets.check(nets.throws(engines.net, nets.TINY, parallel=False))


@pytest.mark.peer
def test_throws_of_the_net_are_what_warp_says(with_warp: Engines) -> None:
    found = nets.throws(with_warp.net, nets.TINY, parallel=False)
    assert WARP in found
    nets.check(found)


def test_launches_are_recorded_and_reversed(engines: Engines) -> None:
    things = list(launching.timed(engines.kernels, 50, 5))
    for thing in things:
        thing.in_turns(1)
    assert [thing.part for thing in things] == [
        "launch", "taped launch", "recording", "backward, first", "backward, again"
    ]  # fmt: skip
    assert {thing.size for thing in things} == {"5 launches, each", "50 launches, each"}
    assert all(min(thing.seconds[OURS]) < 0.01 for thing in things)


def test_launches_are_timed_beside_busy_processes(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy, "SUBJECTS", [("double", 100)])
    figures = Figures({})
    for thing in busy.measured(engines, None, seconds=0.01):
        figures.add(thing)
    (what, size, idle, beside), (other, *_) = busy.pairs(figures)
    assert (what, size, other) == ("double forward", "100 floats", "double backward")
    assert {OURS, busy.LOOP} <= idle.keys() & beside.keys()
    assert idle[OURS].median / 5 < idle[busy.LOOP].median < idle[OURS].median * 5
    assert len(command.beside_others(figures).splitlines()) >= 5


def test_what_takes_as_long_as_a_loop_beside_busy_processes_does_not_wait() -> None:
    def found(worst: float, loop: float) -> list[Outcome]:
        alone = dataclasses.replace(figure("busy", f"x forward, {busy.IDLE}", OURS, 1.0), max=1.0)
        beside = figure("busy", f"x forward, {busy.BUSY}", OURS, 1.0)
        others = [
            dataclasses.replace(beside, max=worst),
            dataclasses.replace(beside, engine=busy.LOOP, max=loop),
        ]
        return outcomes(Figures({}, [], [alone, *others]))

    assert [o.holds for o in found(19.0, 1.0) + found(21.0, 1.0) + found(99.0, 50.0)] == [True, False, True]


@pytest.mark.slow
def test_processes_are_timed_cold_and_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "installed", lambda engine: engine == OURS)
    found = {thing.part: thing.seconds[OURS] for thing in processes.measured(2, 1)}
    assert {part.partition(":")[0] for part in found} == {
        f"{state}, {kind}" for state in ("cold", "warm") for kind in ("forward", "forward and adjoint")
    }
    assert found["warm, forward: its launches"] < found["warm, forward"]
    assert (
        found["cold, forward and adjoint: processor time"]
        > found["warm, forward and adjoint: processor time"]
    )


def test_turns_alternate_and_the_first_round_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.benchmarks.timing.LONGEST", 0.0)
    order: list[str] = []
    thing = Timed("c", "p", "s", {name: Run(lambda name=name: order.append(name)) for name in "ab"})
    thing.in_turns(2)
    assert "".join(order) == "baabba"
    assert {name: len(seconds) for name, seconds in thing.seconds.items()} == {"a": 2, "b": 2}


def test_seconds_are_those_of_one_operation_and_what_is_before_is_not_timed() -> None:
    import time

    thing = Timed("c", "p", "s", {"a": Run(lambda: None, before=lambda: time.sleep(0.06), per=10)})
    thing.turn("a")
    assert thing.seconds["a"][0] < 0.001


def figure(case: str, part: str, engine: str, seconds: float, median: float | None = None) -> Figure:
    return Figure(case, part, "many", engine, seconds, median or seconds, 9.0, 3, True)


def test_a_goal_is_missed_where_both_ratios_miss_it() -> None:
    assert Outcome("w", (24.0, 25.0), 25.0, True).holds
    assert not Outcome("w", (24.0, 24.9), 25.0, True).holds
    assert Outcome("w", (1.2, 1.15), 1.15, False).holds
    assert not Outcome("w", (1.2, 1.16), 1.15, False).holds


def test_goals_are_of_what_was_measured() -> None:
    figures = Figures({}, [], [
        figure("heat", "forward", OURS, 1.0), figure("heat", "forward", WARP, 12.5),
        figure("heat", "forward", "numba, serial", 2.0), figure("heat", "forward", "numba, prange", 0.5),
    ])  # fmt: skip
    assert [outcome.row() for outcome in outcomes(figures)] == [
        ("heat forward: Warp ÷ ours", "12.50", "12.50", "≥ 12.00", "holds"),
        ("heat forward: ours ÷ numba, prange", "2.00", "2.00", "≤ 1.15", "MISSED"),
        ("heat forward, many: tapedebug ÷ Warp", "0.08", "0.08", "≤ 1.05", "holds"),
    ]


def test_seconds_are_goals_too() -> None:
    figures = Figures({}, [], [figure("launching", "taped launch", OURS, 2.5e-6, 3.5e-6)])
    assert [outcome.row() for outcome in outcomes(figures)] == [
        ("launching: taped launch", "2.50 µs", "3.50 µs", "≤ 3.00 µs", "holds"),
    ]


def test_two_commits_are_compared_with_the_drift_of_the_machine() -> None:
    before = Figures({}, [], [figure("a", "forward", OURS, 1.0), figure("a", "forward", WARP, 1.0)])
    after = Figures({}, [], [figure("a", "forward", OURS, 3e-3), figure("a", "forward", WARP, 0.5)])
    table, drift = compared(before, after)
    assert table.splitlines()[1].split() == [
        "a", "forward,", "many", "1.00", "s", "3.00", "ms", "0.00", "0.00", "faster"
    ]  # fmt: skip
    assert drift == "other engines, which are the same: ×0.50 in the mean"
    again, _ = compared(after, before)
    assert again.splitlines()[1].endswith("slower")


def test_durations_have_three_digits() -> None:
    said = [duration(seconds) for seconds in (2.0, 0.0123, 1.5e-4, 2e-6, 3.4e-8)]
    assert said == ["2.00 s", "12.3 ms", "150 µs", "2.00 µs", "34.0 ns"]


def test_every_case_has_three_sizes_that_grow() -> None:
    for case in CASES.values():
        assert isinstance(case, Case)
        assert case.tiny < case.sizes[1] < case.sizes[2]
        assert case.sizes == tuple(sorted(case.sizes))
    assert installed(OURS)
