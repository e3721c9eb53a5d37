"""Objects that kernels know by a number, made anew over the memory of a replay. Warp is not needed."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tapedebug.watch.handles import Build, GridOutgrown, Rebuilt, Refresh, SharedGrid, enough_cells


def counted(is_cpu: bool) -> tuple[Any, np.ndarray[Any, Any], list[int]]:
    values, runs = np.zeros(3), list[int]()
    array = SimpleNamespace(size=3, device=SimpleNamespace(is_cpu=is_cpu), numpy=lambda: values)
    return Refresh({"points": array}, lambda: runs.append(1)), values, runs


def test_an_object_on_the_host_is_adapted_only_if_its_arrays_have_changed() -> None:
    refresh, values, runs = counted(is_cpu=True)
    for change, expected in (0.0, 1), (0.0, 1), (1.0, 2), (0.0, 2):
        values += change
        refresh()
        assert len(runs) == expected


def test_an_object_on_a_device_is_always_adapted() -> None:
    refresh, _, runs = counted(is_cpu=False)
    refresh()
    refresh()
    assert len(runs) == 2


def test_an_object_that_others_adapt_is_adapted_again_in_turn() -> None:
    shared, log = SharedGrid(tuple, [16], [16], 1.0), list[int]()
    array = SimpleNamespace(size=3, device=SimpleNamespace(is_cpu=True), numpy=lambda: np.zeros(3))
    one, other = (Refresh({"points": array}, partial(log.append, n), shared) for n in range(2))
    for refresh in (one, one, other, one, one):
        refresh()
    assert log == [0, 1, 0]


def test_a_grid_of_a_replay_has_no_more_cells_than_its_points_need() -> None:
    def points(*rows: tuple[float, float, float], is_cpu: bool = True) -> Any:
        values = np.array(rows, np.float32)
        device = SimpleNamespace(is_cpu=is_cpu)
        return SimpleNamespace(size=len(values), device=device, numpy=lambda: values)

    near, far = points((0, 0, 0), (2, 1, 0)), points((0, 0, 0), (20, 1, 0))
    dims = [128, 128, 16]
    assert enough_cells(dims, Build(near, 0.5, ()), near) == [16, 16, 16]
    assert enough_cells(dims, Build(far, 0.5, ()), near) == [64, 16, 16]
    assert enough_cells(dims, Build(near, 0.5, ()), far) == [64, 16, 16]
    nowhere = points((0, 0, 0), (np.nan, 1, 0))
    on_device = points((0, 0, 0), (2, 1, 0), is_cpu=False)
    for other in (nowhere, on_device):
        assert enough_cells(dims, Build(near, 0.5, ()), other) == dims


def test_a_grid_whose_points_move_apart_is_made_anew_with_more_cells() -> None:
    made: list[Any] = []

    def make(dims: Any) -> Any:
        made.append(tuple(dims))
        return object()

    values = np.array([[0, 0, 0], [3, 3, 3]], np.float32)
    array = SimpleNamespace(size=6, device=SimpleNamespace(is_cpu=True), numpy=lambda: values)
    shared, built = SharedGrid(make, [16, 16, 16], [128, 128, 16], 0.5), list[int]()

    def bound() -> Rebuilt:
        return Rebuilt(0, Refresh({"points": array}, lambda: built.append(len(made)), shared), shared.made)

    first, other = bound(), bound()
    first.refresh()
    values[1] = 10, 3, 100
    with pytest.raises(GridOutgrown):
        first.refresh()
    assert made == [(16, 16, 16), (32, 16, 16)]  # never more cells than the grid of the program has
    assert first.is_outdated
    assert other.is_outdated
    with pytest.raises(GridOutgrown):  # its launch knows the number of the grid before
        other.refresh()
    bound().refresh()
    assert built == [1, 2]
    values[1] = np.nan
    with pytest.raises(GridOutgrown):
        bound().refresh()
    bound().refresh()
    assert made[-1] == (128, 128, 16)
