"""Native functions: values, gradients, what they touch, and what is said where they cannot be."""

from __future__ import annotations

import importlib.util
import linecache
import shutil
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler.native import build
from tests.compiler.harness import check_gradient, run, twin
from tests.processes import run_python

NONE = shutil.which("cc") is None and shutil.which("gcc") is None and shutil.which("clang") is None
pytestmark = pytest.mark.skipif(NONE, reason="there is no C compiler")


@wp.func_native(
    "out[tid] = a * x[tid] * x[tid] + y[tid];",
    """
    adj_a += x[tid] * x[tid] * adj_out[tid];
    adj_x[tid] += 2.0f * a * x[tid] * adj_out[tid];
    adj_y[tid] += adj_out[tid];
    """,
)
def saxpy(
    a: float, x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), tid: int
): ...


@wp.kernel
def saxpy_kernel(
    scale: wp.array(dtype=float),
    x: wp.array(dtype=float),
    y: wp.array(dtype=float),
    out: wp.array(dtype=float),
):
    i = wp.tid()
    saxpy(scale[0] * 2.0, x, y, out, i)


def floats(*shape: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.4, 1.6, shape).astype(np.float32)


def test_values_and_gradients_of_arrays() -> None:
    args = [floats(1), floats(6, seed=1), floats(6, seed=2), floats(6)]
    again = [a.copy() for a in args]
    run(saxpy_kernel, 6, again)
    np.testing.assert_allclose(again[3], 2 * args[0] * args[1] ** 2 + args[2], rtol=1e-6)
    check_gradient(saxpy_kernel, 6, args)


def test_only_what_the_compiler_does_not_let_be_constant_counts_as_written() -> None:
    found = saxpy_kernel.analysis
    assert (found.reads, found.writes) == ({0, 1, 2}, {3})
    assert {(a.param, a.kind) for a in found.accesses} == {
        (0, "read"),
        (1, "read"),
        (2, "read"),
        (3, "write"),
    }
    info = saxpy_kernel.adjoint_info(frozenset({0, 1, 2, 3}))
    assert (info.needs, info.replay, info.after, info.refused) == ({0, 1}, set(), set(), None)


SQUARE = "float sq = x * x; return sq;"


@wp.func_native(SQUARE, "adj_x += 2.f * x * adj_ret;")
def square(x: float) -> float: ...


@wp.func_native(
    "return (vec3){.x = v.x * s, .y = v.c[1] * s, .z = sinf(v.z)};",
    "adj_v.x += s * adj_ret.x; adj_v.c[1] += s * adj_ret.y; adj_v.z += cosf(v.z) * adj_ret.z;"
    "adj_s += v.x * adj_ret.x + v.y * adj_ret.y;",
)
def stretch(v: wp.vec3, s: wp.float32) -> wp.vec3: ...


@wp.func_native(
    "mat22 r; for (int i = 0; i < 2; i++) for (int j = 0; j < 2; j++) r.m[i][j] = m.m[j][i] * q.w; return r;",
    "for (int i = 0; i < 2; i++) for (int j = 0; j < 2; j++) {"
    " adj_m.m[j][i] += q.w * adj_ret.m[i][j]; adj_q.w += m.m[j][i] * adj_ret.m[i][j]; }",
)
def turned(m: wp.mat22, q: wp.quat) -> wp.mat22: ...


@wp.kernel
def compounds(
    x: wp.array(dtype=float),
    p: wp.array(dtype=wp.vec3),
    m: wp.array(dtype=wp.mat22),
    q: wp.array(dtype=wp.quat),
):
    i = wp.tid()
    v = stretch(p[i] * x[i], square(x[i]) + 1.0)
    m[i] = turned(m[i], q[i]) * square(v.y)
    total = float(0.0)
    for k in range(3):
        total = square(total + x[i]) * 0.5
        if total < 1.0:
            total += square(float(k) * x[i])
    x[i] = total + square(square(x[i]))
    p[i] = stretch(v, x[i])


