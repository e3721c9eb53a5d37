"""The benchmark of recording runs, and what it measures stays within bounds that no busy machine moves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.benchmarks import recording
from tests.benchmarks.recording import Case


@pytest.mark.parametrize(
    "make",
    [
        lambda: recording.versions_of_saxpy(64, 4),
        lambda: recording.copies_of_products(64, 4),
        lambda: recording.steps_of_the_net(16, 3, swapping=False),
        lambda: recording.steps_of_the_net(16, 3, swapping=True),
        lambda: recording.summaries(64, 3),
    ],
    ids=["saxpy", "products", "net", "swapping", "summaries"],
)
def test_every_case_runs(make: Callable[[], Case]) -> None:
    case = make()
    lines = case.run(2).lines()
    assert len(lines) == 1 + len(case.variants)
    assert all(len(seconds) == 2 for seconds in case.seconds.values())


def test_cases_keep_what_their_names_say() -> None:
    for make, kept in (
        (lambda: recording.steps_of_the_net(16, 4, swapping=False), False),
        (lambda: recording.steps_of_the_net(16, 4, swapping=True), True),
        (lambda: recording.copies_of_products(16, 4), True),
        (lambda: recording.versions_of_saxpy(16, 4), False),
    ):
        tapes: list[recording.wp.Tape] = []
        original = recording.recorded

        def noting(run: object, mode: str, original: object = original, tapes: list = tapes) -> object:
            tapes.append(original(run, mode))  # type: ignore[operator]
            return tapes[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(recording, "recorded", noting)
            make().run(1)
        assert [tape.on_overwrite for tape in tapes] == ["ignore", "preserve"]
        assert (tapes[1].preserved_bytes > 0) is kept


def test_ratios_are_of_the_fastest_or_the_middle() -> None:
    case = Case("c", {"a": lambda: 0.0, "b": lambda: 0.0}, 1, {"a": [1.0, 2.0, 9.0], "b": [3.0, 4.0, 5.0]})
    assert case.ratio("b", "a") == 3.0
    assert case.lines() == [
        "c, 1 launches",
        "  a           1000000.00 µs a launch, median 2000000.00",
        "  b           3000000.00 µs a launch, median 4000000.00   ×3.00 (median ×2.00) of a",
    ]


@pytest.mark.parametrize("keeping", [False, True])
def test_a_launch_takes_less_than_two_kilobytes(keeping: bool) -> None:
    """549 bytes, 846 where something is kept; a third more would be somebody's mistake."""
    assert recording.bytes_a_launch(10_000, keeping=keeping) < (1150 if keeping else 750)


def test_a_launch_takes_less_than_two_kilobytes_of_the_process() -> None:
    assert recording.resident_bytes_a_launch(10_000) < recording.MOST_BYTES


@pytest.mark.parametrize("kind", ["loop", "disorder", "chain"])
def test_traces_of_long_tapes_take_time_in_proportion(kind: str) -> None:
    short, long = (recording.long_tape(count, kind) for count in (1000, 8000))
    short.trace()
    few = min(recording.timed(short.trace) for _ in range(5))
    many = min(recording.timed(long.trace) for _ in range(3))
    assert many < 24 * few, "eight times the launches, with threefold slack"


def test_the_report_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    recording.main(["--points", "64", "--rounds", "1", "--launches", "40", "--long", "200"])
    said = capsys.readouterr().out
    assert "saxpy of 64 floats, nothing to keep, 40 launches" in said
    assert "Memory of 200 launches: " in said
    assert "200 launches (chain): trace " in said
