"""The suite at sizes of nothing: every case is right on ours, by hand and on Warp, and what it says holds."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tapedebug
from tests.benchmarks import __main__ as command
from tests.benchmarks import bound, busy, by_hand, jacobians, launching, nets, page, processes, suite, timing
from tests.benchmarks.cases import CASES, Case
from tests.benchmarks.engines import ALONE, NUMBA, OURS, WARP, installed
from tests.benchmarks.figures import Figure, Figures, compared
from tests.benchmarks.goals import Outcome, outcomes, rows
from tests.benchmarks.suite import Engines
from tests.benchmarks.timing import Run, Timed, duration, nothing
from tests.sweeps import sample_of

NAMES = list(CASES)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    yield
    tapedebug.config.num_threads = None


@pytest.fixture
def no_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time without garbage collections: one of all that a session has loaded takes half a second."""
    monkeypatch.setattr(timing, "gc", SimpleNamespace(collect=nothing, freeze=nothing, unfreeze=nothing))


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
@pytest.mark.sweep
@pytest.mark.parametrize("name", sample_of(["matvec", "deposit"], first=0, step=2))
def test_parallel_ways_are_what_serial_ones_are(name: str) -> None:
    """Kernels that are written differently; the suite compares all before it times them."""
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


@pytest.mark.parametrize("part", ["forward", "backward"])
def test_serial_and_parallel_ways_do_not_share_a_cache_entry(part: str) -> None:
    """Numba's cache finds machine code by a function's name and line, and does not look at `parallel`."""
    found = by_hand.ways("heat", part)
    assert {way.name for way in found} == {"serial", "prange"}
    names = {(way.call.py_func.__qualname__, way.call.py_func.__code__.co_firstlineno) for way in found}
    assert len(names) == len(found)


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


@pytest.mark.usefixtures("small", "no_collections")
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


@pytest.mark.usefixtures("no_collections")
def test_launches_are_recorded_and_reversed(engines: Engines) -> None:
    things = list(launching.timed(engines.kernels, 50, 5))
    for thing in things:
        thing.in_turns(1)
    assert [(thing.part, thing.size) for thing in things] == [
        *[("step of a loop", f"{count} launches") for count in (2, 10, 100)],
        ("launch", "5 launches, each"),
        ("taped launch", "5 launches, each"),
        ("recording", "50 launches, each"),
        ("backward, first", "50 launches, each"),
        ("backward, like the last", "50 launches, each"),
        ("recording beside a kept tape", "50 launches, each"),
        ("backward of a kept tape", "50 launches, each"),
        ("backward, again", "50 launches, each"),
    ]
    assert all(min(thing.seconds[OURS]) < 0.01 for thing in things)


@pytest.mark.usefixtures("no_collections")
def test_launches_are_timed_beside_busy_processes(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy, "SUBJECTS", [("double", 100)])
    monkeypatch.setattr(busy, "spinning", partial(busy.spinning, 1))  # other tests run beside this one
    figures = Figures({})
    for thing in busy.measured(engines, None, seconds=0.01):
        figures.add(thing)
    (what, size, idle, beside), (other, *_) = busy.pairs(figures)
    assert (what, size, other) == ("double forward", "100 floats", "double backward")
    assert {OURS, busy.LOOP} <= idle.keys() & beside.keys()
    assert idle[OURS].median / 20 < idle[busy.LOOP].median < idle[OURS].median * 20
    assert len(command.beside_others(figures).splitlines()) >= 5


def test_what_takes_as_long_as_a_loop_beside_busy_processes_does_not_wait() -> None:
    def found(longest: float, loop: float) -> list[Outcome]:
        alone = figure("busy", f"x forward, {busy.IDLE}", OURS, 1.0)
        beside = figure("busy", f"x forward, {busy.BUSY}", OURS, 1.0)
        others = [
            dataclasses.replace(beside, longest=longest),
            dataclasses.replace(beside, engine=busy.LOOP, longest=loop),
        ]
        return outcomes(Figures({}, [], [alone, *others]))

    assert [o.holds for o in found(19.0, 1.0) + found(21.0, 1.0)] == [True, False]
    assert [o.holds for o in found(74.0, 50.0) + found(76.0, 50.0)] == [True, False]
    assert not found(1.0, 0.0), "a file of before has only the worst, which is chance"


