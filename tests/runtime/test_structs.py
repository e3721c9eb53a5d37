"""Structs in launches, arrays of structs, and what tapes, checks, traces and findings make of them."""

from __future__ import annotations

import copy
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tests import forked
from tests.runtime.kernels import square


@wp.struct
class Inner:
    x: float
    n: int


@wp.struct
class Body:
    pos: wp.vec3
    mass: float
    inner: Inner
    on: wp.uint8


@wp.struct
class State:
    q: wp.array(dtype=wp.vec3)
    bodies: wp.array(dtype=Body)
    scale: float


@wp.struct
class Rows:
    rows: wp.indexedarray(dtype=float)


@wp.struct
class Selected:
    inner: Rows


@wp.kernel
def step(state: State, bodies: wp.array(dtype=Body), out: wp.array(dtype=float)):
    i = wp.tid()
    b = bodies[i]
    b.mass += state.scale * state.q[i].x
    out[i] = b.mass * b.mass * bodies[0].pos.y + b.inner.x * float(b.inner.n)
    state.bodies[i] = b
    state.bodies[i].inner.x = b.inner.x * b.pos.z


@wp.kernel
def total(bodies: wp.array(dtype=Body), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, bodies[i].mass * bodies[i].inner.x * wp.length(bodies[i].pos))


@wp.kernel
def unused(state: State, out: wp.array(dtype=float)):
    out[wp.tid()] = state.scale


def bodies(n: int = 4, grad: bool = True) -> Any:
    rng = np.random.default_rng(5)
    made = [Body(rng.normal(size=3), rng.uniform(1, 2), Inner(rng.normal(), k + 1), k % 2) for k in range(n)]
    return wp.array(made, dtype=Body, requires_grad=grad)


def state(n: int = 4) -> Any:
    rng = np.random.default_rng(6)
    q = wp.array(rng.normal(size=(n, 3)), dtype=wp.vec3, requires_grad=True)
    return State(q, wp.zeros(n, dtype=Body, requires_grad=True), 1.5)


# Arrays ----------------------------------------------------------------------------------------------------


def test_arrays_of_structs() -> None:
    a = bodies(3)
    values = a.numpy()
    assert values.dtype == Body.numpy_dtype()
    assert (a.shape, a.strides, a.item_size, a.is_contiguous) == ((3,), (28,), 28, True)
    assert values["inner"]["n"].tolist() == [1, 2, 3]
    assert repr(a) == "array(shape=(3,), dtype=Body)"
    assert (a[1].inner.n, a[1].on) == (2, 1)
    assert [b.inner.n for b in a.list()] == [1, 2, 3]
    assert np.asarray(a).dtype == values.dtype
    values["mass"][2] = 7.0
    assert a[2].mass == 7.0
    assert not wp.zeros(2, dtype=Body).numpy()["pos"].any()
    for made in (wp.array(values, dtype=Body), wp.from_numpy(values, dtype=Body), wp.clone(a)):
        assert np.array_equal(made.numpy(), values)
        assert made.ptr != a.ptr
    shared = wp.array(values.copy(), dtype=Body, copy=False)
    shared["mass"].fill_(2.0)
    assert shared[0].mass == 2.0
    assert wp.array([[Body(), Body()]], dtype=Body).shape == (1, 2)
    for same in (copy.deepcopy(a), pickle.loads(pickle.dumps(a))):
        assert np.array_equal(same.numpy(), values)
        assert same.dtype is Body and same.requires_grad
    assert repr(pickle.loads(pickle.dumps(a[1]))) == repr(a[1])
    assert wp.array([((1, 2, 3), 4, (5, 6), 7)], dtype=Body)[0].inner.n == 6
    assert wp.array([[Body()], [Body()]]).dtype is Body
    assert wp.full((2, 2), Body(mass=3.0), dtype=Body)[1, 1].mass == 3.0


