"""`map` and arithmetic on arrays: values, gradients, broadcasting, what traces show, and messages."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import gradcheck_tape
from tests import forked

pytestmark = pytest.mark.unoptimized

SCALE = 3.0


@wp.func
def both(a: float, b: float):
    return a + b, a * b


@wp.func
def stretch(v: wp.vec3, s: float):
    return v * s


@wp.func
def nothing(a: float):
    b = a  # noqa: F841 - a function that gives no value


def plain(a, b):
    return wp.sin(a) * b * SCALE


def _array(*values, **options):
    return wp.array(values, dtype=options.pop("dtype", float), **options)


def _numbers(*shape, seed=0, low=0.5, high=2.0):
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


X, Y = _array(1, 2, 3), _array(4, 5, 6)


def test_functions_of_every_kind():
    np.testing.assert_allclose(wp.map(wp.sin, X).numpy(), np.sin([1, 2, 3]), rtol=1e-6)
    total, product = wp.map(both, X, Y)
    assert (total.list(), product.list()) == ([5, 7, 9], [4, 10, 18])
    assert wp.map(both, X, 2)[1].list() == [2, 4, 6], "the int is a float, as the parameter declares"
    np.testing.assert_allclose(wp.map(plain, X, 2.0).numpy(), np.sin([1, 2, 3]) * 6, rtol=1e-6)
    assert wp.map(lambda a: a * 2.0 + 1.0, X).list() == [3, 5, 7]
    assert [f for f in (wp.map(lambda a: a, X), wp.map(lambda a: -a, X))][1].list() == [-1, -2, -3]
    assert wp.map(wp.vec3, X, Y, 1.0).list()[0] == wp.vec3(1, 4, 1)
    assert wp.map(int, _array(1.5, 2.5)).dtype is wp.int32
    assert wp.map(abs, -X).list() == [1, 2, 3]
    assert wp.map(wp.clamp, X, 1.5, 2.5).list() == [1.5, 2, 2.5]
    assert wp.map(stretch, wp.ones(3, dtype=wp.vec3), X).list()[2] == wp.vec3(3, 3, 3)
    assert wp.map(stretch, wp.vec3(1, 0, 0), X).list()[2] == wp.vec3(3, 0, 0)
    assert wp.map(lambda a: 7, X).dtype is wp.int32


@wp.struct
class Particle:
    place: wp.vec3
    mass: float


def test_structs():
    p = wp.zeros(2, dtype=Particle)
    p.fill_(Particle(place=wp.vec3(1, 2, 3), mass=2.0))
    assert wp.map(lambda s: s.mass * 2.0, p).list() == [4, 4]
    assert wp.map(lambda s, k: s.place * k, p, 3.0).list()[1] == wp.vec3(3, 6, 9)
    with pytest.raises(wp.KernelTypeError) as caught:
        p + 1.0
    assert _shown(caught.value)[1:3] == ["   |         p + 1.0", "   |         ^^^^^^^"]


def test_indexed_arrays():
    data = _array(1, 2, 3, 4, requires_grad=True)
    chosen = wp.indexedarray(data, wp.array([3, 0, 3], dtype=int))
    with wp.Tape() as tape:
        result = wp.map(lambda a, b: a * a * b, chosen, 2.0)
    assert (result.list(), result.requires_grad) == ([32, 2, 32], True)
    tape.backward(grads={result: wp.ones(3)})
    assert data.grad.list() == [4, 0, 0, 32]
    assert wp.map(wp.max, chosen, wp.ones((2, 1))).shape == (2, 3)
    wp.map(lambda a: a + 1.0, chosen, out=data[0:3])
    assert data.list() == [5, 2, 5, 4]


def test_captured_numbers_are_part_of_a_lambda():
    def scaled(k):
        return wp.map(lambda a: a * k, X).list()

    assert [scaled(2.0), scaled(3.0), scaled(2.0)] == [[2, 4, 6], [3, 6, 9], [2, 4, 6]]


def test_one_kernel_for_each_kind_of_arguments():
    def kernel(*inputs):
        return wp.map(both, *inputs, return_kernel=True)

    assert kernel(X, Y) is kernel(wp.ones(5), wp.zeros(5))
    assert kernel(X, Y) is not kernel(X, 2.0)
    assert kernel(X, wp.ones((2, 3))) is kernel(Y, wp.zeros((7, 3)))
    assert kernel(X, wp.ones((2, 1))) is not kernel(X, wp.ones((2, 3)))
    made = kernel(X, Y)
    assert made.key == "map_both"
    first, second = wp.zeros(3), wp.zeros(3)
    wp.launch(made, 3, inputs=[X, Y], outputs=[first, second])
    assert second.list() == [4, 10, 18]


def test_outputs():
    out = wp.zeros(3)
    assert wp.map(wp.sin, X, out=out) is out
    assert out.list()[0] == pytest.approx(np.sin(1))
    pair = [wp.zeros(3), wp.zeros(3)]
    assert wp.map(both, X, Y, out=pair) == pair
    assert pair[0].list() == [5, 7, 9]
    assert wp.map(wp.sin, wp.zeros(0)).shape == (0,)
    with_gradient = _array(1, 2, requires_grad=True)
    assert wp.map(wp.sin, with_gradient).requires_grad
    assert not wp.map(int, with_gradient).requires_grad
    values = np.ones(3, np.float32)
    assert wp.map(both, values, X)[0].list() == [2, 3, 4]


@pytest.mark.parametrize(
    "shapes",
    [((2, 3), (3,)), ((2, 1), (1, 3)), ((4, 1, 2), (3, 1)), ((1,), (5,)), ((2, 3, 1, 2), (1, 1, 4, 1))],
)
def test_broadcasting_with_gradients(shapes):
    a, b = (_numbers(*shape, seed=i) for i, shape in enumerate(shapes))
    left = wp.array(a, dtype=float, requires_grad=True)
    right = wp.array(b, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        product = left * right
    np.testing.assert_array_equal(product.numpy(), a * b)
    tape.backward(grads={product: wp.ones_like(product)})
    full = np.broadcast_shapes(*shapes)
    for array, other in ((left, b), (right, a)):
        wanted = np.broadcast_to(other, full)
        lead = tuple(range(len(full) - array.ndim))
        ones = tuple(len(lead) + i for i, n in enumerate(array.shape) if n == 1)
        summed = wanted.sum(axis=lead + ones).reshape(array.shape)
        np.testing.assert_allclose(array.grad.numpy(), summed, rtol=1e-5)


OPERATIONS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
}


@pytest.mark.parametrize("sign", OPERATIONS)
def test_arithmetic(sign):
    operation = OPERATIONS[sign]
    a, b = _numbers(4), _numbers(4, seed=1)
    left, right = wp.array(a, requires_grad=True), wp.array(b, requires_grad=True)
    for ours, wanted in (
        (operation(left, right), operation(a, b)),
        (operation(left, 3), operation(a, np.float32(3))),
        (operation(2.5, right), operation(np.float32(2.5), b)),
        (operation(np.float32(2), right), operation(np.float32(2), b)),
        (operation(left, b), operation(a, b)),
        (operation(a, right), operation(a, b)),
    ):
        assert isinstance(ours, wp.array)
        assert ours.requires_grad
        np.testing.assert_allclose(ours.numpy(), wanted, rtol=1e-6)
    with wp.Tape() as tape:
        result = operation(operation(left, right), 1.5)
        result = operation(result, left)
    assert result.requires_grad
    if sign not in {"//", "%"}:
        loss = wp.zeros(1, requires_grad=True)
        with tape:
            wp.launch(_sum, 4, inputs=[result, loss])
        tape.backward(loss)
        assert gradcheck_tape(tape)


@wp.kernel
def _sum(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, x[wp.tid()])


def test_arithmetic_in_place_is_preserved():
    x, y = _array(1, 2, 3, requires_grad=True), _array(4, 5, 6, requires_grad=True)
    before, view = x, x[:]
    with wp.Tape() as tape:
        x *= y
        x += 1.0
        x -= y
        x /= y
        x **= 2.0
        loss = wp.zeros(1, requires_grad=True)
        wp.launch(_sum, 3, inputs=[x, loss])
    assert x is before
    assert view.list() == x.list()
    tape.backward(loss)
    a, b = np.array([1.0, 2, 3]), np.array([4.0, 5, 6])
    inner = (a * b + 1 - b) / b
    np.testing.assert_allclose(x.numpy(), inner**2, rtol=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), 2 * inner, rtol=1e-5)
    np.testing.assert_allclose(y.grad.numpy(), 2 * inner * (-1 / b**2), rtol=1e-4)


def test_unary_signs_are_new_arrays():
    assert (-X).list() == [-1, -2, -3]
    plus = +X
    assert plus.list() == [1, 2, 3]
    assert plus.buffer is not X.buffer


def test_integers_and_vectors():
    long = wp.array([1, 2, 3])
    assert (long.dtype, (long * 2).dtype, (7 // long).list()) == (wp.int64, wp.int64, [7, 3, 2])
    v = wp.array(_numbers(2, 3), dtype=wp.vec3)
    np.testing.assert_allclose((v * 2.0 + wp.vec3(1, 2, 3)).numpy(), v.numpy() * 2 + [1, 2, 3], rtol=1e-6)
    np.testing.assert_allclose((v * _array(2, 3)).numpy(), v.numpy() * [[2], [3]], rtol=1e-6)
    assert (wp.vec3(1, 2, 3) * X).list()[2] == wp.vec3(3, 6, 9)
    m = wp.array(_numbers(2, 3, 3), dtype=wp.mat33)
    np.testing.assert_allclose((m * m).numpy(), m.numpy() @ m.numpy(), rtol=1e-5)
    double = wp.array([1.0, 2.0])
    assert (double * 0.1).list() == [0.1, 0.2], "the number is a double, as the array is"


@pytest.mark.parametrize("cut", [(slice(1, None), slice(None, -1)), (slice(None, -1), slice(1, None))])
def test_overlapping_memory_is_read_before_it_is_written(cut):
    values = np.arange(6, dtype=np.float32)
    a = wp.array(values, requires_grad=True)
    with wp.Tape() as tape:
        part = a[cut[0]]
        part += a[cut[1]]
    wanted = values.copy()
    wanted[cut[0]] += values[cut[1]]
    assert a.list() == wanted.tolist()
    tape.backward(grads={a: wp.ones_like(a)})
    gradient = np.ones(6)
    gradient[cut[1]] += 1
    assert a.grad.list() == gradient.tolist()
    b = wp.array(values)
    wp.map(wp.sin, b[cut[1]], out=b[cut[0]])
    np.testing.assert_allclose(b.numpy()[cut[0]], np.sin(values[cut[1]]), rtol=1e-6)


@pytest.mark.parametrize("number", range(12))
def test_random_expressions(number):
    """Long chains with reuse and in-place steps, against float64."""
    rng = np.random.default_rng(number)
    pool = [wp.array(_numbers(*shape, seed=number), requires_grad=True) for shape in ((3,), (2, 3), (2, 1))]
    reference = [a.numpy().astype(np.float64) for a in pool]
    loss = wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        for _ in range(8):
            i, j = (int(k) for k in rng.integers(len(pool), size=2))
            sign = str(rng.choice(["+", "*", "-"]))
            if rng.random() < 0.3 and np.broadcast_shapes(pool[i].shape, pool[j].shape) == pool[i].shape:
                pool[i] = getattr(pool[i], {"+": "__iadd__", "*": "__imul__", "-": "__isub__"}[sign])(pool[j])
                reference[i] = OPERATIONS[sign](reference[i], reference[j])
                continue
            pool.append(OPERATIONS[sign](pool[i], pool[j]))
            reference.append(OPERATIONS[sign](reference[i], reference[j]))
        for a in pool:
            total = wp.map(lambda v: v * 0.1, a)
            wp.launch(_sum, total.size, inputs=[total.flatten(), loss])
    for a, wanted in zip(pool, reference, strict=True):
        np.testing.assert_allclose(a.numpy(), wanted, rtol=1e-3, atol=1e-4)
    tape.backward(loss)
    assert gradcheck_tape(tape)


def test_a_failed_check_gives_a_script_that_runs(tmp_path):
    x = _array(1, 2, requires_grad=True)
    with wp.Tape() as tape:
        wp.map(lambda a: wp.sqrt(a - 1.0) * SCALE, x)
        wp.map(both, x, x)
    for record, wanted in zip(tape.records, ("WRONG", "AGREE"), strict=True):
        result = wp.autograd.gradcheck(
            record.kernel, 2, inputs=record.args[:-1], outputs=record.args[-1:], raise_exception=False
        )
        assert result.verdict == wanted
    script = tmp_path / "script.py"
    failed = gradcheck_tape(tape, raise_exception=False)
    assert failed.verdict == "WRONG"
    script.write_text(failed.reproduce(), encoding="utf-8")
    done = forked.run([str(script)])
    assert "Gradient check for kernel map_lambda failed: WRONG" in done.stdout


# What records and errors show ----------------------------------------------------------------------------


def test_records_are_at_the_users_line():
    x = _array(1, 2, requires_grad=True)
    with wp.Tape() as tape:
        wp.map(wp.sin, x)
        x * x
    sine, product = tape.records
    assert (sine.name, product.name) == ("map_sin", "map_mul")
    assert product.call_site.text.strip() == "x * x"
    assert product.kernel.origin.file == __file__
    trace = tape.trace()
    lines = [launch.call_site.line for launch in trace.launches]
    assert lines == [sine.call_site.line, sine.call_site.line + 1]


def _shown(error):
    return [line for line in str(error).splitlines() if not line.startswith("  -->")]


def test_errors_of_the_kernel_language_show_the_call_or_the_function():
    other = wp.array([1.0, 2.0, 3.0])
    with pytest.raises(wp.KernelTypeError) as caught:
        X + other
    assert _shown(caught.value) == [
        "kernel `map_add`: `+` takes values of one type; got float32 and float64",
        "   |         X + other",
        "   |         ^^^^^^^^^",
        "  = hint: convert one of them with wp.float64(…)",
    ]
    with pytest.raises(wp.KernelTypeError) as caught:
        wp.map(lambda a: a + 1, X)
    assert _shown(caught.value)[:3] == [
        "kernel `map_lambda`: `+` takes values of one type; got float32 and int32",
        "   |         wp.map(lambda a: a + 1, X)",
        "   |                          ^^^^^",
    ]
    with pytest.raises(wp.KernelTypeError) as caught:
        wp.map(both, X)
    assert _shown(caught.value) == [
        "kernel `map_both`: both(a, b): missing a required argument: 'b'",
        "   |         wp.map(both, X)",
        "   |         ^^^^^^^^^^^^^^^",
        "  = hint: match the function's parameters",
    ]
    with pytest.raises(wp.KernelTypeError) as caught:
        wp.map(nothing, X)
    assert _shown(caught.value)[:3] == [
        "kernel `map_nothing`: a value is needed here; this function returns none",
        "   |         wp.map(nothing, X)",
        "   |         ^^^^^^^^^^^^^^^^^^",
    ]
    with pytest.raises(wp.KernelTypeError) as caught:
        wp.map(lambda a: (a, wp.sin), X)
    assert _shown(caught.value) == [
        "kernel `map_lambda`: one of the function's results is no number, vector, matrix or struct of them",
        "   |         wp.map(lambda a: (a, wp.sin), X)",
        "   |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        "  = hint: return values that arrays can hold, several as `return a, b`",
    ]
    made = eval("lambda a: a")
    with pytest.raises(wp.KernelTypeError) as caught:
        wp.map(made, X)
    assert str(caught.value) == (
        "the source of a lambda cannot be read (could not get source code)\n"
        "  = hint: define it in a file or a notebook cell, or decorate a function with @wp.func"
    )


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (
            lambda: wp.map(wp.sin, 1.0),
            "map: one of the inputs must be an array; got 1.0\n"
            "  = hint: pass an array, or call the function of NumPy or math",
        ),
        (
            lambda: wp.map(wp.sin),
            "map: one of the inputs must be an array; got none\n"
            "  = hint: pass an array, or call the function of NumPy or math",
        ),
        (
            lambda: wp.map(3, X),
            "map: the first argument must be a function; got 3 (int)\n"
            "  = hint: pass a function decorated with @func, one of the kernel language, or a lambda",
        ),
        (
            lambda: wp.map(wp.sin, [1.0]),
            "map: an input must be an array, a number, a vector or a matrix; got [1.0] (list)\n"
            "  = hint: make an array of it",
        ),
        (
            lambda: X + wp.zeros(4),
            "array + array: shapes (3,), (4,) do not broadcast\n"
            "  = hint: pass arrays of one shape, or with sizes of 1 where they differ",
        ),
        (
            lambda: X.__iadd__(wp.zeros((2, 3))),
            "array += array: the result has shape (2, 3); the array that it changes has (3,)\n"
            "  = hint: write it as a new array",
        ),
        (
            lambda: wp.map(wp.sin, X, out=wp.zeros(4)),
            "map: out must be an array(shape=(3,), dtype=float32); got array(shape=(4,), dtype=float32)\n"
            "  = hint: leave out away, or pass such an array",
        ),
        (
            lambda: wp.map(wp.sin, X, out=wp.zeros(3, dtype=int)),
            "map: out must be an array(shape=(3,), dtype=float32); got array(shape=(3,), dtype=int32)\n"
            "  = hint: leave out away, or pass such an array",
        ),
        (
            lambda: wp.map(both, X, Y, out=wp.zeros(3)),
            "map: the function gives 2 results; out has 1 arrays\n  = hint: pass one array for each result",
        ),
    ],
)
def test_messages(action, message):
    with pytest.raises(wp.ArrayError) as caught:
        action()
    assert str(caught.value) == message
    assert X.list() == [1, 2, 3]


def test_what_arrays_have_no_operator_for():
    for action in (lambda: X < Y, lambda: X @ Y, lambda: X + [1, 2, 3], lambda: "a" * X):
        with pytest.raises(TypeError):
            action()
    assert (X == X, X == Y, X != Y) == (True, False, True)


@wp.struct
class Both:
    mass: float
    place: wp.vec3


@pytest.mark.unoptimized
def test_structs_as_results():
    x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        both = wp.map(lambda a: Both(a * a, wp.vec3(a, 1.0, 2.0)), x)
        masses = wp.map(lambda b: b.mass + b.place.x, both)
    assert both.dtype is Both and both.requires_grad and masses.numpy().tolist() == [2.0, 6.0]
    tape.backward(grads={masses: wp.ones(2)})
    assert x.grad.numpy().tolist() == [3.0, 5.0]
