"""The copies that tapes keep of the program's memory: within a budget, and by samples of large regions."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from tapedebug.operations import Region, SnapshotBudget
from tapedebug.operations.recorded_memory import SMALL, RecordedRegion


def region(nbytes, seed=0):
    values = np.random.default_rng(seed).integers(0, 255, nbytes, np.uint8)
    return Region(values), values.copy()


@pytest.mark.parametrize("nbytes", [64, 1000, 2 * SMALL])
def test_within_the_budget_all_bytes_are_copied_at_first(nbytes):
    memory, found = region(nbytes)
    budget = SnapshotBudget()
    recorded = RecordedRegion(memory, budget)
    memory.values[:] = 7
    np.testing.assert_array_equal(recorded.live_in(), found)
    assert budget.used == recorded.taken == nbytes


def test_beyond_the_budget_only_what_is_overwritten_is_copied():
    memory, found = region(1000)
    recorded = RecordedRegion(memory, SnapshotBudget(999))
    rng = np.random.default_rng(1)
    covered = np.zeros(1000, bool)
    for _ in range(50):
        start, stop = np.sort(rng.integers(0, 1000, 2))
        recorded.preserve(start, stop)
        memory.values[start:stop] = rng.integers(0, 255)
        recorded.note(start, stop)
        covered[start:stop] = True
        np.testing.assert_array_equal(recorded.live_in(), found)
    assert recorded.taken == 0
    assert recorded.nbytes == 1000 + covered.sum(), "the copy to compare with, and each byte once"
    assert not recorded.lost


def test_a_value_that_was_overwritten_outside_before_it_was_copied_is_lost():
    memory, _ = region(1000)
    recorded = RecordedRegion(memory, SnapshotBudget(0))
    recorded.preserve(0, 100)
    memory.values[50] ^= 1
    assert recorded.changed(0, 1000) is not None
    assert not recorded.lost, "that range had been copied"
    memory.values[500] ^= 1
    assert recorded.changed(0, 1000) is not None
    assert recorded.lost


def test_a_small_region_is_compared_byte_by_byte():
    memory, _ = region(1000)
    recorded = RecordedRegion(memory, SnapshotBudget())
    memory.values[123] ^= 1
    assert recorded.changed(0, 100) is None
    first, mask = recorded.changed(0, 1000)
    assert (first, mask.size, np.flatnonzero(mask).tolist()) == (120, 8, [3])
    assert recorded.changed(0, 1000) is None, "found once"
    memory.values[200:300] = 0
    recorded.note(200, 300)
    assert recorded.changed(0, 1000) is None, "the tape wrote it"


def test_a_large_region_is_compared_by_a_sample():
    memory, _ = region(4 * SMALL)
    recorded = RecordedRegion(memory, SnapshotBudget())
    memory.values[:] += 1
    first, mask = recorded.changed(100, 200)
    assert (first, mask.size, mask.all()) == (0, 4 * SMALL, True)
    memory.values[:] += 1
    recorded.note(0, 4 * SMALL)
    assert recorded.changed(0, 4 * SMALL) is None
    assert recorded.nbytes == 4 * SMALL


def test_the_budget_is_free_again_when_a_tape_is_gone():
    from tapedebug.contract import Engine
    from tapedebug.operations import OperationTape
    from tests.reference_engine import array

    budget, a = SnapshotBudget(), array([1.0, 2.0])
    tape = OperationTape(Engine("NumPy"), [a], listed=False, budget=budget)
    assert budget.used == a.region.nbytes
    del tape
    gc.collect()
    assert budget.used == 0


@pytest.mark.parametrize("nbytes", [1000, 2 * SMALL])
def test_tapes_that_find_the_same_bytes_share_one_copy(nbytes):
    memory, found = region(nbytes)
    budget = SnapshotBudget()
    first = RecordedRegion(memory, budget)
    second = RecordedRegion(memory, budget)
    assert (first.taken, second.taken, budget.used) == (nbytes, 0, nbytes)
    memory.values[-1] ^= 1
    third = RecordedRegion(memory, budget)
    assert (third.taken, budget.used) == (nbytes, 2 * nbytes), "the last byte is compared, too"
    np.testing.assert_array_equal(second.live_in(), found)
    np.testing.assert_array_equal(third.live_in(), memory.values)
    del first
    assert budget.used == 2 * nbytes, "another tape uses the copy"
    second.note(0, nbytes)
    np.testing.assert_array_equal(second.live_in(), found)
    del second
    assert budget.used == nbytes
    del third
    assert budget.used == 0
    assert RecordedRegion(memory, budget).taken == nbytes, "a copy that is gone is made again"


def test_a_small_region_is_stored_once_until_the_tape_writes_it():
    memory, _ = region(1000)
    recorded = RecordedRegion(memory, SnapshotBudget())
    assert recorded.nbytes == 1000
    recorded.note(0, 8)
    assert recorded.nbytes == 2000
