"""Rows that run at once are to the last bit what each is alone; what cannot run so runs row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd.subjects.pairs import port
from tapedebug.autograd.subjects.program import Port
from tapedebug.autograd.subjects.shadow_program import ShadowProgram, rows_of, stacked, tape_replay
from tapedebug.autograd.subjects.subject import subject_of
from tapedebug.runtime.replay import batch
from tests.autograd.test_random_tapes import record

Matrices = dict[Port, np.ndarray[Any, Any]]


@wp.struct
class Pair:
    x: wp.array(dtype=wp.vec3)
    w: wp.array(dtype=float)


@wp.kernel
def mixed(p: Pair, scale: float, y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    y[i] = p.x[i] * wp.sin(p.w[i]) * scale


@wp.struct
class Cell:
    on: wp.uint8
    x: float
    v: wp.vec3
    k: int


@wp.kernel
def turned(cells: wp.array(dtype=Cell), y: wp.array(dtype=float)):
    i = wp.tid()
    c = cells[i]
    y[c.k] = wp.cos(c.x) * wp.length(c.v)
    cells[i].x = c.x * 2.0


@wp.kernel
def powers(x: wp.array(dtype=float)):
    i = wp.tid()
    for _ in range(3):
        x[i] = x[i] * x[i] + 0.1


@wp.kernel
def summed(x: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i, j = wp.tid()
    wp.atomic_add(y, i, x[i, j] * x[i, j])


@wp.kernel
def narrow(x: wp.array(dtype=wp.float16), y: wp.array(dtype=wp.float16)):
    i = wp.tid()
    y[i] = x[i] * x[i] * wp.float16(3.0)


@wp.kernel
def wide(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    y[i] = wp.exp(x[i]) * x[(i + 1) % x.shape[0]]


@wp.kernel
def wave_into(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = y[i] * wp.sin(x[i])


@wp.func
def cube(x: float):
    return x * x * x


@wp.func_grad(cube)
def adj_cube(x: float, adj_ret: float):
    wp.adjoint[x] += 3.5 * x * x * adj_ret


@wp.kernel
def own_gradient(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = cube(x[i])


@wp.kernel
def asserted(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    assert x[i] < 1000.0, "too large"
    y[i] = x[i] * 2.0


@wp.kernel
def ignoring(x: wp.array(dtype=float), y: wp.array(dtype=float), z: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def rooted(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sqrt(x[i])


@wp.kernel
def picked(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[wp.abs(int(x[i]))] * x[i]


@wp.func_native("y[i] = x[i] * x[i];", adj_snippet="adj_x[i] += 2.f * x[i] * adj_y[i];")
def native_square(x: wp.array(dtype=float), y: wp.array(dtype=float), i: int): ...


@wp.kernel
def native(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    native_square(x, y, wp.tid())


def array(*shape: int, dtype: Any = float, seed: int = 0) -> Any:
    inner = (3,) if dtype is wp.vec3 else ()
    values = np.random.default_rng(seed).normal(size=(*shape, *inner))
    return wp.array(values, dtype=dtype, requires_grad=True)


def of_tape(tape: wp.Tape, inputs: list[Any], outputs: list[Any], consume: Any = "versions") -> ShadowProgram:
    ports = [[port(i, f"a{i}", a) for i, a in enumerate(arrays)] for arrays in (inputs, outputs)]
    return ShadowProgram("tape", tape_replay(tape), *ports, consume=consume)


def of_kernel(kernel: Any, dim: Any, inputs: list[Any], outputs: list[Any]) -> ShadowProgram:
    return subject_of(kernel, dim, inputs, outputs, None, None, in_place=True).program


def some(ports: list[Port], count: int, seed: int = 3) -> Matrices:
    rng = np.random.default_rng(seed)
    return {p: rng.normal(size=(count, p.size)) for p in ports}


def same(found: Matrices, wanted: Matrices) -> None:
    assert list(found) == list(wanted)
    for p, values in found.items():
        assert values.dtype == np.float64
        np.testing.assert_array_equal(values, wanted[p])


def agree(program: ShadowProgram, count: int = 5) -> None:
    """All three ways, in both precisions, twice: memory that was used before changes nothing."""
    for rows in (count, 2, count + 1):
        seeds, moves = some(program.outputs, rows), some(program.inputs, rows, 4)
        for double in (False, True):
            pulled = program.pull_many(seeds, double=double)
            same(pulled, stacked(program.inputs, [program.pull(r, double=double) for r in rows_of(seeds)]))
            pushed = program.push_many(moves, double=double)
            same(pushed, stacked(program.outputs, [program.push(r, double=double) for r in rows_of(moves)]))
            found = program.evaluate_many(moves, single=not double)
            alone = [program.evaluate(r, single=not double) for r in rows_of(moves)]
            same(found, stacked(program.outputs, alone))


def at_once(program: ShadowProgram, count: int = 5) -> None:
    agree(program, count)
    assert program.one_by_one == {}


@pytest.mark.parametrize("mode", ["preserve", "ignore"])
@pytest.mark.parametrize("seed", range(16))
def test_random_tapes(seed: int, mode: str) -> None:
    tape, loss, arrays = record(seed, mode)
    inputs = [a for a in arrays if tape.tracker.uses(a)]
    at_once(of_tape(tape, inputs, [loss, *inputs], "versions" if mode == "preserve" else "current"))


def in_place() -> ShadowProgram:
    return of_kernel(powers, 7, [array(7)], [])


def vectors() -> ShadowProgram:
    p = Pair()
    p.x, p.w = array(4, dtype=wp.vec3), array(4)
    return of_kernel(mixed, 4, [p, 1.5], [array(4, dtype=wp.vec3)])


def copies_and_fills() -> ShadowProgram:
    x, y, z = array(6), array(6, seed=1), array(6, seed=2)
    with wp.Tape() as tape:
        wp.launch(powers, 6, [x])
        wp.copy(y, x, dest_offset=1, count=5)
        wp.copy(y, y[2:6], dest_offset=0, count=4)
        z[0:2].fill_(0.5)
        wp.launch(wave_into, 6, [y, z])
    return of_tape(tape, [x, y, z], [y, z])


def struct_elements() -> ShadowProgram:
    values = np.zeros(4, dtype=Cell.numpy_dtype())
    values["x"], values["v"], values["k"] = [0.3, -0.7, 1.1, 2.0], np.arange(12.0).reshape(4, 3), [3, 0, 2, 1]
    cells = wp.array(values, dtype=Cell, requires_grad=True)
    return of_kernel(turned, 4, [cells], [array(4)])


def strided() -> ShadowProgram:
    x, y = array(12), array(6)
    with wp.Tape() as tape:
        wp.launch(wave_into, 6, [x[::2], y])
        wp.launch(wave_into, 6, [y, x[1::2]])
    return of_tape(tape, [x], [x, y])


def parts() -> ShadowProgram:
    """Inputs and outputs that are parts of larger arrays."""
    x, y = array(12), array(12, seed=1)
    with wp.Tape() as tape:
        wp.launch(wave_into, 12, [x, y])
    return of_tape(tape, [x[2:5], y[::3]], [y[0:4], x[7:9], y[9:12]])


def custom_function() -> ShadowProgram:
    x, y, z = array(3), array(3), array(3)
    with wp.Tape() as tape:
        wp.launch(wave_into, 3, [x, y])
        tape.record_func(lambda: None, arrays=[y, z])
        wp.launch(wave_into, 3, [y, z])
    return of_tape(tape, [x, z], [y, z])


PROGRAMS: dict[str, Callable[[], ShadowProgram]] = {
    "in place": in_place,
    "vectors in a struct": vectors,
    "copies and fills": copies_and_fills,
    "structs in an array": struct_elements,
    "strided": strided,
    "parts of arrays": parts,
    "atomics": lambda: of_kernel(summed, (3, 4), [array(3, 4)], [array(3)]),
    "float16": lambda: of_kernel(narrow, 5, [array(5, dtype=wp.float16)], [array(5, dtype=wp.float16)]),
    "float64": lambda: of_kernel(wide, 5, [array(5, dtype=wp.float64)], [array(5, dtype=wp.float64)]),
    "func_grad": lambda: of_kernel(own_gradient, 5, [array(5)], [array(5)]),
    "what may fail": lambda: of_kernel(asserted, 5, [array(5)], [array(5)]),
    "one element": lambda: of_kernel(own_gradient, 1, [array(1)], [array(1)]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    at_once(PROGRAMS[name]())


@pytest.mark.parametrize("name", PROGRAMS)
def test_chunks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row more than fits, and rows of which not even one does."""
    monkeypatch.setattr(batch, "ROOM", 40_000)
    at_once(PROGRAMS[name](), 9)
    monkeypatch.setattr(batch, "ROOM", 1)
    at_once(PROGRAMS[name](), 3)