def test_writing_elements() -> None:
    a = wp.zeros(4, dtype=Body)
    a[1] = Body(mass=2.0)
    a[2:] = Body(mass=3.0, inner=Inner(0.5, 1))
    assert a.numpy()["mass"].tolist() == [0, 2, 3, 3]
    a.assign([Body(mass=float(k)) for k in range(4)])
    assert a.numpy()["mass"].tolist() == [0, 1, 2, 3]
    a["inner"]["x"] = [5, 6, 7, 8]
    assert a.numpy()["inner"]["x"].tolist() == [5, 6, 7, 8]
    other = wp.zeros(6, dtype=Body)
    wp.copy(other, a, dest_offset=1, src_offset=2, count=2)
    assert other.numpy()["mass"].tolist() == [0, 2, 3, 0, 0, 0]
    a.fill_(Body(on=9))
    assert a.numpy()["on"].tolist() == [9, 9, 9, 9]
    a.zero_()
    assert not a.numpy()["on"].any()


def test_fields_are_views_with_the_gradient_of_the_array() -> None:
    a = bodies()
    pos = a["pos"]
    assert (pos.shape, pos.dtype, pos.strides, pos.ptr) == ((4,), wp.vec3, (28,), a.ptr)
    assert a["inner"].dtype is Inner
    a.grad["mass"].fill_(3.0)
    assert a["mass"].grad.numpy().tolist() == [3, 3, 3, 3]
    assert a.grad.numpy()["mass"].tolist() == [3, 3, 3, 3]
    assert a[1:3]["mass"].numpy().tolist() == a.numpy()["mass"][1:3].tolist()
    assert a.reshape((2, 2))["on"].numpy().tolist() == [[0, 1], [0, 1]]


WRONG: list[tuple[Any, str]] = [
    (lambda: bodies()["poss"], "array(shape=(4,), dtype=Body): Body has no field 'poss'"),
    (lambda: bodies().fill_(3.0), "fill_ of an array(shape=(4,), dtype=Body): 3.0 is not a value of Body"),
    (lambda: wp.ones(2, dtype=Body), "ones: 1 is not a value of Body"),
    (
        lambda: wp.zeros(2, dtype=Selected),
        "zeros: Selected holds an indexed array (inner.rows), which elements of arrays cannot",
    ),
    (
        lambda: wp.array([1.0, 2.0], dtype=Body),
        "array: the data cannot become an array of Body: got 1.0",
    ),
    (
        lambda: wp.array(np.zeros(2, Inner.numpy_dtype()), dtype=Body),
        "array: data with the fields x, n cannot be Body, whose fields are pos, mass, inner, on",
    ),
    (
        lambda: wp.array([Body()], dtype=Body, shape=3),
        "array: 1 elements of Body do not fill shape (3,)",
    ),
    (lambda: wp.copy(bodies(), wp.zeros(4)), "copy: dest has dtype Body, src has float32"),
    (
        lambda: wp.optim.SGD([bodies()], lr=0.1),
        "SGD: parameter 0 is an array(shape=(4,), dtype=Body), of structs",
    ),
]


@pytest.mark.parametrize(("act", "message"), WRONG)
def test_wrong_arrays(act: Any, message: str) -> None:
    with pytest.raises(wp.ArrayError) as caught:
        act()
    assert str(caught.value).startswith(message + "\n  = hint: ")


def test_indexed_arrays_in_elements_are_refused_with_another_way() -> None:
    with pytest.raises(wp.ArrayError) as caught:
        wp.zeros(2, dtype=Selected)
    assert caught.value.hint == "let the struct hold the array, and the array of indices, as two fields"


# Launches --------------------------------------------------------------------------------------------------


def misfit(*args: Any, kernel: Any = step) -> str:
    with pytest.raises(wp.LaunchError) as caught:
        wp.launch(kernel, dim=2, inputs=list(args))
    lines = str(caught.value).splitlines()
    return "\n".join([lines[0], lines[-1].removeprefix("  = ")])