def compound_arguments() -> list[np.ndarray]:
    return [floats(5), floats(5, 3, seed=4), floats(5, 2, 2, seed=5), floats(5, 4, seed=6)]


def test_results_and_compound_values_in_loops_and_branches() -> None:
    check_gradient(compounds, 5, compound_arguments())


def test_the_twin_computes_in_double() -> None:
    args = twin(compound_arguments())
    x, p = args[0].copy(), args[1].copy()
    run(compounds, 5, args, f64=True)
    v = p * x[:, None] * (x**2 + 1)[:, None]
    v[:, 2] = np.sin(p[:, 2] * x)
    expected = np.stack([v[:, 0] * args[0], v[:, 1] * args[0], np.sin(v[:, 2])], 1)
    np.testing.assert_allclose(args[1], expected, rtol=1e-14)


@pytest.mark.parametrize("f64", [False, True], ids=["float32", "twin"])
def test_plain_python_calls_the_same(f64: bool) -> None:
    for kernel, given in (
        (compounds, compound_arguments()),
        (saxpy_kernel, [floats(1), floats(5), floats(5), floats(5)]),
    ):
        seeds = [floats(*a.shape, seed=k) for k, a in enumerate(given)]
        for adjoint in (False, True):
            found = []
            for interpreted in (False, True):
                args = twin(given) if f64 else [a.copy() for a in given]
                adjoints = [s.astype(args[0].dtype) for s in seeds] if adjoint else None
                run(kernel, 5, args, f64=f64, adjoints=adjoints, interpreted=interpreted)
                found.append([*args, *(adjoints or [])])
            for one, other in zip(*found, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-6)


def test_arrays_without_gradient_stand_for_zeros() -> None:
    given = [floats(1), floats(6, seed=1), floats(6, seed=2), floats(6)]
    full = [floats(*a.shape, seed=9) for a in given]
    part = [a.copy() for a in full]
    run(saxpy_kernel, 6, [a.copy() for a in given], adjoints=full)
    run(saxpy_kernel, 6, [a.copy() for a in given], adjoints=[None, part[1], None, part[3]])
    np.testing.assert_array_equal(part[1], full[1])
    lonely = [None, floats(6, seed=9), None, None]
    run(saxpy_kernel, 6, [a.copy() for a in given], adjoints=lonely)
    np.testing.assert_array_equal(lonely[1], floats(6, seed=9))


# Overwrites and replays ------------------------------------------------------------------------------------

COUNT = "int next = atomicAdd(counter, 1); tickets[tid] = next;"


@wp.func_native(COUNT, replay_snippet="")
def ticket(counter: wp.array(dtype=int), tickets: wp.array(dtype=int), tid: int): ...


@wp.func_native(
    "tickets[tid] = counter[0]; return atomicAdd(counter, 1);", replay_snippet="return tickets[tid];"
)
def replayed(counter: wp.array(dtype=int), tickets: wp.array(dtype=int), tid: int) -> int: ...


@wp.func_native("tickets[tid] = counter[0]; return atomicAdd(counter, 1);")
def counted(counter: wp.array(dtype=int), tickets: wp.array(dtype=int), tid: int) -> int: ...


@wp.kernel
def by_array(
    counter: wp.array(dtype=int),
    tickets: wp.array(dtype=int),
    x: wp.array(dtype=float),
    y: wp.array(dtype=float),
):
    i = wp.tid()
    ticket(counter, tickets, i)
    k = tickets[i]
    y[k] = x[k] ** 2.0


@wp.kernel
def by_replay(
    counter: wp.array(dtype=int),
    tickets: wp.array(dtype=int),
    x: wp.array(dtype=float),
    y: wp.array(dtype=float),
):
    k = replayed(counter, tickets, wp.tid())
    y[k] = x[k] ** 2.0


