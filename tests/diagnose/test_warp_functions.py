"""Functions that lack an adjoint in Warp, under `as_warp`: what is said, and of what nothing is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.lang import types as t
from tapedebug.lang._measured_in_warp import ADJOINTS, VERSION
from tapedebug.lang.rules import COMPOSITES, RULES
from tapedebug.lang.warp_adjoints import adjoints_of

NAME = Path(__file__).name


@wp.func
def sine(x: float):
    return wp.sin(x)


@wp.kernel
def frac(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[wp.tid()] = wp.frac(x[wp.tid()]) * 2.0  # frac


@wp.kernel
def divisor(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[wp.tid()] = wp.mod(2.9, x[wp.tid()])  # divisor


@wp.kernel
def percent(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[wp.tid()] = 2.9 % x[wp.tid()]  # percent


@wp.kernel
def bounds(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    s = wp.rand_init(1, i)
    y[i] = wp.randf(s, x[i], 2.0 * x[i] + 3.0)  # bounds


@wp.kernel
def inner(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[wp.tid()] = wp.grad(sine)(x[wp.tid()])  # inner


@wp.kernel
def of_vectors(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    v = wp.mod(wp.vec3(x[i], 5.5, 2.0), wp.vec3(2.0, x[i], 1.5))  # of_vectors
    y[i] = v[0] + v[1]


@wp.func
def wrapped(x: float):
    return wp.frac(x) + 1.0  # wrapped


@wp.kernel
def in_a_function(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[wp.tid()] = wrapped(x[wp.tid()])


@wp.kernel
def in_a_loop(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    for k in range(n):
        y[i] += wp.frac(x[i] + float(k))  # in_a_loop


@wp.kernel
def swapped(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_exch(y, i, x[i] * x[i])  # swapped


@wp.kernel
def claimed(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_cas(y, i, 0.0, x[i] * x[i])  # claimed


@wp.kernel
def result(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.atomic_add(x, i, 1.0) * 2.0  # result


# look-alikes


@wp.kernel
def dividend(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[wp.tid()] = wp.mod(x[wp.tid()], 2.0)


@wp.kernel
def written_out(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = (x[i] - wp.trunc(x[i])) * 2.0 + 2.9 - wp.trunc(2.9 / x[i]) * x[i]


@wp.kernel
def of_constants(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * wp.frac(float(i) * 0.3) + wp.randf(wp.rand_init(1, i), -1.0, 1.0) * x[i]


@wp.kernel
def unread(x: wp.array(dtype=float), y: wp.array(dtype=float), z: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]
    z[i] = wp.frac(x[i])


@wp.kernel
def top(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    wp.atomic_max(y, 0, x[wp.tid()] * x[wp.tid()])  # top


@wp.kernel
def low(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    wp.atomic_min(y, 0, x[wp.tid()] * x[wp.tid()])


@wp.kernel
def total(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, y[wp.tid()])


def diagnosed(
    kernel: Any, *more: Any, start: float = 0.0, values: Any = (0.6, -1.4, 2.3), wanted: bool = False
) -> tuple[Any, Any]:
    """The findings under `as_warp`, and the gradient of x."""
    x = wp.array(list(values), dtype=float, requires_grad=True)
    y = wp.array([start] * 3, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=3, inputs=[x, y, *more])
        wp.launch(total, dim=3, inputs=[y], outputs=[loss])
    tape.backward(loss)
    found = wp.diagnose(tape, loss, [x, y] if wanted else [x], as_warp=True, progress=False)
    plain = wp.diagnose(tape, loss, [x], progress=False)
    assert not [item for item in plain.findings if item.rule == "warp-limitation"]
    return found, x.grad.numpy()


def line_of(text: str) -> int:
    lines = Path(__file__).read_text("utf-8").splitlines()
    (found,) = [number for number, line in enumerate(lines, start=1) if line.endswith(text)]
    return found


@pytest.mark.parametrize(
    ("kernel", "name", "fix"),
    [
        (frac, "wp.frac", "write x - wp.trunc(x)"),
        (divisor, "wp.mod", "write x - wp.trunc(x / y) * y"),
        (percent, "wp.mod", "write x - wp.trunc(x / y) * y"),
        (of_vectors, "wp.mod", "write x - wp.trunc(x / y) * y"),
        (bounds, "wp.randf", "write low + (high - low) * wp.randf(state)"),
        (inner, "wp.grad(…)", "write the derivative out in a @wp.func of its own"),
        (swapped, "wp.atomic_exch", "read the element and write it"),
        (claimed, "wp.atomic_cas", "compare, read and write the element"),
        (result, "wp.atomic_add", "with @wp.func_grad"),
    ],
    ids=lambda value: getattr(value, "key", ""),
)
def test_a_gradient_that_needs_an_adjoint_that_warp_lacks_is_an_error(
    kernel: Any, name: str, fix: str
) -> None:
    found, gradient = diagnosed(kernel)
    assert gradient.any()
    (error,) = [item for item in found.findings if item.severity == "error"]
    rule = "replayed-counter" if kernel is result else "warp-limitation"
    assert error.rule == rule
    if rule == "warp-limitation":
        assert f"{name} at {NAME}:{line_of(f'# {kernel.key}')} has an adjoint for " in error.message
        assert f"(measured with warp-lang {VERSION})" in error.message
        assert fix in error.fix
        assert error.location.line == line_of(f"# {kernel.key}")


def test_within_a_function_and_a_loop() -> None:
    found, _ = diagnosed(in_a_function)
    (error,) = [item for item in found.findings if item.severity == "error"]
    assert f"wp.frac at {NAME}:{line_of('# wrapped')}" in error.message
    found, _ = diagnosed(in_a_loop, 3)
    (error,) = [item for item in found.findings if item.severity == "error"]
    assert f"wp.frac at {NAME}:{line_of('# in_a_loop')}" in error.message


@pytest.mark.parametrize("kernel", [dividend, written_out, of_constants], ids=lambda kernel: kernel.key)
def test_what_warp_reverses_rightly_is_silent(kernel: Any) -> None:
    found, gradient = diagnosed(kernel)
    assert gradient.any()
    assert not [item for item in found.findings if item.rule == "warp-limitation"]


def test_what_the_loss_does_not_depend_on_is_silent() -> None:
    found, _ = diagnosed(unread, wp.zeros(3, dtype=float, requires_grad=True))
    assert not [item for item in found.findings if item.severity != "info"]


@pytest.mark.parametrize(("kernel", "start", "want"), [(top, 0.0, [0, 0, 4.6]), (low, 100.0, [1.2, 0, 0])])
def test_extremes_are_right_in_warp(kernel: Any, start: float, want: list[float]) -> None:
    found, gradient = diagnosed(kernel, start=start)
    np.testing.assert_allclose(gradient, want, rtol=1e-6)
    assert not [item for item in found.findings if item.severity != "info"], found


def test_ties_and_the_start_of_an_extreme_are_wrong_in_warp() -> None:
    """Every equal value gets the whole adjoint; and so does what the element held before."""
    found, gradient = diagnosed(top, values=(2.0, 2.0, 1.0))
    np.testing.assert_allclose(gradient, [4.0, 0, 0])
    (error,) = [item for item in found.findings if item.severity == "error"]
    assert "gives it to every equal value" in error.message
    assert error.evidence["gradients"]["x"]["wrong"] == 4.0
    found, _ = diagnosed(top, start=1.0, wanted=True)
    errors = [item for item in found.findings if item.severity == "error"]
    assert [item.arrays for item in errors] == [["y"]]


def test_what_an_extreme_began_with_is_no_error_unless_somebody_asks_for_its_gradient() -> None:
    x = wp.array([0.6, -1.4, 2.3], dtype=float, requires_grad=True)
    best = wp.zeros(3, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(top, dim=3, inputs=[x, best])
        wp.launch(total, dim=3, inputs=[best], outputs=[loss])
    tape.backward(loss)
    assert not [f for f in wp.diagnose(tape, as_warp=True, progress=False).findings if f.severity == "error"]
    named = wp.diagnose(tape, loss, [x, best], as_warp=True, progress=False)
    assert [f.arrays for f in named.findings if f.severity == "error"] == [["best"]]


# ------------------------------------------------------------------ the table


def test_every_function_of_the_table_is_one_of_ours() -> None:
    known = {*RULES, *COMPOSITES, "grad", "randf", "component", "vector", "matrix", "quaternion"}
    known |= {"transformation", "transform_set_translation", "transform_set_rotation"}
    known |= {name for name in ADJOINTS if name.startswith("atomic_")}
    assert set(ADJOINTS) <= known
    assert len(ADJOINTS) > 80


def test_what_is_looked_up() -> None:
    vec3, mat33 = t.vector(3, t.float32), t.matrix((3, 3), t.float64)
    assert adjoints_of("mod", [t.float32, t.float32]) == "rn"
    assert adjoints_of("mod", [t.float64, t.float64]) == "rn"
    assert adjoints_of("mod", [vec3, vec3]) == "nn"
    assert adjoints_of("mod", [t.int32, t.int32]) == "rr"  # nothing to differentiate
    assert adjoints_of("frac", [t.float32]) == "n"
    assert adjoints_of("mul", [mat33, mat33]) == "rr"
    assert adjoints_of("a function of mine", [t.float32]) == "r"


def test_the_table_and_its_page_are_as_the_program_writes_them() -> None:
    from tests.lang.warp_adjoints import PAGE, TABLE, page_text, table_text

    rows = {
        (name, kinds): {"float32": letters, "float64": own.get(f"{kinds} float64", letters)}
        for name, own in ADJOINTS.items()
        for kinds, letters in own.items()
        if " " not in kinds
    }
    assert TABLE.read_text("utf-8") == table_text(VERSION, rows)
    measured, _, _ = PAGE.read_text("utf-8").partition("## Not compared")
    assert measured == page_text(VERSION, rows, {}).partition("## Not compared")[0]