def test_arguments_that_do_not_fit() -> None:
    out = wp.zeros(4)
    assert misfit(state(), bodies()) == (
        "launch of step: it takes 3 arguments (state: State, bodies: array(dtype=Body), "
        "out: array(dtype=float32)); got 2\nhint: pass out too"
    )
    assert misfit(Body(), bodies(), out).startswith(
        "launch of step: argument 'state' (number 1) must be State; got Body(pos=vec3("
    )
    assert misfit(State, bodies(), out).endswith("hint: pass an instance: State()")
    assert misfit(state().q, bodies(), out) == (
        "launch of step: argument 'state' (number 1) must be State; got array(dtype=vec3) of shape (4,)\n"
        "hint: pass an instance of State"
    )
    assert misfit(state(), out, out) == (
        "launch of step: argument 'bodies' (number 2) must be array(dtype=Body); "
        "got array(dtype=float32) of shape (4,)\nhint: pass array(dtype=Body)"
    )
    assert misfit(state(), bodies().reshape((2, 2)), out).startswith(
        "launch of step: argument 'bodies' (number 2) must be array(dtype=Body); "
        "got array(dtype=Body, ndim=2) of shape (2, 2)"
    )
    assert misfit(state(), bodies(), 3) == (
        "launch of step: argument 'out' (number 3) must be array(dtype=float32); got 3 (int)\n"
        "hint: pass array(…, dtype=float32)"
    )
    flat = [state().q, *(state().bodies[name] for name in ("pos", "mass")), 1.0]
    assert "it takes 3 arguments" in misfit(*flat)


def test_an_array_that_is_none() -> None:
    s, out = State(scale=2.5), wp.zeros(2)
    wp.launch(unused, dim=2, inputs=[s, out])
    assert out.numpy().tolist() == [2.5, 2.5]
    assert misfit(s, bodies(), out) == (
        "launch of step: `state.q` is None, and the kernel uses it\nhint: assign an array to it "
        "(array(dtype=vec3)), or ask before: `if state.q:`"
    )
    s.q = wp.zeros(2, dtype=wp.vec3)
    assert misfit(s, bodies(), out).startswith(
        "launch of step: `state.bodies` is None, and the kernel uses it\n"
    )


def test_a_struct_defined_again_differently() -> None:
    def define(kind: Any) -> Any:
        @wp.struct
        class Cell:
            a: kind

        return Cell

    old, new = define(float), define(int)

    @wp.kernel
    def k(c: old, out: wp.array(dtype=float)):
        out[0] = c.a

    assert misfit(new(1), wp.zeros(1), kernel=k).endswith("hint: define the kernel again after its struct")
    wp.launch(k, dim=1, inputs=[define(float)(2.0), wp.zeros(1)])


def test_plans_are_shared_between_instances() -> None:
    out = wp.zeros(4, requires_grad=True)
    for _ in range(3):
        wp.launch(step, dim=4, inputs=[state(), bodies()], outputs=[out])
    before = len(step.plans)
    wp.launch(step, dim=4, inputs=[state(), bodies()], outputs=[out])
    assert len(step.plans) == before