@wp.kernel
def by_result(
    counter: wp.array(dtype=int),
    tickets: wp.array(dtype=int),
    x: wp.array(dtype=float),
    y: wp.array(dtype=float),
):
    i = wp.tid()
    for r in range(2):
        if r < i:
            k = counted(counter, tickets, i)
            y[k] = x[k] ** 2.0


@pytest.mark.parametrize("kernel", [by_array, by_replay, by_result])
def test_counters_are_counted_once(kernel: Any) -> None:
    counter, tickets = wp.zeros(1, dtype=int), wp.zeros(8, dtype=int)
    x = wp.array(np.arange(1, 17, dtype=np.float32), requires_grad=True)
    y = wp.zeros(16, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, 8, [counter, tickets, x], [y])
    handed = int(counter.numpy()[0])
    assert handed == (13 if kernel is by_result else 8)
    tape.backward(grads={y: wp.array(np.ones(16, dtype=np.float32))})
    expected = np.where(np.arange(16) < handed, 2 * x.numpy(), 0)
    np.testing.assert_allclose(x.grad.numpy(), expected)
    assert counter.numpy()[0] == handed
    info = kernel.adjoint_info(frozenset({2, 3}))
    assert (info.replay, info.after) == ((set(), {1}) if kernel is by_replay else ({0, 1}, set()))


def test_what_a_snippet_overwrites_is_kept() -> None:
    """A buffer that is used twice: each adjoint sees its own values, and takes its own seeds."""
    rng = np.random.default_rng(0)
    start = rng.normal(size=5).astype(np.float32)
    x = wp.array(start, requires_grad=True)
    one = wp.array(np.array([0.5], np.float32), requires_grad=True)
    zero = wp.zeros(5)
    buffer, y, loss = (
        wp.zeros(5, requires_grad=True),
        wp.zeros(5, requires_grad=True),
        wp.zeros(1, requires_grad=True),
    )

    @wp.kernel
    def add(a: wp.array(dtype=float), to: wp.array(dtype=float), total: wp.array(dtype=float)):
        i = wp.tid()
        to[i] = a[i]
        wp.atomic_add(total, 0, a[i] * a[i])

    with wp.Tape() as tape:
        wp.launch(saxpy_kernel, 5, [one, x, zero], [buffer])
        wp.launch(add, 5, [buffer, y, loss])
        wp.launch(saxpy_kernel, 5, [one, y, zero], [buffer])
        wp.launch(add, 5, [buffer, y, loss])
    tape.backward(loss)
    s = start.astype(float)  # loss = x⁴ + x⁸
    np.testing.assert_allclose(x.grad.numpy(), 4 * s**3 + 8 * s**7, rtol=1e-5)
    assert wp.diagnose(tape, loss=loss).verdict == "AGREE"


@wp.func_native(
    "for (int k = 0; k < n; k++) row[k] = row[k] * row[k];", "for (int k = 0; k < n; k++) adj_row[k] *= 0;"
)
def square_row(row: wp.array(dtype=float), n: int): ...


@wp.func_native("return row[k] + 1.0f;", "adj_row[k] += adj_ret;")
def element(row: wp.array(dtype=float), k: int) -> float: ...