def test_the_longest_calls_are_the_mean_of_twenty() -> None:
    assert timing.summary([5.0, *[1.0] * 100, 3.0])["longest"] == (5.0 + 3.0 + 18.0) / 20
    assert timing.summary([5.0, 1.0])["longest"] == 3.0


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


@pytest.mark.parametrize(
    ("seconds", "rounds", "expected"),
    [
        ([1.0] * 40, 7, 7),
        ([1.0] * 6 + [0.9] * 40, 7, 10),  # three rounds after the last that was faster
        ([1.0 - 0.02 * number for number in range(40)], 7, 21),
        ([1.0 - 0.02 * number for number in range(40)], 3, 3),  # so few are wanted for a quick look
    ],
)
def test_rounds_follow_until_no_minimum_falls(
    seconds: list[float], rounds: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def turn(self: Timed, engine: str, *, keep: bool = True) -> None:
        if keep:
            kept = self.seconds.setdefault(engine, [])
            kept.append(seconds[len(kept)] if engine == "a" else 1.0)

    monkeypatch.setattr(Timed, "turn", turn)
    thing = Timed("c", "p", "s", {name: Run(nothing) for name in "ab"})
    thing.in_turns(rounds)
    assert {name: len(found) for name, found in thing.seconds.items()} == dict.fromkeys("ab", expected)


def test_only_the_first_round_is_left_out_of_collections() -> None:
    frozen: list[int] = []
    Timed("c", "p", "s", {"a": Run(lambda: frozen.append(gc.get_freeze_count()), per=1)}).in_turns(1)
    assert frozen[0] == 0
    assert frozen[-1] > 1000
    assert gc.get_freeze_count() == 0


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


def test_tables_show_of_one_thread_the_worst_and_what_is_missed() -> None:
    def found(*ratios: float) -> list[str]:
        shown = []
        for number, ratio in enumerate(ratios):
            size = f"{number} floats"
            ours = dataclasses.replace(figure("double", "forward", ALONE, ratio), size=size, largest=False)
            warp = dataclasses.replace(figure("double", "forward", WARP, 1.0), size=size, largest=False)
            shown += [ours, warp]
        table = rows(outcomes(Figures({}, figures=shown)))
        return [f"{row[0].partition(':')[0]} {row[1]} {row[-1]}" for row in table]

    message = "on one thread no slower than Warp by more than 5 % "
    assert found(0.1, 0.3, 0.2) == ["double forward, 1 floats 0.30 holds", f"{message} 3 of 3"]
    assert found(1.2, 1.3, 0.2) == [
        "double forward, 0 floats 1.20 MISSED", "double forward, 1 floats 1.30 MISSED", f"{message} 1 of 3"
    ]  # fmt: skip


def test_tiny_launches_have_goals_beside_warp() -> None:
    figures = Figures({}, [], [
        figure("launching", launching.TAPED, OURS, 2.5e-6, 5e-6),
        figure("launching", launching.TAPED, WARP, 1e-5, 1.5e-5),
        figure("launching", launching.AGAIN, OURS, 1e-7),
        figure("launching", launching.AGAIN, WARP, 1e-5),
    ])  # fmt: skip
    assert [outcome.row() for outcome in outcomes(figures)] == [
        ("launching taped launch: Warp ÷ ours", "4.00", "3.00", "≥ 4.00", "holds"),
        ("launching backward, again: Warp ÷ ours", "100.00", "100.00", "≥ 200.00", "MISSED"),
    ]


def test_steps_of_any_length_have_a_goal() -> None:
    steps = [
        [dataclasses.replace(figure("launching", launching.STEP, e, s), size=size) for e, s in pair.items()]
        for size, pair in {
            "2 launches": {OURS: 2.0, WARP: 1.0},
            "10 launches": {OURS: 1.0, WARP: 2.0},
        }.items()
    ]
    assert [outcome.row() for outcome in outcomes(Figures({}, [], [*steps[0], *steps[1]]))] == [
        ("step of a loop, 2 launches: Warp ÷ ours", "0.50", "0.50", "≥ 1.00", "MISSED"),
        ("step of a loop, 10 launches: Warp ÷ ours", "2.00", "2.00", "≥ 1.00", "holds"),
    ]


def test_a_kept_tape_has_goals_beside_none() -> None:
    figures = Figures({}, [], [
        figure("launching", launching.BESIDE, OURS, 9e-6),
        figure("launching", launching.RECORDED, OURS, 6e-6),
        figure("launching", launching.KEPT, OURS, 3e-7), figure("launching", launching.AGAIN, OURS, 1e-7),
    ])  # fmt: skip
    assert [outcome.row() for outcome in outcomes(figures)] == [
        ("launching recording beside a kept tape ÷ recording", "1.50", "1.50", "≤ 2.00", "holds"),
        ("launching backward of a kept tape ÷ backward, again", "3.00", "3.00", "≤ 2.00", "MISSED"),
    ]


def test_two_commits_are_compared_with_the_drift_of_the_machine() -> None:
    before = Figures({}, [], [figure("a", "forward", OURS, 1.0), figure("a", "forward", WARP, 1.0)])
    after = Figures({}, [], [figure("a", "forward", OURS, 3e-3), figure("a", "forward", WARP, 0.5)])
    table, drift = compared(before, after)
    assert table.splitlines()[1].split()[3:] == ["1.00", "s", "3.00", "ms", "0.00", "0.00", "0.50", "faster"]
    assert drift == "other engines, which are the same: ×0.50 in the mean"
    again, _ = compared(after, before)
    assert again.splitlines()[1].endswith("slower")


@pytest.mark.parametrize(
    ("ours", "warp", "message"),
    [
        (0.5, 0.5, ""),
        (2.0, 2.0, ""),
        (0.5, 2.0, "faster"),
        (2.0, 0.5, "slower"),
        (2.0, 1.0, "slower"),
        (1.05, 1, ""),
    ],
)
def test_what_the_machine_did_to_all_is_neither_faster_nor_slower(
    ours: float, warp: float, message: str
) -> None:
    def run(ours: float, warp: float) -> Figures:
        return Figures({}, [], [figure("a", "forward", OURS, ours), figure("a", "forward", WARP, warp)])

    line = compared(run(1.0, 1.0), run(ours, warp))[0].splitlines()[1]
    assert line.endswith(message or f"{warp:.2f}")


def test_durations_have_three_digits() -> None:
    said = [duration(seconds) for seconds in (2.0, 0.0123, 1.5e-4, 2e-6, 3.4e-8)]
    assert said == ["2.00 s", "12.3 ms", "150 µs", "2.00 µs", "34.0 ns"]


def test_every_case_has_three_sizes_that_grow() -> None:
    for case in CASES.values():
        assert isinstance(case, Case)
        assert case.tiny < case.sizes[1] < case.sizes[2]
        assert case.sizes == tuple(sorted(case.sizes))
    assert installed(OURS)


# ------------------------------------------------------------------------------------ what is written


def test_the_page_shows_the_figures_that_are_kept() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.replaced(text, page.block(Figures.load_from(page.KEPT))) == text


def test_the_figures_that_are_kept_are_those_of_a_full_run() -> None:
    figures = Figures.load_from(page.KEPT)
    measured = {figure.case for figure in figures.figures}
    assert measured == {*NAMES, "net", "launching", "process", "busy", "tridiagonal", "five-point"}
    for name, case in CASES.items():
        sizes = {figure.size for figure in figures.figures if figure.case == name}
        assert sizes == {case.says(size) for size in case.sizes}, name
        assert {OURS, WARP} < figures.largest(name, "forward").keys()


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError) as error:
        page.replaced("# Performance\n", "text")
    assert str(error.value) == (
        f"performance.md must have the lines {page.BEGIN} and {page.END}, once each, in this order"
    )
    both = f"a\n{page.BEGIN}\nold\n{page.END}\nb\n"
    assert page.replaced(both, "new") == f"a\n{page.BEGIN}\n\nnew\n\n{page.END}\nb\n"
    with pytest.raises(ValueError):
        page.replaced(both + both, "new")


