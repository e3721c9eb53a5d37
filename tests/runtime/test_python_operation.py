"""Python operations on tapes: run, recorded, reversed, replayed, and refused with a message."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp
from tapedebug import contract
from tests.runtime.kernels import square, total

rng = np.random.default_rng(3)
MATRIX = rng.normal(size=(3, 3)) + 4 * np.eye(3)


def solve(b):
    return np.linalg.solve(MATRIX.astype(b.dtype), b)


def solve_backward(values, adjoints):
    return np.linalg.solve(MATRIX.T.astype(adjoints[0].dtype), adjoints[0])


def solve_jvp(values, tangents):
    return solve(tangents[0])


def vector(*values, grad=True):
    return wp.array(list(values), dtype=float, requires_grad=grad)


def solved(jvp=solve_jvp, backward=solve_backward, mode="preserve", budget=None):
    """Return the tape of loss = Σ (A⁻¹ x²)², and its arrays."""
    x, b, y, z = vector(1, 2, 3), *(wp.zeros(3, requires_grad=True) for _ in range(3))
    loss = wp.zeros(1, requires_grad=True)
    with wp.Tape(mode, memory_budget=budget) as tape:
        wp.launch(square, 3, inputs=[x, b])
        wp.launch_python(solve, backward, reads=[b], writes=[y], jvp=jvp)
        wp.launch(square, 3, inputs=[y, z])
        wp.launch(total, 3, inputs=[z, loss])
    return tape, x, y, loss


def exact(x):
    """Return the loss and its gradient at x."""
    y = np.linalg.solve(MATRIX, x**2)
    return (y**2).sum(), 2 * x * np.linalg.solve(MATRIX.T, 2 * y)


def test_it_runs_at_once_and_without_a_tape():
    b, y = vector(1, 2, 3, grad=False), wp.zeros(3)
    wp.launch_python(solve, solve_backward, [b], [y])
    np.testing.assert_allclose(y.numpy(), np.linalg.solve(MATRIX, [1, 2, 3]), rtol=1e-6)
    _, x, _, loss = solved()
    np.testing.assert_allclose(loss.numpy()[0], exact(x.numpy().astype(float))[0], rtol=1e-5)


def test_it_is_recorded_as_an_operation():
    tape, *_ = solved()
    record = tape.operations[1]
    assert (record.kind, record.name, record.dim, record.has_adjoint) == ("python", "solve", (), True)
    assert [(a.name, a.reads, a.writes, a.needs_before, a.active) for a in record.accesses] == [
        ("b", True, False, True, True),
        ("writes[0]", False, True, False, True),
    ]
    assert record.call_site.text.strip().startswith("wp.launch_python(solve, backward")
    source = record.capability(contract.KernelSource)
    assert (source.text.name, source.text.lines[0], source.text.file) == ("solve", "def solve(b):", __file__)
    assert record.capability(contract.HandWrittenAdjoint).text.name == "solve_backward"
    assert tape.operations[0].capability(contract.HandWrittenAdjoint) is None


@pytest.mark.parametrize("mode", ["preserve", "error", "ignore"])
def test_the_tape_reverses_it(mode):
    tape, x, y, loss = solved(mode=mode)
    for _ in range(2):
        tape.zero()
        tape.backward(loss)
        np.testing.assert_allclose(x.grad.numpy(), exact(x.numpy().astype(float))[1], rtol=1e-5)
    assert y.grad.numpy().tolist() == [0, 0, 0], "used up"


def test_replays_run_it_in_float32_and_float64():
    tape, x, _, loss = solved()
    assert tape.replay().matches_live()
    for wide, rtol in ((False, 1e-5), (True, 1e-13)):
        at = np.array([0.5, -1.5, 2.5])
        replay = tape.new_replay(float64=wide)
        replay.set(x, at)
        replay.forward().backward({loss: np.ones(1)})
        value, gradient = exact(at)
        np.testing.assert_allclose(replay.values(loss)[0], value, rtol=rtol)
        np.testing.assert_allclose(replay.gradient(x), gradient, rtol=rtol)
    assert tape.replay().uncovered == []
    assert tape.operations[1].plan.operation.narrow == ""


def test_tangents_go_through_jvp_and_are_said_to_be_lost_without_it():
    for jvp in (solve_jvp, None):
        tape, x, _, loss = solved(jvp)
        replay = tape.capability(contract.Tangents).tangent_replay(float64=True)
        replay.push({x: np.array([1.0, 0.0, 0.0])})
        if jvp is None:
            assert replay.lost == ["record 1 is a Python operation without jvp (solve)"]
            assert replay.tangent(loss)[0] == 0
        else:
            assert replay.lost == []
            np.testing.assert_allclose(
                replay.tangent(loss)[0], exact(x.numpy().astype(float))[1][0], rtol=1e-12
            )


def test_values_that_it_read_are_kept_when_they_are_overwritten():
    def cube(x):
        return x**3

    x, y, loss = vector(1, 2), wp.zeros(2, requires_grad=True), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch_python(cube, lambda values, adjoints: 3 * values[0] ** 2 * adjoints[0], [x], [y])
        wp.launch(total, 2, inputs=[y, loss])
        x.fill_(7)
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [3, 12]
    x2 = vector(1, 2)
    with wp.Tape() as tape:
        wp.launch_python(cube, lambda values, adjoints: 3 * values[0] ** 2 * adjoints[0], [x2], [y])
        loss.zero_()
        wp.launch(total, 2, inputs=[y, loss])
        wp.launch(square, 2, inputs=[y, x2])
    tape.backward(loss)
    assert x2.grad.numpy().tolist() == [3, 12]
    with wp.Tape("error"), pytest.raises(wp.OverwriteError, match="cube"):
        wp.launch_python(cube, lambda values, adjoints: 3 * values[0] ** 2 * adjoints[0], [x2], [y])
        wp.launch(square, 2, inputs=[y, x2])


def test_an_array_may_be_read_and_written():
    x, loss = vector(1, 2), wp.zeros(1, requires_grad=True)

    def double_square(x):
        x *= x  # declared: it may
        return x

    def backward(values, adjoints):
        return 2 * values[0] * adjoints[0]

    with wp.Tape() as tape:
        wp.launch_python(double_square, backward, [x], [x])
        wp.launch_python(double_square, backward, [x], [x])
        wp.launch(total, 2, inputs=[x, loss])
    assert [access.name for access in tape.operations[0].accesses] == ["x"]
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [4, 4 * 2**3]
    for wide in (False, True):
        replay = tape.new_replay(float64=wide).forward()
        assert replay.values(loss).tolist() == [17]
        assert replay.backward({loss: np.ones(1)}).gradient(x).tolist() == [4, 32]


def test_vectors_views_several_arrays_and_no_gradient():
    p = wp.array(rng.normal(size=(4, 3)), dtype=wp.vec3, requires_grad=True)
    weight, index = vector(0.5, 2.0), wp.array([1, 3], dtype=int)
    near, size = wp.zeros(2, dtype=wp.vec3, requires_grad=True), wp.zeros(2, requires_grad=True)

    def look_up(p, weight, index):
        return p[index] * weight[:, None], (p[index] ** 2).sum(1)

    def backward(values, adjoints):
        p, weight, index = values
        back = np.zeros_like(p)
        np.add.at(back, index, adjoints[0] * weight[:, None] + 2 * p[index] * adjoints[1][:, None])
        return back, (adjoints[0] * p[index]).sum(1), None

    with wp.Tape() as tape:
        wp.launch_python(look_up, backward, [p, weight, index], [near, size], name="look up")
    tape.backward(grads={near: wp.ones(2, dtype=wp.vec3), size: wp.ones(2)})
    rows = p.numpy()[[1, 3]]
    np.testing.assert_allclose(weight.grad.numpy(), rows.sum(1), rtol=1e-5)
    np.testing.assert_allclose(p.grad.numpy()[[1, 3]], weight.numpy()[:, None] + 2 * rows, rtol=1e-5)
    assert tape.records[0].name == "look up"
    assert tape.new_replay(float64=True).forward().values(near).dtype == np.float64


def test_a_memory_budget_runs_it_again():
    x, y, loss = vector(*np.linspace(0.5, 1, 100)), wp.zeros(100, requires_grad=True), vector(0)
    with wp.Tape(memory_budget=6000) as tape:
        for _ in range(10):
            wp.launch_python(np.sin, lambda values, adjoints: np.cos(values[0]) * adjoints[0], [x], [y])
            wp.launch_python(lambda y: y * 1.5, lambda values, adjoints: 1.5 * adjoints[0], [y], [x])
        wp.launch(total, 100, inputs=[x, loss])
    tape.backward(loss)
    assert tape.backward_calls[-1].reran > 0
    replay = tape.new_replay().forward().backward({loss: np.ones(1)})
    np.testing.assert_array_equal(x.grad.numpy(), replay.gradient(x))


# ---------------------------------------------------------------------------------------- messages


def scale(values, adjoints):
    return 2 * adjoints[0]


def changed(x):
    x[0] = 9
    return x


X, Y = vector(1, 2), vector(0, 0)


@pytest.mark.parametrize(
    ("call", "lines"),
    [
        (
            lambda: wp.launch_python(changed, scale, [X], [Y]),
            [
                "launch_python of changed: forward changed its argument x (reads[0]) in place, which is not "
                "among writes",
                "  = hint: let it copy the argument, or pass the array in writes too and return its new "
                "values",
            ],
        ),
        (
            lambda: wp.launch_python(lambda x: None, scale, [X], [Y], name="gone"),
            [
                "launch_python of gone: forward returned None for writes[0]",
                "  = hint: return a NumPy array of shape (2,)",
            ],
        ),
        (
            lambda: wp.launch_python(lambda x: x[:1], scale, [X], [Y], name="cut"),
            [
                "launch_python of cut: forward returned shape (1,) for writes[0], whose shape is (2,)",
                "  = hint: return an array of shape (2,)",
            ],
        ),
        (
            lambda: wp.launch_python(lambda x: x * 1j, scale, [X], [Y], name="turn"),
            [
                "launch_python of turn: forward returned complex64 for writes[0], which holds float32",
                "  = hint: return values of float32, for example with .astype",
            ],
        ),
        (
            lambda: wp.launch_python(lambda x: (x, x), scale, [X], [Y], name="two"),
            [
                "launch_python of two: forward returned 2 values, and writes has 1 array",
                "  = hint: return a tuple of 1, in the order of writes",
            ],
        ),
        (
            lambda: wp.launch_python(np.sin, None, [X], [Y]),
            [
                "launch_python of sin: backward must be callable; got None",
                "  = hint: pass a function",
            ],
        ),
        (
            lambda: wp.launch_python(np.sin, scale, X, [Y]),
            [
                f"launch_python of sin: reads must be a list of arrays; got {X!r}",
                "  = hint: pass reads=[array]",
            ],
        ),
        (
            lambda: wp.launch_python(np.sin, scale, [np.ones(2)], [Y]),
            [
                "launch_python of sin: reads[0] must be an array of numbers, vectors or matrices; "
                "got array([1., 1.])",
                "  = hint: pass an array",
            ],
        ),
        (
            lambda: wp.launch_python(np.sin, scale, [X], []),
            [
                "launch_python of sin: writes is empty",
                "  = hint: name the arrays that it computes",
            ],
        ),
        (
            lambda: wp.launch_python(np.sin, scale, [X], [Y, Y[1:]]),
            [
                "launch_python of sin: writes[0] and writes[1] share memory",
                "  = hint: write each element through one array",
            ],
        ),
    ],
)
def test_messages(call, lines):
    with wp.Tape() as tape, pytest.raises(wp.LaunchError) as caught:
        call()
    head, place, source, carets, *rest = str(caught.value).splitlines()
    assert [head, *rest] == lines
    assert place.startswith(f"  --> {__file__}:")
    assert source[carets.index("^") :].startswith("wp.launch_python(")
    assert tape.records == []
    assert (X.list(), Y.list()) == ([1, 2], [0, 0])


@pytest.mark.parametrize(
    ("backward", "line"),
    [
        (lambda v, a: a[0][:1], "backward returned an adjoint of shape (1,) for x, whose shape is (2,)"),
        (lambda v, a: (a[0], a[0]), "backward returned 2 values, and reads has 1 array"),
    ],
)
def test_messages_of_the_reverse_pass(backward, line):
    x, y = vector(1, 2), vector(0, 0)
    with wp.Tape() as tape:
        wp.launch_python(lambda x: 2 * x, backward, [x], [y], name="double")
    x.grad.fill_(5)
    with pytest.raises(wp.LaunchError) as caught:
        tape.backward(grads={y: wp.ones(2)})
    assert str(caught.value).splitlines()[0] == f"launch_python of double: {line}"
    assert (x.grad.list(), y.grad.list()) == ([5, 5], [0, 0]), "as they were"


def test_exceptions_of_the_functions_pass_through():
    x, y = vector(1, 2), vector(3, 4)

    def fails(*anything):
        raise KeyError("mine")

    with wp.Tape() as tape:
        with pytest.raises(KeyError, match="mine"):
            wp.launch_python(fails, scale, [x], [y])
        assert (tape.records, y.list()) == ([], [3, 4])
        wp.launch_python(lambda x: 2 * x, fails, [x], [y])
    x.grad.fill_(5)
    with pytest.raises(KeyError, match="mine"):
        tape.backward(grads={y: wp.ones(2)})
    assert (x.grad.list(), y.grad.list()) == ([5, 5], [0, 0])
    with pytest.raises(KeyError, match="mine"):
        tape.new_replay(float64=True).forward().backward({y: np.ones(2)})


def test_no_gradient_and_launches_inside():
    x, y, inner = vector(1, 2), vector(0, 0), wp.zeros(2)

    def forward(x):
        wp.launch(square, 2, inputs=[wp.array(x.astype(np.float32), dtype=float), inner])
        return inner.numpy().copy()

    with wp.Tape() as tape:
        wp.launch_python(forward, lambda values, adjoints: None, [x], [y])
    assert [record.name for record in tape.records] == ["forward"], "what it launches is part of it"
    tape.backward(grads={y: wp.ones(2)})
    assert (y.list(), x.grad.list()) == ([1, 4], [0, 0])


# ------------------------------------------------------------------------------------ float64, coverage


def test_functions_that_do_not_follow_float64_are_measured():
    x, y = vector(1, 2), vector(0, 0)

    def strict(x):
        if x.dtype != np.float32:
            raise TypeError("float32 only")
        return 2 * x

    cases = {
        "": lambda x: 2 * x,
        "forward raises TypeError if it is given float64": strict,
        "forward returns float32, given float64": lambda x: (2 * x).astype(np.float32),
    }
    for why, forward in cases.items():
        with wp.Tape() as tape:
            wp.launch_python(forward, scale, [x], [y], name="f")
        obstacle = tape.capability(contract.Float64).obstacle()
        assert obstacle == (f"record 0 (f) computes in float32: {why}" if why else "")
        replay = tape.new_replay(float64=True).forward().backward({y: np.ones(2)})
        assert (replay.values(y).tolist(), replay.gradient(x).tolist()) == ([2, 4], [2, 2])


def test_record_func_is_irreplayable():
    x = vector(1, 2)
    with wp.Tape() as tape:
        wp.launch_python(lambda x: 2 * x, scale, [x], [Y])
        tape.record_func(lambda: None, [x])
    assert tape.operations[0].capability(contract.Irreplayable) is None
    reason = tape.operations[1].capability(contract.Irreplayable).reason()
    assert reason == "record 1 is a custom function (<lambda>), which is not replayed"
    assert tape.new_replay().uncovered == [reason]


def test_one_array_may_be_several_arguments():
    x, y = vector(1, 2, 3), wp.zeros(3, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch_python(lambda a, b: a * b, lambda v, a: (v[1] * a[0], v[0] * a[0]), [x, x], [y])
    tape.backward(grads={y: wp.ones(3)})
    assert y.numpy().tolist() == [1, 4, 9]
    assert x.grad.numpy().tolist() == [2, 4, 6]
    assert tape.replay().matches_live()