@wp.kernel
def rows(m: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    i = wp.tid()
    square_row(out[i], 3)
    out[i, 0] = element(m[i], 2) * element(m[i, 1:], 0)


def test_rows_of_arrays() -> None:
    m, out = floats(4, 3), floats(4, 3, seed=8)
    expected = out**2
    expected[:, 0] = (m[:, 2] + 1) * (m[:, 1] + 1)
    run(rows, 4, [m, out])
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    check = floats(4, 3)
    adjoint, seed = np.zeros((4, 3)), np.ones((4, 3))
    run(rows, 4, twin([check, out]), f64=True, adjoints=[adjoint, seed])
    np.testing.assert_allclose(adjoint[:, 2], check[:, 1] + 1, rtol=1e-6)


@wp.func_native('printf("thread %d has %g\\n", i, x); fflush(stdout);')
def say(i: int, x: float): ...


@wp.kernel
def talkative(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    say(i, x[i])
    y[i] = x[i] * x[i]


def test_what_is_called_for_its_effect_is_called_once(capfd: pytest.CaptureFixture[str]) -> None:
    x, y = wp.array(np.array([1.5, 2.5], np.float32), requires_grad=True), wp.zeros(2, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(talkative, 2, [x], [y])
    tape.backward(grads={y: wp.ones(2)})
    assert capfd.readouterr().out == "thread 0 has 1.5\nthread 1 has 2.5\n"
    assert x.grad.numpy().tolist() == [3.0, 5.0]


# Tangents, second order ------------------------------------------------------------------------------------


@wp.kernel
def pure(x: wp.array(dtype=float), p: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    x[i] = square(x[i]) * 2.0
    p[i] = stretch(p[i], x[i])


def test_tangents_of_functions_without_arrays_are_their_adjoints_transposed() -> None:
    rng = np.random.default_rng(1)
    given = twin([floats(5), floats(5, 3)])
    direction = [rng.normal(size=a.shape) for a in given]
    seeds = [rng.normal(size=a.shape) for a in given]
    dots, adjoints = [d.copy() for d in direction], [s.copy() for s in seeds]
    run(pure, 5, [a.copy() for a in given], f64=True, tangents=dots)
    run(pure, 5, [a.copy() for a in given], f64=True, adjoints=adjoints)
    forward = sum((s * d).sum() for s, d in zip(seeds, dots, strict=True))
    backward = sum((a * d).sum() for a, d in zip(adjoints, direction, strict=True))
    np.testing.assert_allclose(forward, backward, rtol=1e-12)
    assert abs(forward) > 0.1


@wp.kernel
def slope(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.grad(square)(x[i])


def test_grad_of_a_native_function_is_its_adjoint_snippet() -> None:
    x, y = floats(4), np.zeros(4, np.float32)
    run(slope, 4, [x, y])
    np.testing.assert_allclose(y, 2 * x, rtol=1e-6)


@wp.kernel
def loss_of_squares(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, square(x[wp.tid()]))


@wp.kernel
def loss_of_arrays(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, element(x, i))


@pytest.mark.parametrize(("kernel", "name"), [(loss_of_squares, "square"), (loss_of_arrays, "element")])
def test_there_is_no_second_derivative(kernel: Any, name: str) -> None:
    x, loss = wp.array(floats(3), requires_grad=True), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, 3, [x, loss])
    with pytest.raises(wp.KernelTypeError) as info:
        wp.autograd.hvp(tape, loss=loss, tangents={x: floats(3)})
    assert str(info.value).startswith(
        f"the native function `{name}` has no second derivative\n  --> {__file__}"
    )


def test_the_tangent_of_a_call_with_arrays_is_refused() -> None:
    with pytest.raises(wp.KernelTypeError) as info:
        loss_of_arrays.tangent(frozenset({0, 1}))
    assert str(info.value).startswith(
        "kernel `loss_of_arrays`: no tangent goes through the native function `element`, which takes arrays\n"
    )


def test_tangents_do_not_go_through_arrays() -> None:
    x, y, out = (wp.array(floats(5), requires_grad=True) for _ in range(3))
    scale = wp.array(floats(1), requires_grad=True)
    with pytest.raises(wp.GradcheckError, match="native function saxpy"):
        wp.autograd.jvp(saxpy_kernel, 5, [scale, x, y], [out], tangents={x: floats(5)})
    result = wp.autograd.gradcheck(saxpy_kernel, 5, [scale, x, y], [out], raise_exception=False)
    assert result.verdict == "AGREE"


# Gradients that would be lost ------------------------------------------------------------------------------


@wp.func_native("out[tid] = x[tid];")
def silent(x: wp.array(dtype=float), out: wp.array(dtype=float), tid: int): ...


@wp.func_native("out[tid] = x[tid];", adj_snippet="")
def meant(x: wp.array(dtype=float), out: wp.array(dtype=float), tid: int): ...


@wp.func_native("return x * 2.0f;")
def silent_result(x: float) -> float: ...


@wp.kernel
def through_arrays(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    silent(x, out, wp.tid())


@wp.kernel
def through_a_result(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = silent_result(x[i])


@wp.kernel
def meant_to_stop(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    meant(x, out, wp.tid())


def taped(kernel: Any, requires_grad: tuple[bool, bool] = (True, True)) -> tuple[wp.Tape, Any, Any]:
    x, out = (wp.array(floats(3), requires_grad=needs) for needs in requires_grad)
    with wp.Tape() as tape:
        wp.launch(kernel, 3, [x, out])
    return tape, x, out


@pytest.mark.parametrize("kernel", [through_arrays, through_a_result])
def test_a_gradient_that_would_be_lost_is_an_error(kernel: Any) -> None:
    tape, _, out = taped(kernel)  # the launch itself is fine
    name = "silent" if kernel is through_arrays else "silent_result"
    with pytest.raises(wp.TapedebugError) as info:
        tape.backward(grads={out: wp.ones(3)})
    message = str(info.value)
    assert message.startswith(
        f"kernel `{kernel.key}`: the native function `{name}` has no adjoint snippet, "
        f"and a gradient goes through it\n  --> {__file__}:"
    )
    assert message.endswith(
        'hint: give func_native an adj_snippet; adj_snippet="" says that no gradient is meant to flow'
    )


def test_none_is_lost_where_none_is_asked_for() -> None:
    tape, x, out = taped(meant_to_stop)
    tape.backward(grads={out: wp.ones(3)})
    assert not x.grad.numpy().any()
    for ends in ((False, True), (True, False)):
        taped(through_arrays, ends)


REDEFINED = """import tapedebug as wp


@wp.func_native("return x + 1.0f;")
def shift(x: float) -> float: ...


@wp.kernel
def k(x: wp.array(dtype=float)):
    x[wp.tid()] = shift(x[wp.tid()])
"""


def test_a_function_that_is_defined_anew_is_called() -> None:
    names: dict[str, Any] = {"__name__": "redefined"}
    filename = "<redefined>"
    linecache.cache[filename] = (len(REDEFINED), None, REDEFINED.splitlines(keepends=True), filename)
    exec(compile(REDEFINED, filename, "exec"), names)
    x = np.zeros(2, np.float32)
    run(names["k"], 2, [x])
    second = "\n" * 3 + REDEFINED.split("\n\n\n")[1].replace("1.0f", "5.0f")
    linecache.cache["<again>"] = (len(second), None, second.splitlines(keepends=True), "<again>")
    exec(compile(second, "<again>", "exec"), names)
    run(names["k"], 2, [x])
    assert x.tolist() == [6.0, 6.0]


# What cannot be --------------------------------------------------------------------------------------------

PROGRAM = '''import tapedebug as wp

SNIPPET = """
    float twice = 2.0f * x;
    return {body};
"""


@wp.func_native({arguments})
def f({parameters}){result}:
    {stub}


@wp.kernel
def k(x: wp.array(dtype=float), n: wp.array2d(dtype=int)):
    i = wp.tid()
    {call}
'''
USUAL = {
    "body": "twice",
    "arguments": "SNIPPET",
    "parameters": "x: float",
    "result": " -> float",
    "stub": "...",
    "call": "x[i] = f(x[i])",
}


def loaded(folder: Path, **changes: str) -> Any:
    path = folder / f"program_{len(list(folder.iterdir()))}.py"
    path.write_text(PROGRAM.format(**(USUAL | changes)), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def refusal(folder: Path, **changes: str) -> str:
    module = loaded(folder, **changes)
    with pytest.raises(wp.TapedebugError) as info:
        _ = module.k.analysis
    assert info.value.__suppress_context__
    return str(info.value).replace(module.__file__, "program.py")


def test_the_usual_program_is_right(tmp_path: Path) -> None:
    x = floats(3)
    run(loaded(tmp_path).k, 3, [expected := x.copy(), np.zeros((1, 1), np.int32)])
    np.testing.assert_allclose(expected, 2 * x)


def test_an_error_of_c_is_shown_at_the_users_line(tmp_path: Path) -> None:
    message = refusal(tmp_path, body="twice + missing")
    assert message.splitlines()[1:] == [
        "  --> program.py:5, in f",
        "   |     return twice + missing;",
        "   |                    ^^^^^^^",
        "  = hint: a snippet sees its parameters, what it declares, and the C library",
    ]
    assert message.startswith("function `f`: the C compiler refuses `snippet`: ")
    assert "missing" in message.splitlines()[0]


def test_an_error_in_another_snippet(tmp_path: Path) -> None:
    message = refusal(tmp_path, arguments='SNIPPET, "adj_x += 2.0f adj_ret;"')
    assert message.startswith("function `f`: the C compiler refuses `adj_snippet`: ")
    assert message.splitlines()[1:3] == [
        "  --> program.py:9, in f",
        '   | @wp.func_native(SNIPPET, "adj_x += 2.0f adj_ret;")',
    ]


def test_an_adjoint_must_not_write_to_values(tmp_path: Path) -> None:
    message = refusal(
        tmp_path,
        arguments='"x[0] = 1.0f;", "x[0] = 0.0f;"',
        parameters="x: wp.array(dtype=float)",
        result="",
        call="f(x)",
    )
    assert "read-only" in message and message.endswith("an adjoint changes adjoints only: add to adj_… names")


WRONG = {
    "cuda": (
        {"body": "twice + __shared__"},
        "function `f`: `__shared__` belongs to CUDA; kernels run on the processor\n"
        "  --> program.py:5, in f\n"
        "   |     return twice + __shared__;\n"
        "   |                    ^^^^^^^^^^\n"
        "  = hint: write it in C, where threads run one after another",
    ),
    "untyped": (
        {"parameters": "x"},
        "function `f`: the parameter `x` has no type\n"
        "  --> program.py:10, in f\n"
        "   | def f(x) -> float:\n"
        "   |       ^\n"
        "  = hint: annotate it: C has to know its type",
    ),
    "generic": (
        {"parameters": "x: wp.Float"},
        "function `f`: the parameter `x` is Float, which has no type in C here\n"
        "  --> program.py:10, in f\n"
        "   | def f(x: wp.Float) -> float:\n"
        "   |       ^^^^^^^^^^^\n"
        "  = hint: numbers, vectors, matrices, quaternions and arrays of them have types in C",
    ),
    "body": (
        {"stub": "return x * 2.0"},
        "function `f`: the body of a native function is its snippet\n"
        "  --> program.py:11, in f\n"
        "   |     return x * 2.0\n"
        "   |     ^^^^^^^^^^^^^^\n"
        "  = hint: write `...` here",
    ),
    "results": (
        {"result": " -> tuple[float, float]"},
        "function `f`: the result is several values, which has no type in C here\n"
        "  --> program.py:10, in f\n"
        "   | def f(x: float) -> tuple[float, float]:\n"
        "   |                    ^^^^^^^^^^^^^^^^^^^\n"
        "  = hint: return one number, vector, matrix or quaternion; write others into arrays",
    ),
    "argument": (
        {"call": "x[i] = f(i)"},
        "kernel `k`: `x` of f() is float32; got int32\n"
        "  --> program.py:17, in k\n"
        "   |     x[i] = f(i)\n"
        "   |            ^^^^\n"
        "  = hint: convert the argument, or change the annotation",
    ),
    "gaps": (
        {
            "parameters": "x: wp.array(dtype=int)",
            "arguments": '"return 1.0f;"',
            "call": "x[i] = f(n[:, i])",
        },
        "kernel `k`: `x` of f() is given `n[:, i]`, which is not one piece of memory\n"
        "  --> program.py:17, in k\n"
        "   |     x[i] = f(n[:, i])\n"
        "   |            ^^^^^^^^^^\n"
        "  = hint: C sees a pointer: pass the whole array, or a row of it",
    ),
    "no result": (
        {"result": "", "arguments": '"x += 1.0f;"'},
        "kernel `k`: a value is needed here; this function returns none\n"
        "  --> program.py:17, in k\n"
        "   |     x[i] = f(x[i])\n"
        "   |            ^^^^^^^\n"
        "  = hint: let it return its result",
    ),
}


@wp.struct
class Pair:
    a: float


@wp.func_native("return 1.0f;")
def of_a_struct(pair: Pair) -> float: ...


@wp.kernel
def with_a_struct(pair: Pair, x: wp.array(dtype=float)):
    x[0] = of_a_struct(pair)


def test_structs_have_no_type_in_c() -> None:
    with pytest.raises(wp.KernelTypeError) as info:
        _ = with_a_struct.analysis
    assert str(info.value).startswith(
        "function `of_a_struct`: the parameter `pair` is Pair, which has no type in C here\n"
    )


@pytest.mark.parametrize("title", WRONG)
def test_wrong_program(title: str, tmp_path: Path) -> None:
    changes, message = WRONG[title]
    assert refusal(tmp_path, **changes) == message


def test_a_result_that_is_not_returned_is_refused(tmp_path: Path) -> None:
    assert "the C compiler refuses" in refusal(tmp_path, arguments='"float twice = x;"')


def test_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert refusal(tmp_path) == (
        "function `f` is native, and CC is 'no-such-compiler', which is no program\n"
        "  --> program.py:10, in f\n"
        "   | def f(x: float) -> float:\n"
        "   | ^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  = hint: install a C compiler (gcc or clang), or let CC name one"
    )
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "is native, and there is no cc, gcc or clang" in refusal(tmp_path)


def test_called_outside_a_kernel() -> None:
    with pytest.raises(
        wp.TapedebugError, match="`square` is a native function and was called outside a kernel"
    ):
        square(1.0)


def test_arrays_with_gaps_are_refused_at_the_launch() -> None:
    wide = wp.zeros((4, 2))
    with pytest.raises(
        wp.LaunchError, match="`x` is not contiguous, and the native function `silent` sees it"
    ):
        wp.launch(through_arrays, 4, [wide[:, 0], wp.zeros(4)])


# The cache -------------------------------------------------------------------------------------------------

SCRIPT = """
import sys; sys.path.insert(0, {folder!r})
import numpy as np, tapedebug as wp
from program_0 import k
x = wp.array(np.ones(2, np.float32), requires_grad=True)
n = wp.zeros((1, 1), dtype=int)
with wp.Tape() as tape:
    wp.launch(k, 2, [x, n])
print(x.numpy())
"""


def test_a_second_process_compiles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = tmp_path / "calls"
    compiler = tmp_path / "compiler"
    real = build.compiler().command[0]
    compiler.write_text(f'#!/bin/sh\necho "$@" >> {calls}\nexec {real} "$@"\n', encoding="utf-8")
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    program = tmp_path / "program"
    program.mkdir()
    loaded(program)
    monkeypatch.setenv("CC", str(compiler))

    def ran() -> int:
        before = len(calls.read_text(encoding="utf-8").splitlines()) if calls.exists() else 0
        done = run_python(SCRIPT.format(folder=str(program)), cache=tmp_path / "cache")
        assert (done.returncode, done.stdout) == (0, "[2. 2.]\n"), done.stderr
        lines = calls.read_text(encoding="utf-8").splitlines()[before:]
        return sum("--version" not in line for line in lines)

    assert ran() == 1
    assert ran() == 0
    (shared,) = (tmp_path / "cache" / "native").glob("*.so")
    shared.write_bytes(shared.read_bytes()[:-100])  # damaged: made again, never loaded
    assert ran() == 1