def test_launch_options() -> None:
    s, b, out = state(), bodies(), wp.zeros(4, requires_grad=True)
    wp.launch(step, dim=4, inputs=[s, b], outputs=[out])
    expected = out.numpy().copy()
    command = wp.launch(step, dim=4, inputs=[s, b], outputs=[out], record_cmd=True)
    assert not isinstance(command.params[0], wp.array)
    again, other = wp.zeros(4, requires_grad=True), state()
    other.scale = 0.0
    command.set_param_by_name("out", again)
    command.launch()
    assert np.array_equal(again.numpy(), expected)
    command.set_param_at_index(0, other)
    command.launch()
    assert not np.array_equal(again.numpy(), expected)
    with pytest.raises(wp.LaunchError, match=r"parameters are state, bodies, out"):
        command.set_param_by_name("state.q", s.q)

    seed, adj_b, adj_s = wp.array(np.ones(4, np.float32)), wp.zeros(4, dtype=Body), State()
    adj_s.q = wp.zeros(4, dtype=wp.vec3)
    adj_s.bodies = wp.zeros(4, dtype=Body)
    wp.launch(
        step,
        dim=4,
        inputs=[s, b],
        outputs=[out],
        adj_inputs=[adj_s, adj_b],
        adj_outputs=[seed],
        adjoint=True,
    )
    with wp.Tape() as tape:
        wp.launch(step, dim=4, inputs=[s, b], outputs=[out])
    tape.backward(grads={out: seed})
    assert np.array_equal(adj_b.numpy(), b.grad.numpy())
    assert np.array_equal(adj_s.q.numpy(), s.q.grad.numpy())
    assert adj_b.numpy()["mass"].all()
    with pytest.raises(wp.LaunchError, match=r"the adjoint of argument 'bodies' \(number 2\) must be array"):
        wp.launch(step, 4, [s, b], [out], adj_inputs=[None, seed], adjoint=True)


# Tapes -----------------------------------------------------------------------------------------------------


def program(**options: Any) -> tuple[Any, Any, Any, Any]:
    s, b = state(), bodies()
    out, loss = wp.zeros(4, requires_grad=True), wp.zeros(1, requires_grad=True)
    with wp.Tape(**options) as tape:
        wp.launch(step, dim=4, inputs=[s, b], outputs=[out])
        wp.launch(total, dim=4, inputs=[s.bodies], outputs=[loss])
        s.bodies["mass"].zero_()
        wp.launch(total, dim=4, inputs=[b], outputs=[loss])
    return tape, s, b, loss


def expected_loss(mass: Any, q: Any, b: Any) -> float:
    pos, x = b["pos"].astype(float), b["inner"]["x"].astype(float)
    far = np.sqrt((pos**2).sum(1))
    new = mass + 1.5 * q[:, 0]
    return float((new * x * pos[:, 2] * far).sum() + (mass * x * far).sum())


def test_gradients_survive_an_overwritten_field() -> None:
    tape, s, b, loss = program()
    tape.backward(loss)
    values, q = b.numpy(), s.q.numpy().astype(float)
    mass = values["mass"].astype(float)
    np.testing.assert_allclose(loss.numpy()[0], expected_loss(mass, q, values), rtol=1e-5)
    for k in range(4):
        unit = np.eye(4)[k]
        slope = expected_loss(mass + unit, q, values) - expected_loss(mass, q, values)
        np.testing.assert_allclose(b.grad.numpy()["mass"][k], slope, rtol=1e-4)
        moved = q.copy()
        moved[k, 0] += 1
        slope = expected_loss(mass, moved, values) - expected_loss(mass, q, values)
        np.testing.assert_allclose(s.q.grad.numpy()[k, 0], slope, rtol=1e-4)
    assert tape.gradients[b].numpy()["mass"].any()
    assert tape.gradients[b["mass"]].numpy().any()
    tape.zero()
    assert not b.grad.numpy()["mass"].any()


def test_only_the_field_that_is_overwritten_is_preserved() -> None:
    tape, s, _, _ = program()
    preserved = [v for v in tape.versions() if v.status == "preserved"]
    assert [(v.array.part, v.overwritten_by) for v in preserved] == [(".mass", 2)]
    with pytest.warns(wp.OverwriteWarning, match=r"'array' .* overwrites|overwrites values of 'bodies.mass'"):
        program(on_overwrite="warn")
    with pytest.raises(wp.OverwriteError, match="bodies.mass"):
        program(on_overwrite="error")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out, b = wp.zeros(4, requires_grad=True), bodies()
        with wp.Tape(on_overwrite="warn"):
            wp.launch(total, dim=4, inputs=[b], outputs=[out])
            b["on"].fill_(3)  # beside what the adjoint needs
    assert s.bodies.numpy()["mass"].tolist() == [0, 0, 0, 0]


