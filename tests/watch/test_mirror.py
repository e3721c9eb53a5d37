"""Translation of Warp's kernels, with a stand-in for Warp; and comparison of mirrored launches."""

from __future__ import annotations

import ast
import enum
import functools
import traceback
from typing import Any

import numpy as np
import pytest

from tapedebug import contract
from tapedebug.operations import ExactAdjoint, HostArray, Memory, Region, RunsInFloat64
from tapedebug.operations.memory import widened
from tapedebug.watch.mirror import (
    MirroredLaunch,
    MirrorError,
    mirror_kernel,
)
from tapedebug.watch.mirror.comparison import differences_between
from tests.watch import warp_stand_in as stand_in
from tests.watch.both_engines import compare_adjoint, compare_forward
from tests.watch.warp_stand_in import warp as wp

SCALE = 3.0
OFFSET = stand_in.float32  # a type of Warp under a name of the program's own


@stand_in.func
def weighted(x: float):
    return SCALE * x * x


@stand_in.func
def rough(x: float):
    return x * x


@stand_in.func_grad(rough)
def adj_rough(x: float, ret: float):
    wp.adjoint[x] += 7.0 * ret


@stand_in.func_native("return x;")
def native(x: float) -> float: ...


@stand_in.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = weighted(x[i]) + OFFSET(1.0)


@stand_in.kernel
def in_place(x: wp.array(dtype=float), factor: float):
    i = wp.tid()
    x[i] = x[i] * x[i] * factor


@stand_in.kernel
def attached(
    x: wp.array(dtype=float), body: wp.array(dtype=int), q: wp.array(dtype=wp.vec3), y: wp.array(dtype=float)
):
    i = wp.tid()
    y[i] = x[i] * x[i]
    if body[i] >= 0:
        y[i] += q[body[i]][0]


