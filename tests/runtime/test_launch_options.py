"""Launches that are not simply run: the adjoint by itself, and commands that are launched many times."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.runtime.launch import adjoint_launch
from tapedebug.runtime.launch.launch import resolve
from tests.runtime.kernels import cube_in_place, drift, move, scale, square


@wp.kernel(enable_backward=False)
def mute(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i]


@wp.kernel
def add_up(x: wp.array(dtype=float), total: wp.array(dtype=float)):
    wp.atomic_add(total, 0, x[wp.tid()] * x[wp.tid()])


def _vector(*values, **options):
    return wp.array(values, dtype=float, **options)


def test_the_adjoint_with_given_arrays():
    x, y = _vector(1, 2, 3), wp.zeros(3)
    adj_x, adj_y = wp.ones(3), _vector(1, 10, 100)
    wp.launch(square, 3, inputs=[x], outputs=[y], adj_inputs=[adj_x], adj_outputs=[adj_y], adjoint=True)
    assert adj_x.numpy().tolist() == [3, 41, 601]
    assert adj_y.numpy().tolist() == [1, 10, 100], "the caller's own array stays as it is"
    assert y.numpy().tolist() == [0, 0, 0], "the kernel itself does not run"
    wp.launch(scale, 3, inputs=[x, y, 2.0], adj_inputs=[adj_x, adj_y, None], adjoint=True)
    assert adj_x.numpy().tolist() == [5, 61, 801]


def test_the_adjoint_with_the_arrays_own_gradients():
    x, y = _vector(1, 2, 3, requires_grad=True), wp.zeros(3, requires_grad=True)
    y.grad.fill_(1)
    wp.launch(square, 3, inputs=[x], outputs=[y], adjoint=True)
    assert x.grad.numpy().tolist() == [2, 4, 6]
    assert y.grad.numpy().tolist() == [0, 0, 0], "used up, as in a reverse pass"
    total = wp.zeros(1, requires_grad=True)
    total.grad.fill_(1)
    wp.launch(add_up, 3, inputs=[x, total], adj_inputs=[None, None], adjoint=True)
    assert x.grad.numpy().tolist() == [4, 8, 12]
    assert total.grad.numpy().tolist() == [1], "an atomic addition overwrites nothing"


def test_the_adjoint_of_an_in_place_kernel_replaces_the_adjoint():
    x, adjoint = _vector(1, 2, 3), wp.ones(3)
    wp.launch(cube_in_place, 3, inputs=[x], adj_inputs=[adjoint], adjoint=True)
    assert adjoint.numpy().tolist() == [3, 12, 27]
    assert x.numpy().tolist() == [1, 2, 3]


@wp.kernel
def square_then_add(v: wp.array(dtype=float), x: wp.array(dtype=float)):
    i = wp.tid()
    v[i] = v[i] * v[i]
    x[i] = x[i] + v[i] * v[i]


def test_the_adjoint_of_a_kernel_that_reads_back_what_it_overwrote():
    """It is the transpose of the launch at the values in memory, which are those from before the launch."""
    v, x, adj_v, adj_x = _vector(3), _vector(1), wp.ones(1), wp.ones(1)
    wp.launch(square_then_add, 1, inputs=[v, x], adj_inputs=[adj_v, adj_x], adjoint=True)
    assert (adj_v.list(), adj_x.list()) == ([2 * 3 + 4 * 3**3], [1]), "of v² + x + v⁴"
    assert (v.list(), x.list()) == ([3], [1])
    wp.launch(square_then_add, 1, inputs=[v, x])  # now v is 9, and the adjoint is that of a second launch
    again, adj_x = wp.ones(1), wp.ones(1)
    wp.launch(square_then_add, 1, inputs=[v, x], adj_inputs=[again, adj_x], adjoint=True)
    assert again.list() == [2 * 9 + 4 * 9**3]
    v, x = _vector(3, requires_grad=True), _vector(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square_then_add, 1, inputs=[v, x])
    tape.backward(grads={v: wp.ones(1), x: wp.ones(1)})
    assert v.grad.list() == adj_v.list(), "a tape keeps the values from before"


def test_adjoints_of_other_strides():
    grid = wp.array(np.arange(6.0).reshape(3, 2), dtype=float)
    gradients = wp.zeros((2, 3))
    wp.launch(
        square,
        3,
        inputs=[grid[:, 1]],
        outputs=[wp.zeros(3)],
        adj_inputs=[gradients[0]],
        adj_outputs=[wp.full((3, 2), 1.0)[:, 0]],
        adjoint=True,
    )
    assert gradients.numpy().tolist() == [[2, 6, 10], [0, 0, 0]]


def test_adjoints_of_vectors_and_numbers():
    x, v = wp.zeros(2, dtype=wp.vec3), wp.zeros(2, dtype=wp.vec3)
    adj_x, adj_v = wp.zeros_like(x), wp.zeros_like(v)
    wp.launch(
        drift,
        2,
        inputs=[x, v, wp.vec3(0, 0, 1), 0.5],
        outputs=[wp.zeros_like(x)],
        adj_inputs=[adj_x, adj_v, None, 0.0],
        adj_outputs=[wp.ones_like(x)],
        adjoint=True,
    )
    assert adj_x.numpy().tolist() == [[1, 1, 1]] * 2
    assert adj_v.numpy().tolist() == [[0.5, 0.5, 0.5]] * 2


def test_the_adjoint_is_announced_and_not_recorded():
    x, y, z = _vector(1, 2, requires_grad=True), wp.zeros(2), wp.zeros(2, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[x], outputs=[z])
        wp.launch(square, 2, inputs=[y], outputs=[z], adj_inputs=[x], adj_outputs=[wp.ones(2)], adjoint=True)
    assert len(tape.records) == 1
    assert tape.outside[0].array.buffer is x.buffer
    wp.launch(square, 0, inputs=[wp.zeros(0)] * 2, adjoint=True)
    wp.launch(square, 2, inputs=[y], outputs=[y], adjoint=True)  # nothing has an adjoint: nothing to do


@wp.struct
class State:
    q: wp.array(dtype=float)
    v: wp.array(dtype=float)
    scale: float


@wp.kernel
def move_state(s: State, out: State):
    i = wp.tid()
    out.q[i] = s.q[i] * s.v[i] * s.scale


def _state(q, v, scale=2.0):
    made = State()
    made.q, made.v, made.scale = q, v, scale
    return made


def test_structs():
    """The adjoint of a struct is a struct like it; None stands for the gradients of its arrays."""
    x, v = _vector(1, 2, requires_grad=True), _vector(3, 4, requires_grad=True)
    out = _state(wp.zeros(2, requires_grad=True), wp.zeros(2))
    given = _state(wp.zeros(2), wp.zeros(2))
    wp.launch(
        move_state,
        2,
        inputs=[_state(x, v)],
        outputs=[out],
        adj_inputs=[given],
        adj_outputs=[_state(wp.ones(2), wp.zeros(2))],
        adjoint=True,
    )
    assert (given.q.list(), given.v.list()) == ([6, 8], [2, 4])
    out.q.grad.fill_(1)
    command = wp.launch(move_state, 2, inputs=[_state(x, v)], outputs=[out], adjoint=True, record_cmd=True)
    command.launch()
    assert (x.grad.list(), v.grad.list()) == ([6, 8], [2, 4])
    forward = wp.launch(move_state, 2, inputs=[_state(x, v), out], record_cmd=True)
    forward.set_param_by_name("s", _state(x, v, 10.0))
    forward.launch()
    assert out.q.list() == [30, 80]


def test_commands():
    x, y = _vector(1, 2, 3), wp.zeros(3)
    command = wp.launch(scale, 3, inputs=[x, y, 2.0], record_cmd=True)
    assert isinstance(command, wp.Launch)
    assert repr(command) == "<launch of scale, dim (3,)>"
    assert y.numpy().tolist() == [0, 0, 0]
    command.launch()
    assert y.numpy().tolist() == [2, 4, 6]
    command.set_param_at_index(2, 3.0)
    command.set_dim(2)
    command.launch()
    assert y.numpy().tolist() == [3, 6, 6]
    command.set_param_by_name("y", x)
    command.launch()
    assert x.numpy().tolist() == [3, 6, 3]
    command.set_params([y, x, 1.0])
    command.set_dim((3,))
    command.launch()
    assert x.numpy().tolist() == [3, 6, 6]


def test_commands_are_recorded_where_they_are_launched():
    x, y = _vector(1, 2, requires_grad=True), wp.zeros(2, requires_grad=True)
    command = wp.launch(square, 2, inputs=[x], outputs=[y], record_cmd=True)
    with wp.Tape() as tape:
        command.launch()
    assert tape.records[0].call_site.text.strip() == "command.launch()"
    tape.backward(grads={y: wp.ones(2)})
    assert x.grad.numpy().tolist() == [2, 4]
    silent = wp.launch(square, 2, inputs=[x], outputs=[y], record_cmd=True, record_tape=False)
    with wp.Tape() as tape:
        silent.launch()
    assert tape.records == []


def test_commands_of_adjoints():
    x, adj_x, adj_y = _vector(1, 2), wp.zeros(2), wp.ones(2)
    command = wp.launch(
        square, 2, [x], [wp.zeros(2)], adj_inputs=[adj_x], adj_outputs=[adj_y], adjoint=True, record_cmd=True
    )
    command.launch()
    other = wp.zeros(2)
    command.set_param_by_name("x", other, adjoint=True)
    command.launch()
    assert adj_x.numpy().tolist() == other.numpy().tolist() == [2, 4]


def _lines(error):
    return [line for line in str(error).splitlines() if not line.startswith(("  -->", "   |", "  = note:"))]


X, Y = wp.ones(3), wp.zeros(3)
COMMAND = wp.launch(move, 3, inputs=[X, Y], record_cmd=True)


@pytest.mark.parametrize(
    ("action", "lines"),
    [
        (
            lambda: wp.launch(square, 3, inputs=[X, Y], adj_inputs=[wp.zeros(2)], adjoint=True),
            [
                "launch of square: the adjoint of argument 'x' must be an array like it, shape=(3,), "
                "dtype=float32; got array(shape=(2,), dtype=float32)",
                "  = hint: pass zeros_like(array), or None for the array's own gradient",
            ],
        ),
        (
            lambda: wp.launch(square, 3, inputs=[X, Y], adj_inputs=[np.zeros(3)], adjoint=True),
            [
                "launch of square: the adjoint of argument 'x' must be an array like it, shape=(3,), "
                "dtype=float32; got array([0., 0., 0.])",
                "  = hint: pass zeros_like(array), or None for the array's own gradient",
            ],
        ),
        (
            lambda: wp.launch(square, 3, inputs=[X, Y], adj_inputs=[X, X, X], adjoint=True),
            [
                "launch of square: it has 2 arguments and 3 adjoints",
                "  = hint: pass one adjoint for each argument, None for an array's own gradient",
            ],
        ),
        (
            lambda: wp.launch(mute, 3, inputs=[X, Y], adj_inputs=[wp.zeros(3), wp.zeros(3)], adjoint=True),
            [
                "launch of mute: the kernel has no adjoint (enable_backward=False)",
                "  = hint: decorate it with @kernel alone, or leave out adjoint=True",
            ],
        ),
        (
            lambda: wp.launch(len, 3, inputs=[X], adjoint=True),
            [
                "launch: the first argument must be a kernel; got the function 'len'",
                "  = hint: decorate the function with @kernel",
            ],
        ),
        (
            lambda: wp.launch(None, 3, inputs=[X], record_cmd=True),
            [
                "launch: the first argument must be a kernel; got None (NoneType)",
                "  = hint: decorate the function with @kernel",
            ],
        ),
        (
            lambda: COMMAND.set_param_at_index(2, X),
            ["launch of move: there is no parameter number 2; it has 2", "  = hint: pass 0 to 1"],
        ),
        (
            lambda: COMMAND.set_param_by_name("z", X),
            ["launch of move: there is no parameter 'z'", "  = hint: its parameters are x, y"],
        ),
        (
            lambda: COMMAND.set_param_at_index(0, 1.0),
            [
                "launch of move: argument 'x' (number 1) must be array(dtype=float32); got 1.0 (float)",
                "  = hint: pass array(…, dtype=float32)",
            ],
        ),
        (
            lambda: COMMAND.set_dim(-1),
            ["launch of move: dim cannot be negative; got -1", "  = hint: pass sizes of 0 or more"],
        ),
    ],
)
def test_messages(action, lines):
    with pytest.raises(wp.LaunchError) as caught:
        action()
    assert _lines(caught.value) == lines
    assert COMMAND.params == [X, Y]
    assert COMMAND.dim == (3,)


@wp.kernel
def weigh(x: wp.array(dtype=float), w: wp.array(dtype=float), y: wp.array(dtype=float), k: float):
    i = wp.tid()
    y[i] = w[i] * x[(i + 1) % x.shape[0]] * k
    wp.atomic_add(w, 0, x[i])


def _pulled(monkeypatch, apart):
    """Gradients, and what was noted of them, after adjoint launches that do or do not go the short way."""
    if not apart:
        monkeypatch.setattr(adjoint_launch, "_is_apart", lambda plan, args: False)
    random = np.random.default_rng(5)
    found = []
    for n in (1, 3, 300):
        x, w, y, given = (wp.array(random.standard_normal(n), dtype=float) for _ in range(4))
        strided = wp.array(random.standard_normal((n, 2)), dtype=float)[:, 0]
        for a in (x, w, y):
            a.requires_grad = True
        y.grad.assign(given)
        wp.launch(square, n, inputs=[x, y], adjoint=True)
        wp.launch(square, n, inputs=[x, y], adj_outputs=[x.grad, given], adjoint=True)
        wp.launch(weigh, n, inputs=[x, w, y, 0.5], adj_inputs=[None, None, given], adjoint=True)
        wp.launch(square, n, inputs=[strided, y], adj_inputs=[wp.zeros(n), given], adjoint=True)
        wp.launch(square, n, inputs=[x, x], adj_inputs=[None, None], adjoint=True)
        wp.launch(move, n, inputs=[x.grad, y], adj_inputs=[given, None], adjoint=True)
        arrays = [x.grad, w.grad, y.grad, given]
        notes = [(e.kind, e.how, e.start, e.stop) for a in arrays[:3] for e in a.buffer.history.events]
        found.append((notes, [a.numpy().tolist() for a in arrays]))
    return found


def test_the_adjoint_alone_is_the_same_on_both_its_ways(monkeypatch):
    short = _pulled(monkeypatch, True)
    assert short == _pulled(monkeypatch, False)
    assert any(short[0][0])


def test_no_adjoint_is_copied_that_stays_as_it_is(monkeypatch):
    x, total, adjoint = wp.ones(3), wp.zeros(1), _vector(2)
    monkeypatch.setattr(adjoint_launch, "new", None)
    adj_x = wp.zeros(3)
    wp.launch(add_up, 3, inputs=[x, total], adj_inputs=[adj_x, adjoint], adjoint=True)
    assert (adj_x.numpy().tolist(), adjoint.numpy().tolist()) == ([4, 4, 4], [2])


def test_which_adjoints_go_the_short_way():
    def is_short(kernel, *args):
        plan, flat = resolve(kernel, args)
        return adjoint_launch._is_apart(plan, flat)

    x, y = (wp.zeros(4, requires_grad=True) for _ in range(2))
    assert is_short(square, x, y)
    assert not is_short(square, x, x)
    assert not is_short(square, x[:2], x[2:])
    assert not is_short(cube_in_place, x)
    assert not is_short(square, x.grad, y)
    assert is_short(add_up, x, wp.zeros(1, requires_grad=True))


# -- kernels that overwrite what they read -----------------------------------------------------------


@wp.kernel
def reread(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] * x[i]
    x[i] = x[i] * x[i] + x[i]


@wp.kernel
def through_other(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]
    x[i] = y[i] * x[i]
    y[i] = y[i] + x[i]


@wp.kernel
def rounds(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    for _ in range(2 + y.shape[0] % 4):
        x[i] = x[i] * wp.sin(x[i]) + y[i]
        if x[i] > 0.5:
            y[i] = y[i] * x[i]


@wp.kernel
def neighbours(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = y[i] * x[i]
    x[i] = y[i] * y[i]
    wp.atomic_add(y, 0, x[i] * 0.5)


@wp.struct
class Pair:
    x: wp.array(dtype=float)
    y: wp.array(dtype=wp.vec2)


@wp.kernel
def of_struct(pair: Pair):
    i = wp.tid()
    pair.x[i] = pair.x[i] * pair.x[i]
    pair.y[i] = pair.y[i] * pair.x[i]
    pair.x[i] = pair.x[i] * pair.y[i][0]


def _reversed(kernel, arrays, seeds, *, taped):
    """The adjoints after a launch's, by a tape or by themselves; memory holds the values from before."""
    arguments = arrays
    if kernel is of_struct:
        arguments = [Pair()]
        arguments[0].x, arguments[0].y = arrays
    if taped:
        with wp.Tape() as tape:
            wp.launch(kernel, len(arrays[0]), inputs=arguments)
        tape.backward(grads=dict(zip(arrays, seeds, strict=True)))
        return [a.grad.numpy() for a in arrays]
    values = [a.numpy().copy() for a in arrays]
    for a, seed in zip(arrays, seeds, strict=True):
        a.grad.assign(seed)
    wp.launch(kernel, len(arrays[0]), inputs=arguments, adjoint=True)
    for a, before in zip(arrays, values, strict=True):
        np.testing.assert_array_equal(a.numpy(), before)  # nothing but adjoints changes
    return [a.grad.numpy() for a in arrays]