def test_copies_and_clones_pass_gradients_field_by_field() -> None:
    b, loss = bodies(), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        c = wp.clone(b)
        d = wp.zeros_like(b)
        wp.copy(d, c)
        wp.launch(total, dim=4, inputs=[d], outputs=[loss])
    tape.backward(loss)
    direct, again = bodies(), wp.zeros(1, requires_grad=True)
    with wp.Tape() as plain:
        wp.launch(total, dim=4, inputs=[direct], outputs=[again])
    plain.backward(again)
    assert np.array_equal(b.grad.numpy(), direct.grad.numpy())


def test_seeds_of_struct_arrays() -> None:
    s, b, out = state(), bodies(), wp.zeros(4, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(step, dim=4, inputs=[s, b], outputs=[out])
    seed = wp.zeros(4, dtype=Body)
    seed["mass"].fill_(2.0)
    tape.backward(grads={s.bodies: seed})
    whole = b.grad.numpy().copy()
    tape.zero()
    tape.backward(grads={s.bodies["mass"]: np.full(4, 2.0, np.float32)})
    assert np.array_equal(whole, b.grad.numpy())
    assert whole["mass"].tolist() == [2, 2, 2, 2]
    with wp.Tape() as partial:
        wp.launch(square, dim=4, inputs=[b["mass"]], outputs=[b["inner"]["x"]])
    seed["inner"]["x"].fill_(1.0)
    partial.backward(grads={b: seed})  # no launch uses `pos`
    assert np.array_equal(b.grad.numpy()["mass"], 2 + 2 * b.numpy()["mass"])
    with pytest.raises(
        wp.TapeError, match=r"a key of grads, an array\(shape=\(4,\), dtype=Body\), is not on"
    ):
        partial.backward(grads={bodies(): seed})
    with pytest.raises(
        wp.TapeError, match=r"the loss must be a scalar; got an array\(shape=\(1,\), dtype=Body\)"
    ):
        tape.backward(wp.zeros(1, dtype=Body, requires_grad=True))


def test_replays_and_the_float64_twin() -> None:
    tape, s, b, loss = program()
    shadow = tape.replay()
    assert shadow.matches_live()
    twin = tape.replay(dtype=wp.float64)
    exact = expected_loss(b.numpy()["mass"].astype(float), s.q.numpy().astype(float), b.numpy())
    np.testing.assert_allclose(twin.values(loss)[0], exact, rtol=1e-12)
    changed = tape.replay(inputs={b["mass"]: np.full(4, 2.0, np.float32)}, dtype=wp.float64)
    expected = expected_loss(np.full(4, 2.0), s.q.numpy().astype(float), b.numpy())
    np.testing.assert_allclose(changed.values(loss)[0], expected, rtol=1e-12)
    n = b["inner"]["n"]
    assert n.numpy().tolist() == [1, 2, 3, 4]


# Checks and pictures ---------------------------------------------------------------------------------------


def test_gradchecks_see_the_fields() -> None:
    tape, s, b, _ = program()
    result = wp.autograd.gradcheck_tape(tape, show_summary=False)
    assert result.verdict == "AGREE"
    assert {(p.input, p.output) for p in result.pairs} >= {
        ("state.q", "state.bodies.mass"),
        ("bodies.inner.x", "out"),
        ("bodies.pos", "loss"),
    }
    out = wp.zeros(4, requires_grad=True)
    args: dict[str, Any] = {"dim": 4, "inputs": [s, b], "outputs": [out], "show_summary": False}
    for mask in ([("state", "out")], [(0, 0)], [("state.q", "out")]):
        found = wp.autograd.gradcheck(step, input_output_mask=mask, **args)
        assert [(p.input, p.output) for p in found.pairs] == [("state.q", "out")]
    found = wp.autograd.gradcheck(step, input_output_mask=[(1, "out")], **args)
    assert [p.input for p in found.pairs] == ["bodies.pos", "bodies.mass", "bodies.inner.x"]
    found = wp.autograd.gradcheck_tape(
        tape, input_output_masks={"step": [("bodies.mass", "state.bodies")]}, show_summary=False
    )
    assert {(p.input, p.output) for p in found.pairs if p.launch == 0} == {
        ("bodies.mass", f"state.bodies.{name}") for name in ("pos", "mass", "inner.x")
    }
    with pytest.raises(
        wp.GradcheckError, match="names the input 7; the inputs are 0: state.q, 0: state.scale, 1: "
    ):
        wp.autograd.gradcheck(step, input_output_mask=[(7, "out")], **args)
    with pytest.raises(wp.GradcheckError, match="names the input 'state.r'; the inputs are 0: state.q, 0: "):
        wp.autograd.gradcheck(step, input_output_mask=[("state.r", "out")], **args)


def test_jacobians_and_jvp() -> None:
    s, b, out = state(), bodies(), wp.zeros(4, requires_grad=True)
    found = wp.autograd.jacobian(step, 4, [s, b], [out], input_output_mask=[("bodies.mass", "out")])
    (matrix,) = found.values()
    values = b.numpy()
    new = values["mass"] + 1.5 * s.q.numpy()[:, 0]
    np.testing.assert_allclose(matrix.numpy(), np.diag(2 * new * values["pos"][0, 1]), rtol=1e-5)
    pushed = wp.autograd.jvp(step, 4, [s, b], [out], tangents={b["mass"]: np.ones(4)})
    np.testing.assert_allclose(pushed[out], matrix.numpy().sum(1), rtol=1e-5)


def test_whole_struct_arrays_stand_for_their_fields() -> None:
    tape, s, b, loss = program()
    tape.backward(loss)
    found = wp.autograd.end_to_end(tape, loss, [b, s])
    assert found.verdict == "AGREE"
    assert [check.array for check in found.inputs] == [
        b["pos"],
        b["mass"],
        b["inner"]["x"],
        s.q,
    ]
    assert wp.diagnose(tape, loss, inputs=[b]).verdict == "AGREE"
    values = b.numpy().copy()
    twin = tape.replay(dtype=wp.float64)
    assert np.array_equal(twin.values(b)["inner"]["n"], values["inner"]["n"])
    assert np.array_equal(twin.values(b)["pos"], values["pos"].astype(float))
    values["mass"] += 0.5
    changed = tape.replay(inputs={b: values}, dtype=wp.float64).values(loss)
    exact = expected_loss(values["mass"].astype(float), s.q.numpy().astype(float), values)
    np.testing.assert_allclose(changed[0], exact, rtol=1e-12)
    direction = np.zeros(4, Body.numpy_dtype())
    direction["mass"], direction["inner"]["n"] = 1.0, 7
    pushed = wp.autograd.jvp(tape, tangents={b: direction})[loss]
    np.testing.assert_allclose(pushed[0], b.grad.numpy()["mass"].sum(), rtol=1e-5)
    with pytest.raises(wp.TapeError, match=r"jvp: the tangent of the array\(shape=\(4,\), dtype=Body\) has"):
        wp.autograd.jvp(tape, tangents={b: np.ones(4)})
    product = wp.autograd.hvp(tape, loss=loss, tangents={b["mass"]: np.ones(4)}, inputs=[b])
    np.testing.assert_allclose(product.gradient[b["mass"]], b.grad.numpy()["mass"], rtol=1e-5)


def test_functions_of_record_func_may_use_struct_arrays() -> None:
    b, loss = bodies(), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        tape.record_func(lambda: b.grad["mass"].fill_(1.0), [b])
        wp.launch(total, dim=4, inputs=[b], outputs=[loss])
    tape.backward(loss)
    assert b.grad.numpy()["mass"].tolist() == [1, 1, 1, 1]


def test_a_script_makes_the_structs_again(tmp_path: Path) -> None:
    s, b, out = state(), bodies(), wp.zeros(4, requires_grad=True)
    result = wp.autograd.gradcheck(step, 4, [s, b], [out], show_summary=False)
    script = result.reproduce()
    assert (
        "class State:\n    q: wp.array(dtype=wp.vec3, ndim=1)\n    bodies: wp.array(dtype=Body, ndim=1)"
        in script
    )
    path = tmp_path / "again.py"
    path.write_text(script, encoding="utf-8")
    done = forked.run([str(path)])
    assert (done.returncode, done.stderr) == (0, "")
    assert "passed" in done.stdout


def test_a_function_may_take_structs() -> None:
    def simulate(s: Any, b: Any) -> Any:
        out = wp.zeros(4, requires_grad=True)
        wp.launch(step, dim=4, inputs=[s, b], outputs=[out])
        return out

    found = wp.autograd.gradcheck(simulate, inputs=[state(), bodies()], show_summary=False)
    assert found.verdict == "AGREE"
    of_b = {"b.pos", "b.mass", "b.inner.x"}
    assert {p.input for p in found.pairs} >= {"s.q", "s.bodies.mass", *of_b}


def test_traces_findings_and_labels_name_the_fields() -> None:
    tape, s, b, loss = program()  # the names are what labels are made of
    tape.backward(loss)
    assert s.bodies.shape == b.shape
    trace = tape.trace(values=True)
    labels = [a.label for a in trace.arrays]
    assert {"s.q", "s.bodies.mass", "b.inner.x", "loss"} <= set(labels)
    first = trace.launches[0]
    assert [a.name for a in first.args][:4] == [
        "state.q",
        "state.bodies.pos",
        "state.bodies.mass",
        "state.bodies.inner.x",
    ]
    assert [a.name for a in first.args if a.writes] == [
        *(f"state.bodies.{name}" for name in ("pos", "mass", "inner.x", "inner.n", "on")),
        "out",
    ]
    assert next(p for p in trace.kernels[0].params if p.name == "bodies.mass").type == "array(dtype=float32)"
    diagnosis = wp.diagnose(tape, loss)
    assert diagnosis.verdict == "AGREE"
    overwrites = [f for f in diagnosis.findings if f.rule == "overwrite"]
    assert "s.bodies.mass" in overwrites[0].message
    assert 'label="s.bodies' in tape.visualize() or "s.bodies" in tape.visualize()
    ignored, *_, lost = program(on_overwrite="ignore")
    ignored.backward(lost)
    wrong = wp.diagnose(ignored, lost)
    assert wrong.verdict == "WRONG"
    assert any(f.severity == "error" and "bodies.mass" in f.message for f in wrong.findings)


def test_structs_beside_plain_kernels() -> None:
    b, y = bodies(), wp.zeros(4, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, dim=4, inputs=[b["mass"]], outputs=[y])
    tape.backward(grads={y: np.ones(4, np.float32)})
    assert np.array_equal(b.grad.numpy()["mass"], 2 * b.numpy()["mass"])


def test_the_tape_has_the_gradients_of_a_struct_as_a_struct() -> None:
    state = State()
    state.q, state.scale = wp.array(np.ones((2, 3)), dtype=wp.vec3, requires_grad=True), 2.0
    state.bodies = wp.array([Body(mass=1.0), Body(mass=2.0)], dtype=Body)
    bodies, out = wp.clone(state.bodies, requires_grad=True), wp.zeros(2, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(step, dim=2, inputs=[state, bodies, out])
    tape.backward(grads={out: wp.ones_like(out)})
    found = tape.gradients[state]
    assert type(found) is State
    assert found.q.ptr == state.q.grad.ptr
    assert found.bodies is None, "an array without a gradient"
