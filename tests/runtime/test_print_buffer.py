"""Output of kernels: printed in thread order, once, bounded; assertions undo their launch."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler.kernel import SILENT
from tapedebug.runtime.launch.print_buffer import PRINT_BUFFER, Listener

SCALE = "scale"


@wp.kernel
def talk(x: wp.array(dtype=float), p: wp.array(dtype=wp.vec3), n: wp.array(dtype=wp.int64)):
    i = wp.tid()
    print("thread", i, x[i])
    print(p[i], n[i], x[i] > 1.5, (i, x[i]), sep="; ", end=".\n")
    print(f"{SCALE} {i:03d}: {x[i]:.2e} {p[i]}")
    print()


SAID = """\
thread {i} {x}
[0.1, 2.0, {i}.0]; {n}; {b}; ({i}, {x}).
scale 00{i}: {e} [0.1, 2.0, {i}.0]

"""


def talking(count=3):
    x = wp.array(np.arange(count) + 0.5, dtype=float)
    p = wp.array([(0.1, 2.0, float(i)) for i in range(count)], dtype=wp.vec3)
    n = wp.array(np.arange(count) * 2**40, dtype=wp.int64)
    return [x, p, n]


def said(count=3):
    lines = ""
    for i in range(count):
        x = i + 0.5
        lines += SAID.format(i=i, x=x, n=i * 2**40, b=x > 1.5, e=f"{x:.2e}")
    return lines


@pytest.mark.parametrize("compiler", ["llvm", "numba"])
def test_print(compiler, capsys, monkeypatch):
    monkeypatch.setattr(wp.config, "compiler", compiler)
    talk.renew()
    wp.launch(talk, 3, talking())
    assert capsys.readouterr().out == said()


def test_plain_python_prints_the_same(capsys, monkeypatch):
    monkeypatch.setattr(wp.config, "interpreted", True)
    wp.launch(talk, 3, talking())
    monkeypatch.undo()
    assert capsys.readouterr().out == said()


@wp.kernel
def formatted(x: wp.array(dtype=float), u: wp.array(dtype=wp.uint8)):
    i = wp.tid()
    wp.printf("%d %5.1f|%-6s|%x %u %c %g%%\n", i, x[i], "ab", -i, u[i], 65 + i, wp.float64(x[i]))


def test_printf(capsys):
    wp.launch(formatted, 2, [wp.array([0.25, 100.0], dtype=float), wp.array([7, 255], dtype=wp.uint8)])
    assert capsys.readouterr().out == "0   0.2|ab    |0 7 A 0.25%\n1 100.0|ab    |ffffffff 255 B 100%\n"


@wp.func
def message(a: float, k: int) -> float:
    if a > 2.0:
        print("large", a, k)
        return a
    return a * 2.0


@wp.kernel
def nested(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
    i, j = wp.tid()
    total = float(0.0)
    for k in range(j + 1):
        if k == i:
            continue
        total += message(x[i, j], k)
    while total > 10.0:
        total -= 4.0
        print(i, j, total)
    y[i, j] = total


def test_in_loops_branches_and_functions(capsys):
    values = np.array([[1, 3, 2], [4, 1, 5]], np.float32)
    y = wp.zeros((2, 3), dtype=float)
    wp.launch(nested, (2, 3), [wp.array(values, dtype=float), y])
    lines = []
    for i in range(2):
        for j in range(3):
            total = 0.0
            for k in range(j + 1):
                if k == i:
                    continue
                if values[i, j] > 2:
                    lines.append(f"large {values[i, j]} {k}")
                total += values[i, j] if values[i, j] > 2 else 2 * values[i, j]
            while total > 10:
                total -= 4.0
                lines.append(f"{i} {j} {total}")
            assert y.numpy()[i, j] == total
    assert capsys.readouterr().out.splitlines() == lines


def test_backward_replay_and_checks_say_nothing(capsys):
    x = wp.array(np.arange(6.0).reshape(2, 3) + 0.25, dtype=float, requires_grad=True)
    y = wp.zeros((2, 3), dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(nested, (2, 3), [x, y])
    assert capsys.readouterr().out
    tape.backward(grads={y: wp.ones((2, 3), dtype=float)})
    tape.replay()
    tape.replay(dtype=float).backward({y: np.ones((2, 3))})
    wp.autograd.gradcheck(nested, (2, 3), [x], [y], plot_relative_error=False)
    assert "large" not in capsys.readouterr().out
    assert x.grad.numpy().any()


@wp.func
def squared(a: float):
    return a * a


@wp.func_grad(squared)
def adj_squared(a: float, adj_ret: float):
    print("reverse", a, adj_ret)
    wp.adjoint[a] += 2.0 * a * adj_ret


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = squared(x[i])


def test_a_gradient_of_the_users_speaks_when_it_runs(capsys):
    x = wp.array([3.0, 4.0], dtype=float, requires_grad=True)
    y = wp.zeros(2, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 2, [x, y])
    assert capsys.readouterr().out == ""
    tape.backward(grads={y: wp.array([1.0, 10.0], dtype=float)})
    assert sorted(capsys.readouterr().out.splitlines()) == ["reverse 3.0 1.0", "reverse 4.0 10.0"]
    assert x.grad.numpy().tolist() == [6.0, 80.0]
    tape.replay().backward({y: np.ones(2)})
    assert capsys.readouterr().out == ""


@pytest.fixture
def few_lines():
    wp.config.print_lines = 5
    yield
    wp.config.print_lines = 10_000


@wp.kernel
def count(limit: int):
    i = wp.tid()
    if i < limit:
        print(i)


def test_what_is_too_much_is_counted(capsys, few_lines):
    wp.launch(count, 100, [100])
    assert capsys.readouterr().out == (
        "0\n1\n2\n3\n4\nkernel `count`: 95 more lines were not kept (config.print_lines is 5)\n"
    )
    wp.launch(count, 100, [6])
    assert capsys.readouterr().out.endswith(
        "kernel `count`: 1 more line was not kept (config.print_lines is 5)\n"
    )
    wp.launch(count, 100, [5])
    assert capsys.readouterr().out == "0\n1\n2\n3\n4\n"


@wp.kernel
def wide(m: wp.array(dtype=wp.mat44)):
    i = wp.tid()
    print(m[i], m[i], m[i], m[i])


def test_room_is_bounded_too(capsys, few_lines):
    wp.launch(wide, 3, [wp.zeros(3, dtype=wp.mat44)])
    assert PRINT_BUFFER.words.size < 300
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 14  # the rows of four matrices, the first of each behind the last of the one before
    assert shown[0] == "[[0.0, 0.0, 0.0, 0.0],"
    assert shown[-1] == "kernel `wide`: 2 more lines were not kept (config.print_lines is 5)"


def test_kernels_launched_by_several_threads_at_once(capsys):
    threads = [threading.Thread(target=wp.launch, args=(count, 200, [200])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = [int(line) for line in capsys.readouterr().out.split()]
    assert sorted(numbers) == sorted([*range(200)] * 4)
    assert numbers[:200] == [*range(200)]


@wp.kernel
def quiet(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] + 1.0


def test_kernels_that_say_nothing_know_nothing_of_it():
    x = wp.zeros(2, dtype=float)
    wp.launch(quiet, 2, [x])
    (plan,) = quiet.plans.values()
    assert not plan.checked
    assert not isinstance(plan.run, Listener)
    assert plan.tail[:8] == bytes(8)  # one adjoint pointer; the address of the print buffer is for replays
    assert "print_buffer_at" not in quiet.source() + quiet.source("adjoint")
    assert not quiet.checked_plans
    assert quiet.forward() is quiet.forward(diagnostics=SILENT)


# Assertions ------------------------------------------------------------------------------------------------


@wp.kernel
def step(x: wp.array(dtype=float), mass: wp.array(dtype=float), dt: float):
    i = wp.tid()
    x[i] += dt
    assert mass[i] > 0.0 and dt < 1.0, f"mass {i} must be positive"
    x[i] += dt / mass[i]


LEFT = "nothing of the launch is left: arrays and tape are as they were before it"


def line_of(text):
    with open(__file__) as file:
        return next(number for number, line in enumerate(file, 1) if line.strip() == text)


def test_assert():
    x, mass = wp.zeros(3, dtype=float), wp.array([1.0, 2.0, -0.5], dtype=float)
    with pytest.raises(wp.KernelAssertionError) as caught:
        wp.launch(step, 3, [x, mass, 0.5])
    source = 'assert mass[i] > 0.0 and dt < 1.0, f"mass {i} must be positive"'
    assert str(caught.value) == (
        "kernel `step`: assertion failed in thread 2: mass 2 must be positive\n"
        f"  --> {__file__}:{line_of(source)}, in step\n"
        f"   |     {source}\n"
        "   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  = note: mass[i] is -0.5\n"
        "  = note: dt is 0.5\n"
        f"  = note: {LEFT}\n"
        "  = hint: see why it does not hold; config.asserts = False leaves assertions out"
    )
    assert isinstance(caught.value, AssertionError)
    assert x.numpy().tolist() == [0, 0, 0]


def test_a_failed_launch_leaves_no_trace_on_any_tape():
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    y = wp.zeros(3, dtype=float, requires_grad=True)
    mass = wp.array([1.0, 2.0, -0.5], dtype=float, requires_grad=True)

    def program(tape, fails):
        with tape:
            wp.launch(square, 3, [x, y])
            if fails:
                with pytest.raises(wp.KernelAssertionError):
                    wp.launch(step, 3, [y, mass, 0.5])
            wp.launch(square, 3, [y, x])

    start = x.numpy().copy()
    found = []
    for fails in (False, True):
        x.assign(start)
        tape = wp.Tape()
        program(tape, fails)
        assert [r.name for r in tape.records] == ["square", "square"]
        assert not tape.outside
        assert len(tape.versions()) == 4
        tape.backward(grads={x: wp.ones(3, dtype=float)})
        found.append((x.grad.numpy().tolist(), x.numpy().tolist(), y.numpy().tolist()))
        tape.zero()
        x.grad.zero_()
    assert found[0] == found[1]


def test_a_launch_that_holds_is_recorded_and_reversed_with_the_values_it_saw():
    x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    mass = wp.array([0.5, 2.0], dtype=float, requires_grad=True)
    z = wp.zeros(2, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 2, [x, z])
        wp.launch(step, 2, [x, mass, 0.5])  # overwrites what the adjoint of the first needs
        wp.launch(square, 2, [x, z])
    assert x.numpy().tolist() == [2.5, 2.75]
    tape.backward(grads={z: wp.ones(2, dtype=float), x: wp.ones(2, dtype=float)})
    assert x.grad.numpy().tolist() == [1 + 2 * 2.5, 1 + 2 * 2.75]
    assert tape.replay().matches_live()


def test_assertions_can_be_left_out():
    x, mass = wp.zeros(1, dtype=float), wp.array([-1.0], dtype=float)
    wp.config.asserts = False
    try:
        wp.launch(step, 1, [x, mass, 0.5])
        assert "fail" not in step.source()
    finally:
        wp.config.asserts = True
    assert x.numpy()[0] == 0
    assert "fail" in step.source()
    with pytest.raises(wp.KernelAssertionError):
        wp.launch(step, 1, [x, mass, 0.5])


@wp.func
def guarded_root(a: float):
    assert a >= 0.0
    return wp.sqrt(a)


@wp.kernel
def rooted(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
    i, j = wp.tid()
    print("at", i, j)
    y[i, j] = guarded_root(x[i, j])


def test_assertion_in_a_function_names_the_call_and_the_thread_on_both_axes(capsys):
    x, y = wp.array([[4.0, 9.0], [-1.0, 1.0]], dtype=float), wp.zeros((2, 2), dtype=float)
    with pytest.raises(wp.KernelAssertionError) as caught:
        wp.launch(rooted, (2, 2), [x, y])
    assert capsys.readouterr().out == "at 0 0\nat 0 1\nat 1 0\n"  # what came before it is shown
    text = str(caught.value)
    assert text.startswith("kernel `rooted`: assertion failed in thread (1, 0)\n")
    call = line_of("y[i, j] = guarded_root(x[i, j])")
    assert f"  = note: called from line {call} of rooted: y[i, j] = guarded_root(x[i, j])\n" in text
    assert "  = note: a is -1.0\n" in text


def test_what_and_protects_is_not_computed_for_the_message():
    @wp.kernel
    def looked(x: wp.array(dtype=float), k: int):
        assert k < x.shape[0] and x[k] > 0.0

    with pytest.raises(wp.KernelAssertionError) as caught:
        wp.launch(looked, 1, [wp.ones(2, dtype=float), 10**9])
    assert caught.value.notes == ("k is 1000000000", "x.shape[0] is 2", LEFT)


@wp.kernel
def claims(x: wp.array(dtype=float), p: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    wp.expect_eq(i, 0)
    wp.expect_near(x[i], 1.0)
    wp.expect_near(p[i], wp.vec3(1.0, 2.0, 3.0), 0.1)
    wp.expect_near(x[i], 1.25, tolerance=0.5)
    x[i] = 7.0


def test_expectations_are_printed_and_the_kernel_runs_on(capsys):
    x = wp.array([1.0, 1.5], dtype=float)
    p = wp.array([(1.0, 2.05, 3.0), (1.0, 2.0, np.nan)], dtype=wp.vec3)
    wp.launch(claims, 2, [x, p])
    assert x.numpy().tolist() == [7, 7]
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("kernel")] == [
        "kernel `claims`: expect_eq() failed in thread 1: i is 1",
        "kernel `claims`: expect_near() failed in thread 1: x[i] is 1.5, the tolerance is 1e-06",
        "kernel `claims`: expect_near() failed in thread 1: p[i] is vec3(1.0, 2.0, nan), "
        "wp.vec3(1.0, 2.0, 3.0) is vec3(1.0, 2.0, 3.0), the tolerance is 0.1",
    ]
    assert lines[1:4] == [
        f"  --> {__file__}:{line_of('wp.expect_eq(i, 0)')}, in claims",
        "   |     wp.expect_eq(i, 0)",
        "   |     ^^^^^^^^^^^^^^^^^^",
    ]


@wp.kernel
def of_every_type(
    h: wp.array(dtype=wp.float16),
    u: wp.array(dtype=wp.uint64),
    v: wp.array(dtype=wp.types.vector(2, wp.float16)),
):
    i = wp.tid()
    print(h[i], u[i], v[i], wp.int8(-5), wp.float64(0.1), u[i] > wp.uint64(1), f"{h[i]:.3f}")
    wp.printf("%g %llu\n", h[i], u[i])
    wp.expect_near(h[i], wp.float16(2.0))


@pytest.mark.parametrize("interpreted", [False, True])
def test_scalars_of_every_width(interpreted, capsys, monkeypatch):
    monkeypatch.setattr(wp.config, "interpreted", interpreted)
    h, u = wp.array([0.1], dtype=wp.float16), wp.array(np.array([2**63 + 5], np.uint64), dtype=wp.uint64)
    wp.launch(of_every_type, 1, [h, u, wp.array([(0.5, 1.5)], dtype=wp.types.vector(2, wp.float16))])
    monkeypatch.undo()
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "0.1 9223372036854775813 [0.5, 1.5] -5 0.1 True 0.100",
        "0.0999756 9223372036854775813",
    ]
    assert "h[i] is 0.1, wp.float16(2.0) is 2.0, the tolerance is 1e-06" in lines[2]
