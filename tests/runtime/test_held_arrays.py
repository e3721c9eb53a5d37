"""Arrays in the elements of arrays of structs: launches, gradients, replays, checks, and what is refused."""

from __future__ import annotations

import copy
import gc
import importlib.util
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler.flatten import held_params
from tests.compiler.parallel_comparison import always_cut

PROGRAM = """
import {package} as wp


@wp.struct
class Points:
    q: wp.array(dtype=wp.vec3)
    count: int


@wp.struct
class Body:
    mass: float
    w: wp.array2d(dtype=float)
    points: Points


@wp.struct
class World:
    bodies: wp.array(dtype=Body)
    dt: float


@wp.func
def squares(row: wp.array(dtype=float)) -> float:
    s = float(0.0)
    for j in range(row.shape[0]):
        s += row[j] * row[j]
    return s


@wp.kernel
def energy(world: World, out: wp.array(dtype=float)):
    i = wp.tid()
    b = world.bodies[i]
    s = float(0.0)
    for r in range(b.w.shape[0]):
        s += wp.sin(squares(b.w[r]))
    if b.points.q:
        for j in range(b.points.count):
            s += wp.length(b.points.q[j]) * world.dt * b.w[0, -1]
    out[i] = s * b.mass


@wp.kernel
def move(world: World, v: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    for j in range(world.bodies[i].points.count):
        world.bodies[i].points.q[j] += v[i] * world.bodies[i].w[1, 0]
"""