def test_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wp.config, "interpreted", True)
    at_once(in_place())


# ------------------------------------------------------------------ row by row


def test_native_functions_run_row_by_row() -> None:
    program = of_kernel(native, 4, [array(4)], [array(4)])
    agree(program)
    message = "launch 0 (native) calls native functions, which may write anywhere"
    assert program.one_by_one == {"forward": message, "backward": message, "push": message}


def test_writes_outside_the_tape_run_forward_row_by_row() -> None:
    x, y, z = array(3), array(3, seed=1), array(3, seed=2)
    tape = wp.Tape()
    with tape:
        wp.launch(wave_into, 3, [x, y])
    x[0:2].assign([0.3, 0.4])
    with tape:
        wp.launch(wave_into, 3, [x, z])
        wp.launch(wave_into, 3, [y, z])
    program = of_tape(tape, [x], [y, z])
    agree(program)
    message = "something outside the tape wrote between its records"
    assert program.one_by_one == {"forward": message, "push": message}


def test_what_was_written_after_the_tape_is_what_careless_adjoints_read() -> None:
    x, y = array(3), array(3, seed=1)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(wave_into, 3, [x, y])
    kept = of_tape(tape, [x], [y])
    wanted = kept.pull({kept.outputs[0]: np.ones(3)})[kept.inputs[0]]
    x.assign([7.0, 8.0, 9.0])
    careless = of_tape(tape, [x], [y], "current")
    agree(careless)
    found = careless.pull_many({careless.outputs[0]: np.ones((2, 3))})[careless.inputs[0]]
    assert np.abs(found - wanted).max() > 0.1
    assert "backward" not in careless.one_by_one


