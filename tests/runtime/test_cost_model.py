"""The cost model: a launch uses other threads if it is long, or if they are awake and helped lately."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tapedebug.runtime.parallel import cost_model
from tapedebug.runtime.parallel.cost_model import (
    AWAKE,
    AWAKE_EVEN,
    BREAK_EVEN,
    PATIENCE,
    SOON,
    SURE,
    CostModel,
)


class Clock:
    """A clock that tests set."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    made = Clock()
    monkeypatch.setattr(cost_model, "perf_counter", made)
    monkeypatch.setattr(cost_model, "_last", cost_model._Last())
    yield made


def known(seconds: float) -> CostModel:
    """Return the model of launches that took so long twice."""
    pace = CostModel()
    pace.ran_alone(seconds)
    pace.ran_alone(seconds)
    return pace


def test_the_first_launches_run_alone_unless_they_take_very_long() -> None:
    pace = CostModel()
    assert not pace.together()
    pace.ran_alone(2 * BREAK_EVEN)
    assert not pace.together(), "what it took may have been memory that was new"
    pace.ran_alone(2 * BREAK_EVEN)
    assert pace.together()
    long = CostModel()
    long.ran_alone(2 * SURE)
    assert long.together()


def test_shorter_launches_join_others_that_are_awake(clock: Clock) -> None:
    long, short, tiny = known(2 * BREAK_EVEN), known(1.2 * AWAKE_EVEN), known(0.5 * AWAKE_EVEN)
    clock.now += 2 * SOON
    assert (long.together(), short.together(), tiny.together()) == (True, False, False)
    long.ran_together(BREAK_EVEN)
    clock.now += 0.5 * AWAKE
    assert (short.together(), tiny.together()) == (True, False)
    short.ran_together(0.6 * AWAKE_EVEN)
    clock.now += 0.9 * AWAKE
    assert short.together(), "it keeps them awake itself"
    clock.now += 0.2 * AWAKE
    assert not short.together()


def test_one_of_many_launches_wakes_others_for_the_rest(clock: Clock) -> None:
    short = known(1.2 * AWAKE_EVEN)
    clock.now += 0.5 * SOON
    assert short.together(), "soon after the last one"
    short.ran_together(3 * AWAKE_EVEN)
    clock.now += 0.5 * SOON
    assert short.together(), "to wake others took time, which says nothing of what they do awake"
    short.ran_together(1.2 * AWAKE_EVEN)
    assert [short.together() for _ in range(4)] == [False, False, True, True], "then it was in vain"
    clock.now += 2 * AWAKE
    assert not short.together()


def test_in_vain_is_tried_less_and_less_often() -> None:
    pace = known(2 * BREAK_EVEN)
    waits = []
    for _ in range(9):
        alone = 0
        while not pace.together():
            alone += 1
        waits.append(alone)
        pace.ran_together(2 * BREAK_EVEN)
    assert waits == [0, 2, 4, 8, 16, 32, 64, 64, 64]
    assert max(waits) == PATIENCE
    while not pace.together():
        pass
    pace.ran_together(BREAK_EVEN)
    assert pace.together()


def test_a_launch_that_woke_others_has_to_gain_less(clock: Clock) -> None:
    """The next one has what it paid for; judged alike, each try after a pause would be in vain."""
    pace = known(2 * BREAK_EVEN)
    clock.now += 2 * AWAKE
    assert pace.together()
    pace.ran_together(0.95 * 2 * BREAK_EVEN)
    clock.now += 0.5 * AWAKE
    assert pace.together()
    pace.ran_together(0.95 * 2 * BREAK_EVEN)
    assert not pace.together()