@pytest.mark.parametrize("layout", ["whole", "reversed", "strided", "one buffer"])
@pytest.mark.parametrize("size", [1, 5, 3000])
@pytest.mark.parametrize(
    "kernel", [reread, through_other, rounds, neighbours, of_struct], ids=lambda kernel: kernel.key
)
def test_the_adjoint_alone_is_that_of_a_tape(kernel, size, layout):
    count = 1 if kernel is reread else 2
    dtypes = [wp.float32, wp.vec2] if kernel is of_struct else [wp.float32] * count

    def laid_out(values, dtype):
        shape = {"strided": (size, 2), "one buffer": (2 * size,)}.get(layout, (size,))
        a = wp.zeros(shape, dtype=dtype, requires_grad=True)
        a = {"whole": a, "reversed": a[::-1], "strided": a[:, 1] if a.ndim == 2 else a}.get(layout, a[size:])
        a.assign(values)
        return a

    def made():
        random = np.random.default_rng(size)
        shapes = [(size, 2) if dtype is wp.vec2 else (size,) for dtype in dtypes]
        values = [(0.3 + 0.5 * random.random(shape)).astype(np.float32) for shape in shapes]
        arrays = [laid_out(found, dtype) for found, dtype in zip(values, dtypes, strict=True)]
        seeds = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
        return arrays, [wp.array(s, dtype=d) for s, d in zip(seeds, dtypes, strict=True)]

    for mine, right in zip(
        _reversed(kernel, *made(), taped=False), _reversed(kernel, *made(), taped=True), strict=True
    ):
        np.testing.assert_allclose(mine, right, rtol=2e-5, atol=1e-6)


def test_an_adjoint_of_ones_own_stays_where_stores_are_done_again():
    x, y = _vector(3.0), _vector(2.0)
    adj_x, adj_y = _vector(1.0), _vector(1.0)
    wp.launch(
        through_other, 1, inputs=[x], outputs=[y], adj_inputs=[adj_x], adj_outputs=[adj_y], adjoint=True
    )
    # x and y become x³ and x² + x³: 3x² + 2x + 3x² = 60 at 3
    assert adj_x.numpy().tolist() == [60.0]
    assert adj_y.numpy().tolist() == [0.0]
    assert (x.numpy().tolist(), y.numpy().tolist()) == ([3.0], [2.0])