def test_tables_show_times_and_ratios() -> None:
    found = [
        figure("heat", "forward", OURS, 1e-3), figure("heat", "forward", WARP, 12.5e-3),
        figure("heat", "forward", "numba, prange", 2e-3), figure("heat", "adjoint", OURS, 3e-3),
        figure("heat", "adjoint", "numba, serial", 2e-3), figure("heat", "backward", OURS, 4e-3),
    ]  # fmt: skip
    figures = Figures({"cores": 2, "processor": "P", "python": "3", "versions": {}}, ["0", "1"], found)
    shown = [
        line for line in page.block(figures).splitlines() if line.startswith("| (iv) heat, five points |")
    ]
    assert [[cell.strip() for cell in line.split("|")[2:-1]] for line in shown] == [
        ["many", "1.00 ms", "", "12.5 ms", "2.00 ms (prange)", "", "12.50", "0.50"],
        ["many", "4.00 ms", "", "3.00 ms", "", "", "2.00 ms (serial)", "", "", "1.50"],
        ["", ""],  # tangents
    ]


@pytest.mark.usefixtures("small", "no_collections")
def test_a_part_of_the_suite_does_not_write_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(page, "PAGE", tmp_path / "absent.md")
    assert command.main(["--only", "sum", "--sizes", "small", "--peers", "--rounds", "1", "--write"]) == 0
    assert "the documentation is as it was" in capsys.readouterr().out


