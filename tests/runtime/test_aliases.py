"""One memory by many names: whatever name a write goes by, the tape knows, and gradients are right."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tests.runtime.alias_programs import Program
from tests.runtime.kernels import cube_in_place, move, scale, square, total
from tests.sweeps import cases

N = 12


@wp.struct
class Cell:
    """A field beside others."""

    tag: int
    heat: float
    flow: wp.vec2


@wp.struct
class Grid:
    """A struct that holds arrays."""

    first: wp.array(dtype=float)
    second: wp.array(dtype=float)


@wp.kernel
def put(value: wp.array(dtype=float), into: wp.array(dtype=float)):
    i = wp.tid()
    into[i] = value[0] * 3.0


@wp.kernel
def put_grid(value: wp.array(dtype=float), grid: Grid):
    i = wp.tid()
    grid.second[i] = value[0] * 3.0


@wp.kernel
def put_indexed(value: wp.array(dtype=float), into: wp.indexedarray(dtype=float)):
    i = wp.tid()
    into[i] = value[0] * 3.0


def floats(values: Any) -> Any:
    return wp.array(np.asarray(values, np.float32), requires_grad=True)


def struct_of(x: Any) -> Any:
    grid = Grid()
    grid.first, grid.second = wp.zeros(1, requires_grad=True), x[2:8]
    return grid


def graded(a: Any) -> Any:
    a.requires_grad = True
    return a


def indexed(x: Any) -> Any:
    return wp.indexedarray(x, [wp.array([1, 5, 8], dtype=int)])


def launched(view: Callable[[Any], Any]) -> Callable[[Any, Any], None]:
    return lambda x, v: wp.launch(put, view(x).size, inputs=[v, view(x)])


WRITES: dict[str, tuple[Callable[[Any, Any], Any], list[int]]] = {
    "itself": (launched(lambda x: x), [*range(N)]),
    "slice": (launched(lambda x: x[3:9]), [*range(3, 9)]),
    "strided": (launched(lambda x: x[1::3]), [1, 4, 7, 10]),
    "reversed": (launched(lambda x: x[::-1][:4]), [8, 9, 10, 11]),
    "row": (launched(lambda x: x.reshape((3, 4))[1]), [4, 5, 6, 7]),
    "column": (launched(lambda x: x.reshape((3, 4))[:, 1]), [1, 5, 9]),
    "transposed": (launched(lambda x: x.reshape((3, 4)).transpose()[2]), [2, 6, 10]),
    "other type": (
        launched(lambda x: x.reshape((6, 2)).view(wp.vec2).view(float).flatten()[4:]),
        [*range(4, N)],
    ),
    "pointer": (
        launched(lambda x: wp.array(ptr=x.ptr + 8, shape=5, dtype=float, requires_grad=True)),
        [*range(2, 7)],
    ),
    "pointer with strides": (
        launched(lambda x: wp.array(ptr=x.ptr, shape=4, strides=(12,), dtype=float, requires_grad=True)),
        [0, 3, 6, 9],
    ),
    "numpy": (launched(lambda x: wp.array(x.numpy()[6:], copy=False, requires_grad=True)), [*range(6, N)]),
    "dlpack": (launched(lambda x: graded(wp.from_dlpack(x)[:3])), [0, 1, 2]),
    "dlpack of numpy": (launched(lambda x: graded(wp.from_dlpack(x.numpy()[2:4]))), [2, 3]),
    "numpy of dlpack": (
        launched(lambda x: wp.array(np.from_dlpack(x)[5:7], copy=False, requires_grad=True)),
        [5, 6],
    ),
    "array in a struct": (lambda x, v: wp.launch(put_grid, 6, inputs=[v, struct_of(x)]), [*range(2, 8)]),
    "indexed": (
        lambda x, v: wp.launch(put_indexed, 3, inputs=[v, indexed(x)]),
        [1, 5, 8],
    ),
    "copy with offsets": (
        lambda x, v: wp.copy(x, wp.clone(x), dest_offset=4, src_offset=1, count=3),
        [4, 5, 6],
    ),
    "assigned slice": (lambda x, v: x[7:10].assign([0.5, 0.5, 0.5]), [7, 8, 9]),
    "filled column": (lambda x, v: x.reshape((4, 3))[:, 0].fill_(0.5), [0, 3, 6, 9]),
    "element": (lambda x, v: x.__setitem__(11, 0.25), [11]),
}  # fmt: skip
"""By name of an alias: a recorded write through it, and the elements that it changes."""


def program(write: Callable[[Any, Any], Any], mode: str) -> tuple[Any, Any, Any, Any]:
    """y = x² is read by its adjoint, then x is written; the loss is Σ y + Σ x after it."""
    start = np.linspace(1.0, 2.0, N)
    x, v = floats(start), floats([0.7])
    y, loss = wp.zeros(N, requires_grad=True), wp.zeros(1, requires_grad=True)
    with wp.Tape(on_overwrite=mode) as tape:
        wp.launch(square, N, inputs=[x, y])
        write(x, v)
        wp.launch(total, N, inputs=[y, loss])
        wp.launch(total, N, inputs=[x, loss])
    return tape, x, v, loss


def through(name: str) -> np.ndarray[Any, Any]:
    """Return the gradient of Σ x after the write, by x before it."""
    kept = np.ones(N)
    kept[WRITES[name][1]] = 0.0
    if name == "copy with offsets":
        kept[[1, 2, 3]] += 1.0
    return kept


@pytest.mark.parametrize("name", WRITES)
def test_preserved(name: str) -> None:
    tape, x, v, loss = program(WRITES[name][0], "preserve")
    tape.backward(loss)
    expected = 2.0 * np.linspace(1.0, 2.0, N) + through(name)
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6)
    assert tape.preserved_bytes == 4 * N
    first = next(version for version in tape.versions() if version.needed_by == [0] and version.number == 0)
    assert (first.status, first.overwritten) == ("preserved", True)
    if name in ("itself", "slice", "pointer", "numpy", "array in a struct", "indexed", "transposed"):
        np.testing.assert_allclose(v.grad.numpy(), [3.0 * len(WRITES[name][1])])


@pytest.mark.parametrize("name", WRITES)
def test_ignored_and_warned(name: str) -> None:
    found = {}
    for mode in ("ignore", "warn"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tape, x, _, loss = program(WRITES[name][0], mode)
        assert len([w for w in caught if w.category is wp.OverwriteWarning]) == (mode == "warn")
        tape.backward(loss)
        found[mode] = x.grad.numpy().copy()
        now = x.numpy().copy()
        np.testing.assert_allclose(found[mode], 2.0 * now + through(name), rtol=1e-6)
        statuses = {version.status for version in tape.versions() if version.needed_by == [0]}
        assert "lost" in statuses
    np.testing.assert_array_equal(found["ignore"], found["warn"])


@pytest.mark.parametrize("name", WRITES)
def test_refused(name: str) -> None:
    seen: list[Any] = []

    def write(x: Any, v: Any) -> None:
        seen.append((x, x.numpy().copy()))
        WRITES[name][0](x, v)

    with pytest.raises(wp.OverwriteError):
        program(write, "error")
    ((x, before),) = seen
    np.testing.assert_array_equal(x.numpy(), before)


@pytest.mark.parametrize("mode", ["preserve", "error"])
def test_names_of_other_memory_are_no_overwrites(mode: str) -> None:
    x, v = floats(np.linspace(1.0, 2.0, N)), floats([0.7])
    y = wp.zeros(4, requires_grad=True)
    with wp.Tape(on_overwrite=mode) as tape:
        wp.launch(square, 4, inputs=[x[:8:2], y])
        for other in (
            x[1:9:2],
            x[8:],
            wp.array(ptr=x.ptr + 32, shape=2, dtype=float),
            wp.array(x.numpy()[9:], copy=False),
            x.reshape((6, 2))[:, 1],
        ):
            wp.launch(put, other.size, inputs=[v, other])
    assert tape.preserved_bytes == 0
    tape.backward(grads={y: np.ones(4)})
    np.testing.assert_allclose(x.grad.numpy()[:8:2], 2.0 * np.linspace(1.0, 2.0, N)[:8:2], rtol=1e-6)


@pytest.mark.parametrize("mode", ["preserve", "error"])
def test_fields_of_structs_are_memory_of_their_own(mode: str) -> None:
    cells, y = wp.zeros(4, dtype=Cell, requires_grad=True), wp.zeros(4, requires_grad=True)
    cells["heat"].assign([1.0, 2.0, 3.0, 4.0])
    with wp.Tape(on_overwrite=mode) as tape:
        wp.launch(square, 4, inputs=[cells["heat"], y])
        cells["flow"].fill_(1.0)
        cells["tag"].fill_(7)
        assert tape.preserved_bytes == 0
        if mode == "error":
            with pytest.raises(wp.OverwriteError):
                cells["heat"][1:].fill_(9.0)
        else:
            cells["heat"][1:].fill_(9.0)
            assert tape.preserved_bytes > 0
    tape.backward(grads={y: [1.0] * 4})
    assert cells["heat"].grad.numpy().tolist()[0] == 2.0
    if mode == "preserve":
        assert cells["heat"].grad.numpy().tolist() == [2.0, 4.0, 6.0, 8.0]


@pytest.mark.parametrize("first", ["small", "large", "apart"])
def test_foreign_memory_is_found_by_its_address(first: str) -> None:
    """Arrays over pointers that know nothing of each other."""
    block = np.linspace(1.0, 2.0, N).astype(np.float32)
    at = block.ctypes.data

    def made(low: int, high: int) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # overlaps in part are told: no gradient passes between them
            return wp.array(ptr=at + 4 * low, shape=high - low, dtype=float, requires_grad=True)

    x, other = {
        "small": lambda: (made(2, 8), made(0, N)),
        "large": lambda: (made(0, N), made(2, 8)),
        "apart": lambda: (made(0, 8), made(4, N)),
    }[first]()
    before, v = x.numpy().copy(), floats([0.7])
    y = wp.zeros(x.size, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, x.size, inputs=[x, y])
        wp.launch(put, other.size, inputs=[v, other])
    tape.backward(grads={y: np.ones(x.size)})
    np.testing.assert_allclose(x.grad.numpy(), 2.0 * before, rtol=1e-6)
    assert block[4] == np.float32(2.1)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(cases(full=16, sample=9)))
def test_random_programs_against_differences(seed: int) -> None:
    program = Program(seed, steps=9, outside=False)
    expected = program.differences()
    found = program.gradients()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max() + 1e-9)


# -- mark_read, mark_write ----------------------------------------------------------------------------------


def cubed(x: Any, y: Any, tape: Any) -> None:
    """y = x³ in NumPy, with its gradient."""
    x.mark_read()
    y.mark_write()
    y.numpy()[:] = x.numpy() ** 3

    def backward() -> None:
        seed = y.grad.numpy().copy()
        y.grad.zero_()
        x.grad.numpy()[:] += 3.0 * x.numpy() ** 2 * seed

    tape.record_func(backward, [x, y])


def test_a_custom_function_between_launches() -> None:
    x, loss = floats([0.5, -1.0, 2.0]), wp.zeros(1, requires_grad=True)
    a, b = wp.zeros(3, requires_grad=True), wp.zeros(3, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(scale, 3, inputs=[x, a, 2.0])
        cubed(a, b, tape)
        wp.launch(scale, 3, inputs=[x, a, 5.0])  # the function needs what this overwrites
        wp.launch(square, 3, inputs=[b, a])
        cubed(a, b, tape)  # writes b, which the adjoint of `square` needs
        wp.launch(total, 3, inputs=[b, loss])
    tape.backward(loss)
    values = np.array([0.5, -1.0, 2.0])
    np.testing.assert_allclose(loss.numpy()[0], np.sum((2.0 * values) ** 18), rtol=1e-5)
    np.testing.assert_allclose(x.grad.numpy(), 36.0 * (2.0 * values) ** 17, rtol=1e-5)
    statuses = [v.status for v in tape.versions() if v.overwritten_outside and v.needed_by]
    assert statuses == ["preserved"]


def test_marks_without_a_tape_do_nothing() -> None:
    x = floats([1.0])
    x.mark_read()
    x.mark_write()
    x.mark_init()
    assert x.numpy().tolist() == [1.0]


def test_a_read_that_is_marked_is_where_replays_start() -> None:
    x, y = floats([1.0, 2.0]), wp.zeros(2, requires_grad=True)
    with wp.Tape() as tape:
        x.mark_read()
        x.fill_(5.0)
        wp.launch(square, 2, inputs=[x, y])
    assert tape.livein_bytes == 8 and len(tape.records) == 2
    assert tape.replay(stop=0).values(x).tolist() == [1.0, 2.0]


def test_a_write_that_is_marked_is_refused_like_others() -> None:
    x, y = floats([1.0, 2.0]), wp.zeros(2, requires_grad=True)
    with wp.Tape(on_overwrite="error") as tape:
        wp.launch(square, 2, inputs=[x, y])
        y.mark_write()  # nobody needs y
        with pytest.raises(wp.OverwriteError) as caught:
            x[1:].mark_write()
    assert str(caught.value).startswith("launch 1 (mark_write, called at ")
    assert " would overwrite, through 'array'" in str(caught.value)
    assert "of launch 0 (square" in str(caught.value)
    assert tape.outside[-1].array is y
    tape.backward(grads={y: [1.0, 1.0]})
    assert x.grad.numpy().tolist() == [2.0, 4.0]


# -- retain_grad --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_retained_gradients_are_those_of_the_last_version(seed: int) -> None:
    """∂loss/∂(what the array holds after its last write), however often it was written, by whatever name."""
    rng = np.random.default_rng(seed)
    start = rng.uniform(0.5, 1.0, N)
    steps = [(rng.integers(5), sorted(rng.choice(N + 1, 2, replace=False))) for _ in range(6)]

    def run(moved: np.ndarray[Any, Any] | None = None) -> tuple[Any, Any, Any]:
        x = wp.array(start, dtype=wp.float64, requires_grad=True)
        y = wp.array(np.ones(N), dtype=wp.float64, requires_grad=True, retain_grad=True)
        loss = wp.zeros(1, dtype=wp.float64, requires_grad=True)
        with wp.Tape() as tape:
            for kind, (low, high) in steps:
                part = y[low:high]
                if kind == 0:
                    wp.launch(mixed, part.size, inputs=[x[low:high], part])
                elif kind == 1:
                    wp.launch(gained64, part.size, inputs=[x[low:high], part])
                elif kind == 2:
                    wp.copy(part, x[low:high])
                elif kind == 3:
                    hidden = wp.array(
                        ptr=part.ptr, shape=part.size, dtype=wp.float64, requires_grad=True
                    )  # another name of its memory, which is not retained itself
                    wp.launch(mixed, part.size, inputs=[x[low:high], hidden])
                else:
                    wp.launch(grown, N, inputs=[y])
            if moved is not None:
                y.assign(y.numpy() + moved)
            wp.launch(squares64, N, inputs=[y, loss])
        return tape, y, loss

    tape, y, loss = run()
    for _ in range(2):
        tape.zero()
        tape.backward(loss)
        expected = np.zeros(N)
        for k in range(N):
            unit = np.eye(N)[k] * 1e-6
            sides = [float(run(sign * unit)[2].numpy()[0]) for sign in (1.0, -1.0)]
            expected[k] = (sides[0] - sides[1]) / 2e-6
        np.testing.assert_allclose(y.grad.numpy(), expected, rtol=1e-6)


@wp.kernel
def mixed(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    y[i] = wp.sin(x[i]) + wp.float64(0.5) * y[i] * y[i]


@wp.kernel
def gained64(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    wp.atomic_add(y, i, x[i] * x[i])
    wp.atomic_add(y, 0, wp.float64(0.1) * x[i])


@wp.kernel
def grown(y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    for _ in range(3):
        y[i] = y[i] * wp.float64(0.9)


@wp.kernel
def squares64(y: wp.array(dtype=wp.float64), loss: wp.array(dtype=wp.float64)):
    wp.atomic_add(loss, 0, y[wp.tid()] * y[wp.tid()])


def test_what_is_not_retained_is_used_up() -> None:
    x, y, loss = floats([2.0]), wp.zeros(1, requires_grad=True), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(move, 1, inputs=[x, y])
        wp.launch(cube_in_place, 1, inputs=[y])
        wp.launch(total, 1, inputs=[y, loss])
    tape.backward(loss)
    assert (x.grad.numpy().tolist(), y.grad.numpy().tolist()) == ([12.0], [0.0])