@stand_in.kernel
def custom(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[wp.tid()] = rough(x[wp.tid()])


@stand_in.kernel
def dots(x: wp.array(dtype=wp.vec3), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.dot(x[i], wp.types.vec3(1.0, 2.0, 3.0))


class Mode(enum.IntEnum):
    """An enumeration with a function of kernels, as programs group them."""

    SLOW = 2
    FAST = 5

    @staticmethod
    @stand_in.func
    def factor(mode: int) -> float:
        if mode == int(Mode.FAST):
            return wp.float(Mode.SLOW)
        return 0.0


@stand_in.kernel
def grouped(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] * Mode.factor(int(Mode.FAST)) * wp.float(wp.block_dim())


class Mapper:
    """A class of Warp's own that groups functions of kernels, as `fem.SymmetricTensorMapper` does."""

    __module__ = "warp._src.fem.space.dof_mapper"

    @staticmethod
    @stand_in.func
    def doubled(x: float):
        return 2.0 * x


class Yield(stand_in.vec3):
    """A vector with a function of its own."""

    @stand_in.func
    def of_pressure(p: float):
        return Yield(p, 2.0 * p, 1.0)


@stand_in.kernel
def yielding(x: wp.array(dtype=float)):
    i = wp.tid()
    v = Yield(1.0) + Yield.of_pressure(x[i])
    x[i] = v[0] + v[1] + v[2]


@functools.cache
def vector(length: int, dtype: Any) -> Any: ...


vector.__wrapped__.__module__ = "warp._src.types"


@stand_in.kernel
def of_a_cached_maker(x: wp.array(dtype=float)):
    v = vector(length=2, dtype=wp.float32)
    v[0] = 2.0 * x[wp.tid()]
    x[wp.tid()] = v[0] + v[1]


@stand_in.kernel
def mapped(x: wp.array(dtype=float)):
    if wp.tid() == 0:
        x[0] = Mapper.doubled(x[0])


@stand_in.kernel
def with_native(x: wp.array(dtype=float)):
    x[0] = native(x[0])


@stand_in.kernel
def with_tiles(x: wp.array(dtype=float)):
    t = wp.tile_load(x, 4)
    x[0] = t[0]


@stand_in.kernel
def with_texture(x: wp.array(dtype=wp.Texture3D)):
    x[0] = x[0]


def host(values: Any, element_ndim: int = 0, region: Region | None = None) -> HostArray:
    content = np.asarray(values, np.float32) if region is None else values
    return HostArray(content, region or Region(content, np.zeros_like(content)), True, element_ndim)


def memory_of(*arrays: HostArray, wide: bool = False) -> Memory:
    regions = {array.region: array.region.values.copy() for array in arrays}
    if wide:
        single = np.dtype(np.float32)
        wide_regions = {r: widened(content, single) for r, content in regions.items()}
        return Memory(wide_regions, dict.fromkeys(regions, single))
    return Memory(regions)


def launched(kernel: Any, *args: Any, dim: int = 3) -> MirroredLaunch:
    arrays = {(n, ""): a for n, a in enumerate(args) if isinstance(a, HostArray)}
    return MirroredLaunch(mirror_kernel(kernel), dim, args, arrays)


def test_a_kernel_runs_forward_and_in_reverse() -> None:
    x, y = host([1, 2, 3]), host([0, 0, 0])
    launch = launched(square, x, y)
    before, after, adjoint = memory_of(x, y), memory_of(x, y), memory_of(x, y)
    launch.forward(after)
    np.testing.assert_array_equal(after.view(y), [4, 13, 28])
    adjoint.view(x)[...] = 100
    adjoint.view(y)[...] = [1, 1, 2]
    launch.vjp(before, after, adjoint)
    np.testing.assert_array_equal(adjoint.view(x), [106, 112, 136])  # added to what was there
    np.testing.assert_array_equal(adjoint.view(y), 0)  # consumed


def test_accesses_say_what_the_adjoint_needs() -> None:
    reads, writes = mirror_kernel(square).accesses
    assert (reads.param, reads.path, reads.name) == (0, "", "x")
    assert (reads.reads, reads.writes, reads.needs_before, reads.needs_after) == (True, False, True, False)
    assert (writes.reads, writes.writes, writes.needs_before, writes.needs_after) == (
        False,
        True,
        False,
        False,
    )


def test_an_adjoint_starts_from_the_values_before_an_in_place_launch() -> None:
    x = host([1, 2, 3])
    launch = launched(in_place, x, 2.0)
    before, after, adjoint = memory_of(x), memory_of(x), memory_of(x)
    launch.forward(after)
    adjoint.view(x)[...] = 1
    launch.vjp(before, after, adjoint)
    np.testing.assert_array_equal(adjoint.view(x), [4, 8, 12])
    (access,) = launch.accesses
    assert access.needs_before
    assert launch.capability(ExactAdjoint) is launch


def test_an_array_that_is_none_is_one_without_elements() -> None:
    single = np.dtype(np.float32)
    x, y = host([1, 2, 3]), host([0, 0, 0])
    nobody = np.full(3, -1, np.int32)
    body = HostArray(nobody, Region(nobody), False)
    arrays = {(0, ""): x, (1, ""): body, (3, ""): y}
    launch = MirroredLaunch(mirror_kernel(attached), 3, [x, body, None, y], arrays)
    assert [access.name for access in launch.accesses] == ["x", "body", "y"]
    step = launch.capability(RunsInFloat64)
    assert step is not None
    for each in launch, step:
        sizes = {array.region: array.region.nbytes for array in arrays.values()}
        values, adjoint = (
            Memory.zeros(sizes, dict.fromkeys((x.region, y.region), single) if each is step else {})
            for _ in range(2)
        )
        values.view(x)[...], values.view(body)[...] = [1, 2, 3], -1
        each.forward(values)
        assert values.view(y).tolist() == [1, 4, 9]
        adjoint.view(y)[...] = 1
        each.vjp(values, values, adjoint)
        assert adjoint.view(x).tolist() == [2, 4, 6]


def test_the_same_launch_in_float64() -> None:
    x = host([0.1, 0.2, 0.3])
    launch = launched(in_place, x, 2.0)
    step = launch.capability(RunsInFloat64)
    assert step is not None
    before, after, adjoint = (memory_of(x, wide=True) for _ in range(3))
    step.forward(after)
    exact = np.float32([0.1, 0.2, 0.3]).astype(np.float64)
    np.testing.assert_allclose(after.view(x), 2 * exact**2, rtol=1e-15)
    adjoint.view(x)[...] = 1
    step.vjp(before, after, adjoint)
    np.testing.assert_allclose(adjoint.view(x), 4 * exact, rtol=1e-15)


def test_views_keep_their_strides() -> None:
    base = np.arange(12, dtype=np.float32).reshape(3, 4)
    region = Region(base, np.zeros_like(base))
    x, y = host(base[:, 1], region=region), host(base[:, 3], region=region)
    launch = launched(square, x, y)
    for wide in (False, True):
        memory = memory_of(x, wide=wide)
        (launch.in_float64 if wide else launch).forward(memory)
        np.testing.assert_array_equal(memory.view(y), 3 * np.array([1.0, 5, 9]) ** 2 + 1)
        np.testing.assert_array_equal(memory.view(x), [1, 5, 9])


def test_a_custom_gradient_is_taken_over() -> None:
    x, y = host([1, 2, 3]), host([0, 0, 0])
    launch = launched(custom, x, y)
    adjoint = memory_of(x, y)
    adjoint.view(x)[...] = 0
    adjoint.view(y)[...] = [1, 2, 3]
    launch.vjp(memory_of(x, y), memory_of(x, y), adjoint)
    np.testing.assert_array_equal(adjoint.view(x), [7, 14, 21])
    gradients = launch.capability(contract.CustomGradients)
    assert gradients is not None
    assert [call.name for call in gradients.calls()] == ["rough"]


def test_constants_have_no_adjoint() -> None:
    x, y = host([1, 2, 3]), host([0, 0, 0])
    x.requires_grad = False
    launch = launched(square, x, y)
    adjoint = memory_of(x, y)
    adjoint.view(x)[...] = 0
    adjoint.view(y)[...] = 1
    launch.vjp(memory_of(x, y), memory_of(x, y), adjoint)
    assert not adjoint.view(x).any()
    assert [access.active for access in launch.accesses] == [False, True]


def test_types_are_found_by_structure_through_any_module() -> None:
    x, y = host([[1, 2, 3], [4, 5, 6]], element_ndim=1), host([0, 0])
    launch = launched(dots, x, y, dim=2)
    memory = memory_of(x, y)
    launch.forward(memory)
    np.testing.assert_array_equal(memory.view(y), [14, 32])


def test_the_source_is_the_users() -> None:
    launch = launched(square, host([1, 2, 3]), host([0, 0, 0]))
    source = launch.capability(contract.KernelSource)
    assert source is not None
    assert source.text.file == __file__
    assert source.text.lines[1].startswith("def square(")
    assert [access.place.text.strip() for access in source.accesses] == [
        "y[i] = weighted(x[i]) + OFFSET(1.0)",
        "y[i] = weighted(x[i]) + OFFSET(1.0)",
    ]
    assert "3.0" in (source.adjoint_text() or "")


def test_the_programs_modules_stay_as_they_are() -> None:
    before = dict(vars(wp)), dict(vars(wp.types)), dict(globals())
    launched(dots, host([[1, 2, 3]], element_ndim=1), host([0]), dim=1)
    assert (dict(vars(wp)), dict(vars(wp.types)), dict(globals())) == before


def test_a_kernel_is_mirrored_once() -> None:
    assert mirror_kernel(square) is mirror_kernel(square)


@pytest.mark.parametrize(
    ("kernel", "reason", "line"),
    [
        (with_native, "`native` is a native snippet", "x[0] = native(x[0])"),
        (with_tiles, "`wp.tile_load` is not in the kernel language of this engine", "wp.tile_load(x, 4)"),
        (with_texture, "the type `Texture3D` of Warp has no counterpart (`x` of `with_texture`)", ""),
    ],
)
def test_what_cannot_be_mirrored_says_why(kernel: Any, reason: str, line: str) -> None:
    with pytest.raises(MirrorError) as error:
        mirror_kernel(kernel)
    assert error.value.reason.startswith(reason)
    assert line in str(error.value)
    for _ in range(3):
        with pytest.raises(MirrorError) as again:
            mirror_kernel(kernel)  # the reason is kept, but not the frames of those who asked before
        assert again.value is error.value
        assert len(traceback.extract_tb(again.value.__traceback__)) == 2


def test_rewritten_source_is_refused() -> None:
    kernel = stand_in.Kernel(square.func)
    kernel.adj.transformers = [ast.NodeTransformer()]
    with pytest.raises(MirrorError, match="the source of `square` is rewritten before Warp compiles it"):
        mirror_kernel(kernel)


def test_a_wrong_number_of_arguments_is_refused() -> None:
    with pytest.raises(MirrorError, match="`square` was launched with 1 arguments"):
        launched(square, host([1, 2, 3]))


def made_in_a_loop(n: int) -> Any:
    def looped(x: wp.array(dtype=float)):
        x[wp.tid()] = x[wp.tid()] * float(n)

    return stand_in.Kernel(looped)


def test_closures_are_rebound() -> None:
    for n in (2, 3):
        x = host([1, 2, 3])
        memory = memory_of(x)
        launched(made_in_a_loop(n), x).forward(memory)
        np.testing.assert_array_equal(memory.view(x), [n, 2 * n, 3 * n])


def test_functions_in_classes_and_of_programs_for_warp_are_translated() -> None:
    x = host([1, 2, 3])
    memory = memory_of(x)
    launched(grouped, x).forward(memory)
    np.testing.assert_array_equal(memory.view(x), [2, 4, 6])
    launched(mapped, x).forward(memory)
    np.testing.assert_array_equal(memory.view(x), [4, 4, 6])


def test_makers_of_types_that_warp_caches_are_translated() -> None:
    x = host([1, 2, 3])
    memory = memory_of(x)
    launched(of_a_cached_maker, x).forward(memory)
    np.testing.assert_array_equal(memory.view(x), [2, 4, 6])


def test_a_class_derived_from_a_compound_type_is_that_type_with_functions() -> None:
    x = host([1, 2, 3])
    memory = memory_of(x)
    launched(yielding, x).forward(memory)
    np.testing.assert_array_equal(memory.view(x), [7, 10, 13])


class Step:
    """A step of NumPy in place of Warp's: y = 3 x² + 1, with an error in the adjoint."""

    def __init__(self, x: HostArray, y: HostArray, factor: float = 1.0, results: float = 1.0) -> None:
        self.x, self.y, self.factor, self.results = x, y, factor, results

    def forward(self, values: Memory) -> None:
        values.view(self.y)[...] = self.results * (3 * values.view(self.x) ** 2 + 1)

    def vjp(self, before: Memory, after: Memory, adjoint: Memory) -> None:
        g = adjoint.view(self.y).copy()
        adjoint.view(self.y)[...] = 0
        adjoint.view(self.x)[...] += self.factor * 6 * before.view(self.x) * g


def test_differences_from_the_native_launch_are_measured() -> None:
    x, y = host([1, 2, 3]), host([0, 0, 0])
    launch = launched(square, x, y)
    before, after, adjoint = memory_of(x, y), memory_of(x, y), memory_of(x, y)
    launch.forward(after)
    adjoint.view(x)[...] = 0
    adjoint.view(y)[...] = 1
    memories = before, after, adjoint
    held = [{region: content.copy() for region, content in m.bytes.items()} for m in memories]
    assert compare_forward(launch, Step(x, y), launch.accesses, before) == []
    assert compare_adjoint(launch, Step(x, y), launch.accesses, *memories) == []
    (wrong,) = compare_forward(launch, Step(x, y, results=1.5), launch.accesses, before)
    assert (wrong.access.name, wrong.index, wrong.mirrored, wrong.native) == ("y", (2,), 28, 42)
    assert wrong.is_significant
    (wrong,) = compare_adjoint(launch, Step(x, y, factor=0.5), launch.accesses, *memories)
    assert (wrong.access.name, wrong.index, wrong.mirrored, wrong.native) == ("x", (2,), 18, 9)
    assert wrong.relative == 0.5
    for memory, content in zip(memories, held, strict=True):
        for region, bytes_ in content.items():
            np.testing.assert_array_equal(memory.bytes[region], bytes_)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_neighbouring_numbers_are_no_significant_difference(dtype: Any) -> None:
    content = np.array([1, 2, 3], dtype)
    x = HostArray(content, Region(content), True)
    accesses = [contract.Access(0, "x", x, reads=False, writes=True)]
    one, near, far = (Memory({x.region: x.region.values.copy()}) for _ in range(3))
    near.view(x)[1] = np.nextafter(dtype(2), dtype(9))
    far.view(x)[1] = 2.1
    assert [d.is_significant for d in differences_between(accesses, one, near)] == [False]
    assert [d.is_significant for d in differences_between(accesses, one, far)] == [True]


def test_a_number_is_scaled_in_a_replay() -> None:
    x = host([1, 2, 3])
    launch = launched(in_place, x, 2.0)
    numbers = launch.capability(contract.NumberArguments)
    assert numbers is not None
    assert numbers.params == [1]