def test_results_that_depend_on_threads_are_said_and_miss_a_goal() -> None:
    figures = Figures({}, bits={"sum, 5 floats": "", "deposit, 5 particles": "forward"})
    assert [outcome.row() for outcome in outcomes(figures)] == [
        (
            "results that depend on the number of threads or on the run (deposit, 5 particles: forward)",
            "1", "1", "≤ 0", "MISSED",
        )
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["sum", "springs"])
def test_bits_are_compared_between_threads_and_runs(name: str, engines: Engines) -> None:
    case = CASES[name]
    launched = engines.bound(case.make(case.tiny))[OURS]
    assert isinstance(launched, bound.Ours)
    assert suite.same_bits(launched, None) == ""
    random = iter(range(100))
    launched.outputs = lambda: {"s": np.array([float(next(random))], np.float32)}  # type: ignore[method-assign]
    assert suite.same_bits(launched, None) == "forward"


@pytest.mark.usefixtures("no_collections")
def test_jacobians_are_compared_and_timed(engines: Engines) -> None:
    things = list(jacobians.timed(engines.stencils, 64))
    assert [thing.part for thing in things[:4]] == [
        jacobians.SPARSE, jacobians.ANEW, jacobians.CHECK, jacobians.DENSE
    ]  # fmt: skip
    assert [thing.case for thing in things] == ["tridiagonal"] * 4 + ["five-point"] * 4
    things[0].in_turns(1)
    assert things[0].seconds[OURS]
    assert [thing.part for thing in jacobians.timed(engines.stencils, 65536)].count(jacobians.DENSE) == 0


@pytest.mark.peer
def test_warps_jacobians_are_the_same(with_warp: Engines) -> None:
    stencils = {e: jacobians.stencils(m, 64)["five-point"] for e, m in with_warp.stencils.items()}
    assert set(jacobians.checked("five-point", stencils)) <= {WARP}