def test_tangents_of_custom_functions_run_row_by_row() -> None:
    program = custom_function()
    agree(program)
    message = "record 1 is a custom function, in which tangents may be lost"
    assert program.one_by_one == {"push": message}


def test_the_reverse_pass_of_warp_runs_row_by_row() -> None:
    x, y = array(3), array(3, seed=1)
    with wp.as_warp(), wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(powers, 3, [x])
        wp.launch(wave_into, 3, [x, y])
    program = of_tape(tape, [x], [y], "current")
    agree(program)
    assert program.one_by_one == {"backward": "the reverse pass is that of Warp"}


# ------------------------------------------------------------------ what comes back


def test_the_dtype_that_was_asked_for() -> None:
    program = of_kernel(narrow, 5, [array(5, dtype=wp.float16)], [array(5, dtype=wp.float16)])
    seeds = some(program.outputs, 4)
    x = program.inputs[0]
    wanted = program.pull_many(seeds)[x]
    for rows in (4, 1):
        part = {p: m[:rows] for p, m in seeds.items()}
        assert program.pull_many(part, dtype=None)[x].dtype == np.float16
        assert program.pull_many(part, dtype=None, double=True)[x].dtype == np.float64
        found = program.pull_many(part, dtype=np.float32)[x]
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, wanted[:rows])


def test_only_some_outputs_have_seeds_and_only_some_inputs_are_wanted() -> None:
    program = copies_and_fills()
    seeds = some(program.outputs[1:], 3)
    found = program.pull_many(seeds, wanted=program.inputs[1:2])
    alone = stacked(program.inputs, [program.pull(r) for r in rows_of(seeds)])
    same(found, {program.inputs[1]: alone[program.inputs[1]]})


@pytest.mark.parametrize("count", [0, 1])
def test_few_rows(count: int) -> None:
    program = in_place()
    found = program.pull_many(some(program.outputs, count))
    assert found[program.inputs[0]].shape == (count, 7)


def test_a_call_after_another_row_count_and_other_outputs() -> None:
    program = copies_and_fills()
    for ports in (program.outputs, program.outputs[:1], program.outputs[1:], program.outputs):
        seeds = some(list(ports), 3)
        same(program.pull_many(seeds), stacked(program.inputs, [program.pull(r) for r in rows_of(seeds)]))


def test_an_output_that_no_launch_touches() -> None:
    program = of_kernel(ignoring, 3, [array(3)], [array(3, seed=1), array(3, seed=2)])
    for ports in (program.outputs[:1], program.outputs[1:], program.outputs):
        seeds = some(list(ports), 3)
        same(program.pull_many(seeds), stacked(program.inputs, [program.pull(r) for r in rows_of(seeds)]))
    agree(program)


def test_settings_that_change_between_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    program = of_kernel(rooted, 2, [wp.array([0.0, 4.0], dtype=float, requires_grad=True)], [array(2)])
    x, y = program.inputs[0], program.outputs[0]
    rows = np.array([[0.0, 1.0], [0.0, 2.0]])
    for strong, first in ((False, np.nan), (True, 0.0), (False, np.nan)):
        monkeypatch.setattr(wp.config, "strong_zero", strong)
        np.testing.assert_array_equal(program.pull_many({y: rows})[x], [[first, 0.25], [first, 0.5]])
        np.testing.assert_array_equal(program.push_many({x: rows})[y], [[first, 0.25], [first, 0.5]])


def test_what_the_arrays_hold_is_untouched() -> None:
    x = array(7)
    before = x.numpy().copy()
    at_once(of_kernel(powers, 7, [x], []))
    np.testing.assert_array_equal(x.numpy(), before)
    assert not x.grad.numpy().any()


def test_what_fails_in_a_row_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wp.config, "check_bounds", True)
    program = of_kernel(picked, 3, [array(3)], [array(3)])
    at_once(program)
    x = program.inputs[0]
    with pytest.raises(wp.BoundsError, match="the index 7 is outside"):
        program.evaluate_many({x: np.array([[1.0, 2.0, 0.0], [1.0, 7.0, 3.0]])})
    agree(program)


def test_pulse_can_cancel_between_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "ROOM", 1)
    program = of_kernel(powers, 7, [array(7)], [])
    calls: list[int] = []

    def pulse() -> None:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt

    program.pulse = pulse
    seeds = some(program.outputs, 8)
    with pytest.raises(KeyboardInterrupt):
        program.pull_many(seeds)
    same(program.pull_many(seeds), stacked(program.inputs, [program.pull(r) for r in rows_of(seeds)]))
    assert len(calls) > 12
