"""Objects that kernels know by a number, made anew over the memory of a replay. Warp is not needed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from tapedebug.watch.handles import Refit, ReplayGrids, dims_for


def points_of(values: np.ndarray[Any, Any], *, is_cpu: bool = True) -> Any:
    device = SimpleNamespace(is_cpu=is_cpu)
    return SimpleNamespace(size=values.size, device=device, numpy=lambda: values)


class Refitted:
    id = 7

    def __init__(self) -> None:
        self.runs = 0

    def refit(self) -> None:
        self.runs += 1


def test_an_object_on_the_host_is_adapted_only_if_its_arrays_have_changed() -> None:
    values, made = np.zeros(3), Refitted()
    refresh = Refit(made, [points_of(values)])
    for change, expected in (0.0, 1), (0.0, 1), (1.0, 2), (0.0, 2):
        values += change
        assert refresh() == 7
        assert made.runs == expected


def test_an_object_on_a_device_is_always_adapted() -> None:
    made = Refitted()
    refresh = Refit(made, [points_of(np.zeros(3), is_cpu=False)])
    refresh()
    refresh()
    assert made.runs == 2


def test_a_grid_of_a_replay_has_no_more_cells_than_its_points_need() -> None:
    near, far = [np.array([[0, 0, 0], [end, 1, 0]], np.float32) for end in (2, 20)]
    dims = [128, 128, 16]
    assert dims_for(dims, 0.5, [near]) == (16, 16, 16)
    assert dims_for(dims, 0.5, [far, near]) == (64, 16, 16)
    assert dims_for(dims, 0.5, []) == (16, 16, 16)
    nowhere = np.array([[0, 0, 0], [np.nan, 1, 0]], np.float32)
    assert dims_for(dims, 0.5, [nowhere]) == tuple(dims)


class Grid:
    """A stand-in for `wp.HashGrid` that notes how often it is built."""

    def __init__(self, dims: Any) -> None:
        self.dims, self.builds = dims, 0

    def build(self, points: Any, radius: float, *rest: object) -> None:
        self.builds += 1


def test_a_grid_is_built_once_for_the_same_points_whoever_asks() -> None:
    grids, values = ReplayGrids(Grid, [16, 16, 16], 1.0), np.zeros((2, 3), np.float32)
    same, other = points_of(values), points_of(values.copy())
    grid = grids.built(same)
    assert grids.built(same) is grids.built(other) is grid
    assert grid.builds == 1
    values[1] = 2, 0, 0
    assert grids.built(same) is grid
    assert grid.builds == 2
    assert grids.built(same, "groups").builds == 3


def test_points_that_move_apart_get_more_cells_and_fewer_when_they_come_back() -> None:
    values = np.array([[0, 0, 0], [3, 3, 3]], np.float32)
    grids, points = ReplayGrids(Grid, [128, 128, 16], 0.5), points_of(values)
    near = grids.built(points)
    values[1] = 10, 3, 100
    far = grids.built(points)
    values[1] = np.nan
    nowhere = grids.built(points)
    values[1] = 3, 3, 3
    assert (near.dims, far.dims, nowhere.dims) == ((16, 16, 16), (32, 16, 16), (128, 128, 16))
    assert grids.built(points) is near
    assert near.builds == 1
    assert grids.built(points_of(values, is_cpu=False)) is nowhere  # what is on a device is not looked at


def test_only_a_few_grids_are_kept() -> None:
    values = np.zeros((2, 3), np.float32)
    grids, points = ReplayGrids(Grid, [512, 512, 512], 1.0), points_of(values)
    seen = []
    for far in (1, 20, 40, 80, 200):
        values[1, 0] = far
        seen.append(grids.built(points))
    values[1, 0] = 20
    assert grids.built(points) is seen[1]
    values[1, 0] = 1
    assert grids.built(points) is not seen[0]