def program(folder: Path, package: str) -> Any:
    path = folder / f"held_{package}.py"
    path.write_text(PROGRAM.format(package=package), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return program(tmp_path_factory.mktemp("held"), "tapedebug")


def arrays(engine: Any, how: str) -> tuple[list[Any], list[Any], list[Any]]:
    """Three matrices, three arrays of points (one is None), and the arrays that they are or are parts of."""
    rng = np.random.default_rng(3)

    def made(*shape: int, kind: Any = float) -> Any:
        return engine.array(rng.normal(size=shape).astype(np.float32), dtype=kind, requires_grad=True)

    if how == "apart":
        w, q = [made(2, n) for n in (2, 3, 1)], [made(n, 3, kind=engine.vec3) for n in (2, 3)]
        return w, [*q, None], [*w, *q]
    if how == "shared":
        w, q = [made(2, 3), made(4, 3)], [made(n, 3, kind=engine.vec3) for n in (3, 3)]
        return [w[0], w[0], w[1]], [*q, None], [*w, *q]
    whole, points = made(6, 4), made(9, 3, kind=engine.vec3)
    return [whole[2:4], whole[0:2], whole[4:6]], [points[4:9], points[0:2], None], [whole, points]


def world_of(module: Any, w: list[Any], q: list[Any], engine: Any) -> Any:
    bodies = []
    for i in range(3):
        body, points = module.Body(), module.Points()
        points.q, points.count = q[i], 0 if q[i] is None else q[i].shape[0]
        body.mass, body.w, body.points = i + 1.0, w[i], points
        bodies.append(body)
    world = module.World()
    world.bodies, world.dt = engine.array(bodies, dtype=module.Body, requires_grad=True), 0.5
    return world


def recorded(module: Any, engine: Any, how: str) -> tuple[Any, Any, list[Any]]:
    w, q, owners = arrays(engine, how)
    world = world_of(module, w, q, engine)
    v = engine.array([[1.0, 2.0, 3.0]] * 3, dtype=engine.vec3, requires_grad=True)
    out = engine.zeros(3, dtype=float, requires_grad=True)
    with engine.Tape() as tape:
        engine.launch(module.move, dim=3, inputs=[world, v])
        engine.launch(module.energy, dim=3, inputs=[world], outputs=[out])
    return tape, out, [*owners, v]


WAYS = ("apart", "shared", "views")


@pytest.mark.parametrize("how", WAYS)
def test_values_and_gradients_are_those_of_float64_differences(own: Any, how: str) -> None:
    tape, out, _ = recorded(own, wp, how)
    tape.backward(grads={out: wp.ones(3)})
    assert wp.autograd.gradcheck_tape(tape, show_summary=False)
    text = str(wp.diagnose(tape, {out: np.ones(3)}))
    assert "gradient AGREE" in text.splitlines()[0], text


@pytest.mark.parametrize("how", WAYS)
def test_values_and_gradients_are_those_of_warp(
    own: Any, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warp = pytest.importorskip("warp")
    warp.config.quiet = True
    theirs = program(tmp_path, "warp")
    results = []
    for module, engine in ((own, wp), (theirs, warp)):
        tape, out, owners = recorded(module, engine, how)
        tape.backward(grads={out: engine.array([1.0, 2.0, 3.0], dtype=float)})
        results.append([out.numpy(), *(a.numpy() for a in owners), *(a.grad.numpy() for a in owners)])
    for mine, other in zip(*results, strict=True):
        np.testing.assert_allclose(mine, other, rtol=2e-5, atol=2e-6)


@wp.struct
class Row:
    w: wp.array(dtype=float)
    n: int


@wp.struct
class Table:
    rows: wp.array(dtype=Row)


@wp.kernel
def total(rows: wp.array(dtype=Row), out: wp.array(dtype=float)):
    i = wp.tid()
    for j in range(rows[i].n):
        wp.atomic_add(out, i, rows[i].w[j] * rows[i].w[j])


@wp.kernel
def double(rows: wp.array(dtype=Row)):
    i = wp.tid()
    for j in range(rows[i].n):
        rows[i].w[j] *= 2.0


@wp.kernel
def of_tables(tables: wp.array(dtype=Table), out: wp.array(dtype=float)):
    i = wp.tid()
    for r in range(tables[i].rows.shape[0]):
        row = tables[i].rows[r]
        for j in range(row.n):
            wp.atomic_add(out, i, row.w[j] * row.w[j])


@wp.kernel
def counts(rows: wp.array(dtype=Row), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = float(rows[i].n)


@wp.kernel
def double_other(rows: wp.array(dtype=Row), other: wp.array(dtype=float)):
    i = wp.tid()
    other[i] = rows[i].w[0]


def rows_of(*contents: list[float], grad: bool = True) -> tuple[Any, list[Any]]:
    held = [wp.array(content, dtype=float, requires_grad=grad) for content in contents]
    return wp.array([Row(w=a, n=a.size) for a in held], dtype=Row), held


def test_a_launch_writes_to_the_arrays() -> None:
    rows, held = rows_of([1.0, 2.0], [3.0])
    wp.launch(double, dim=2, inputs=[rows])
    assert [a.numpy().tolist() for a in held] == [[2, 4], [6]]
    with wp.Tape() as tape:
        wp.launch(double, dim=2, inputs=[rows], record_tape=False)
    assert [a.numpy().tolist() for a in held] == [[4, 8], [12]]
    assert not tape.records


def test_elements_hold_arrays_of_structs_that_hold_arrays() -> None:
    one, held = rows_of([1.0, 2.0], [3.0])
    two, more = rows_of([5.0])
    tables = wp.array([Table(one), Table(two)], dtype=Table)
    out = wp.zeros(2, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(of_tables, dim=2, inputs=[tables], outputs=[out])
    assert out.numpy().tolist() == [14, 25]
    tape.backward(grads={out: wp.array([1.0, 10.0], dtype=float)})
    assert [a.grad.numpy().tolist() for a in (*held, *more)] == [[2, 4], [6], [100]]


def test_a_tape_keeps_the_arrays_that_elements_held_at_a_launch() -> None:
    rows, held = rows_of([1.0, 2.0], [3.0])
    out = wp.zeros(2, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(total, dim=2, inputs=[rows], outputs=[out])
    rows.fill_(Row())
    held[0].fill_(7.0)
    tape.backward(grads={out: wp.ones(2)})
    assert [a.grad.numpy().tolist() for a in held] == [[2, 4], [6]]


def test_arrays_live_as_long_as_the_elements_that_hold_them() -> None:
    rows, held = rows_of([1.0, 2.0], [3.0], grad=False)
    other = wp.clone(rows)
    rows.fill_(Row())
    del held
    gc.collect()
    out = wp.zeros(2)
    wp.launch(total, dim=2, inputs=[other], outputs=[out])
    assert out.numpy().tolist() == [5, 9]
    assert [one.w.numpy().tolist() for one in other.list()] == [[1, 2], [3]]
    assert other[1].w.numpy().tolist() == [3]
    assert [one.w.numpy().tolist() for one in copy.deepcopy(other).list()] == [[1, 2], [3]]
    chosen = other[wp.array([1, 1], dtype=int)].contiguous()
    del other
    gc.collect()
    assert [one.w.numpy().tolist() for one in chosen.list()] == [[3], [3]]


def test_a_command_reads_the_arrays_that_elements_hold_when_it_runs() -> None:
    rows, held = rows_of([1.0, 2.0], [3.0])
    out = wp.zeros(2, requires_grad=True)
    command = wp.launch(total, dim=2, inputs=[rows], outputs=[out], record_cmd=True)
    held[1].fill_(10.0)
    command.launch()
    assert out.numpy().tolist() == [5, 100]


def test_the_adjoint_of_a_launch_alone_takes_views_of_one_array() -> None:
    whole = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    rows = wp.array([Row(whole[0:2], 2), Row(whole[2:3], 1)], dtype=Row)
    out = wp.zeros(2, requires_grad=True)
    out.grad.fill_(1.0)
    wp.launch(total, dim=2, inputs=[rows], outputs=[out], adjoint=True)
    assert whole.grad.numpy().tolist() == [2, 4, 6]
    apart, _ = rows_of([1.0], [2.0])
    with pytest.raises(wp.LaunchError, match="the arrays in the elements of `rows.w` are no parts of one"):
        wp.launch(total, dim=2, inputs=[apart], outputs=[out], adjoint=True)


def test_unused_arrays_are_not_gathered_and_none_is_empty() -> None:
    rows = wp.array([Row(n=2), Row(n=3)], dtype=Row)
    out = wp.zeros(2)
    with wp.Tape() as tape:
        wp.launch(counts, dim=2, inputs=[rows], outputs=[out])
    assert out.numpy().tolist() == [2, 3]
    assert len(tape.records) == 1


@wp.kernel
def loss_of(rows: wp.array(dtype=Row), loss: wp.array(dtype=float)):
    i = wp.tid()
    for j in range(rows[i].n):
        wp.atomic_add(loss, 0, rows[i].w[j] * rows[i].w[j])
        rows[i].w[j] = 0.0


def test_the_copies_of_the_last_launch_are_no_launches_after_the_loss() -> None:
    rows, held = rows_of([1.0, 2.0], [3.0])
    loss = wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(loss_of, dim=2, inputs=[rows], outputs=[loss])
    tape.backward(loss)
    assert [a.grad.numpy().tolist() for a in held] == [[2, 4], [6]]
    found = wp.diagnose(tape, loss)
    assert "gradient AGREE" in str(found).splitlines()[0]
    assert "after-loss" not in str(found)


def test_the_arrays_have_the_names_of_their_elements() -> None:
    def made() -> wp.Tape:
        rows, _ = rows_of([1.0, 2.0], [3.0])
        alone = wp.array([rows[1]], dtype=Row)
        with wp.Tape() as tape:
            wp.launch(total, dim=2, inputs=[rows], outputs=[wp.zeros(2, requires_grad=True)])
            wp.launch(total, dim=1, inputs=[alone], outputs=[wp.zeros(1)])
        return tape

    trace = made().trace()
    assert {"rows[0].w", "rows[1].w", "rows.w", "rows.w.places"} <= {array.label for array in trace.arrays}


def test_checks_take_the_arrays_in_elements_as_inputs() -> None:
    rows, _ = rows_of([1.0, 2.0], [3.0])
    found = wp.autograd.jacobian(total, dim=2, inputs=[rows], outputs=[wp.zeros(2, requires_grad=True)])
    assert found["rows.w", "out"].numpy().tolist() == [[2, 4, 0], [0, 0, 6]]


# Refused ---------------------------------------------------------------------------------------------------


def test_a_copy_beside_its_original_is_refused() -> None:
    rows, held = rows_of([1.0, 2.0], [3.0])
    with pytest.raises(wp.LaunchError) as caught:
        wp.launch(double_other, dim=2, inputs=[rows, held[0]])
    assert "an array in the elements of `rows.w` shares memory with `other`" in str(caught.value)
    assert "make all these arrays views of one array (`whole[a:b]`)" in str(caught.value)
    assert held[0].numpy().tolist() == [1, 2]
    whole = wp.array([1.0, 2.0, 3.0, 4.0], dtype=float)
    together = wp.array([Row(whole[2:3], 1), Row(whole[3:4], 1)], dtype=Row)
    wp.launch(double_other, dim=2, inputs=[together, whole])
    assert whole.numpy().tolist() == [3, 4, 3, 4]


def test_addresses_of_arrays_that_are_gone_are_refused() -> None:
    rows, held = rows_of([1.0, 2.0], [3.0], grad=False)
    values = rows.numpy().copy()
    values["w"]["data"] = 16
    odd = wp.array(values, dtype=Row)
    with pytest.raises(
        wp.LaunchError, match="`rows.w` holds the address of an array.* does not exist any more"
    ):
        wp.launch(total, dim=2, inputs=[odd], outputs=[wp.zeros(2)])
    with pytest.raises(wp.ArrayError, match="does not exist any more"):
        odd.list()
    assert len(held) == 2


def test_strides_that_are_no_multiples_of_elements_are_refused() -> None:
    @wp.struct
    class Particle:
        pos: wp.vec3
        mass: float

    @wp.struct
    class Cloud:
        pos: wp.array(dtype=wp.vec3)

    @wp.kernel
    def first(clouds: wp.array(dtype=Cloud), out: wp.array(dtype=float)):
        out[wp.tid()] = clouds[wp.tid()].pos[0].x

    clouds = wp.array([Cloud(wp.zeros(3, dtype=Particle)["pos"])], dtype=Cloud)
    with pytest.raises(
        wp.LaunchError, match=r"with the strides \[16\], which are no multiples of its 12 bytes"
    ):
        wp.launch(first, dim=1, inputs=[clouds], outputs=[wp.zeros(1)])


def test_pickling_is_refused() -> None:
    rows, _ = rows_of([1.0])
    with pytest.raises(wp.ArrayError, match="an array of Row cannot be pickled: its elements hold addresses"):
        pickle.dumps(rows)


def test_kernels_do_not_store_arrays_in_elements() -> None:
    @wp.kernel
    def swap(rows: wp.array(dtype=Row)):
        rows[0] = rows[1]

    with pytest.raises(wp.KernelSyntaxError) as caught:
        wp.launch(swap, dim=1, inputs=[rows_of([1.0], [2.0])[0]])
    text = str(caught.value)
    assert "kernel `swap`: a kernel does not store arrays in the elements of `rows`" in text
    assert "rows[0] = rows[1]" in text and "^" in text


def test_kernels_do_not_assign_arrays_to_elements() -> None:
    @wp.kernel
    def replaced(rows: wp.array(dtype=Row), other: wp.array(dtype=float)):
        row = rows[0]
        row.w = other
        rows[0].w = row.w

    with pytest.raises(wp.KernelSyntaxError, match="a kernel does not store arrays in elements, as `rows"):
        wp.launch(replaced, dim=1, inputs=[rows_of([1.0])[0], wp.zeros(1)])


def test_prints_read_the_arrays(capfd: pytest.CaptureFixture[str]) -> None:
    @wp.kernel
    def printing(rows: wp.array(dtype=Row)):
        print(rows[0].w[1])
        print(rows[0])

    wp.launch(printing, dim=1, inputs=[rows_of([1.0, 2.0])[0]])
    assert capfd.readouterr().out == "2.0\nRow(w=array of shape (2,), n=2)\n"


def test_indices_are_checked_in_each_array() -> None:
    @wp.kernel(check_bounds=True)
    def beyond(rows: wp.array(dtype=Row), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = rows[i].w[rows[i].n]

    rows, _ = rows_of([1.0, 2.0], [3.0])
    with pytest.raises(wp.TapedebugError) as caught:
        wp.launch(beyond, dim=2, inputs=[rows], outputs=[wp.zeros(2)])
    assert "`rows.w`" in str(caught.value)
    assert "out[i] = rows[i].w[rows[i].n]" in str(caught.value)


def test_a_struct_with_a_field_named_places_is_none_of_them() -> None:
    """The flat parameters of arrays in elements end with that name, too."""

    @wp.struct
    class Journey:
        places: wp.array(dtype=float)
        speed: float

    @wp.kernel
    def last(journey: Journey, rows: wp.array(dtype=Row), out: wp.array(dtype=float)):
        out[0] = journey.speed * journey.places[0] + rows[0].w[0]

    names = [param.name for param in last.params]
    assert names == ["journey.places", "journey.speed", "rows.w", "rows.w.places", "rows.n", "out"]
    assert held_params(last.signature) == {2, 3}


INTERLEAVED = """
import tapedebug as wp


@wp.struct
class Body:
    tag: int
    mass: float
    spin: float


@wp.struct
class Row:
    data: wp.array(dtype=float)


@wp.kernel
def scatter(rows: wp.array(dtype=Row), x: wp.array(dtype=float)):
    i = wp.tid()
    held = rows[i % rows.shape[0]]
    wp.atomic_add(held.data, i % held.data.shape[0], x[i])
"""


@pytest.mark.parametrize("which", ["one field", "two fields", "two blocks"])
def test_fields_beside_those_that_elements_hold_stay_as_they_are(tmp_path: Path, which: str) -> None:
    """Chunks add zeros to all of an array: an integer that reads as a signalling NaN would be another."""
    path = tmp_path / "interleaved.py"
    path.write_text(INTERLEAVED, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    bodies = wp.zeros(40, dtype=module.Body, requires_grad=True)
    tags = np.arange(40, dtype=np.int32) - 5_000_000
    memory = bodies.numpy()
    memory["tag"] = tags
    assert np.isnan(tags.view(np.float32)).all()
    other = wp.zeros(12, dtype=float, requires_grad=True)
    second = {
        "one field": bodies["mass"][20:40],
        "two fields": bodies["spin"][::-2],
        "two blocks": other[3:9],
    }[which]
    arrays = [bodies["mass"][1:20:3], second]
    rows = wp.array([module.Row(data=data) for data in arrays], dtype=module.Row)
    x = wp.array(np.linspace(-1.0, 2.0, 600, dtype=np.float32), dtype=float, requires_grad=True)
    with wp.Tape() as tape, always_cut():
        wp.launch(module.scatter, 600, [rows, x])
    np.testing.assert_array_equal(memory["tag"], tags)
    expected = [np.zeros(len(data)) for data in arrays]
    for i, value in enumerate(x.numpy()):
        row = expected[i % 2]
        row[i % len(row)] += value
    for data, right in zip(arrays, expected, strict=True):
        np.testing.assert_allclose(data.numpy(), right, atol=2e-5)
    seed = np.random.default_rng(0).uniform(size=len(second)).astype(np.float32)
    tape.backward(grads={second: wp.array(seed, dtype=float)})
    gradient = [seed[i % len(seed)] if i % 2 else 0.0 for i in range(600)]
    np.testing.assert_allclose(x.grad.numpy(), gradient, rtol=1e-6)
