"""Rule `custom-grad`: each gradient of the user's by itself, at the arguments that it had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp

HERE = Path(__file__)


def line_of(text: str) -> int:
    """The first line of this file that holds `text`, counted from 1."""
    lines = HERE.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


@wp.func
def cube(x: float, a: float):
    return a * x * x * x


@wp.func_grad(cube)
def adj_right(x: float, a: float, adj_ret: float):
    wp.adjoint[x] += 3.0 * a * x * x * adj_ret
    wp.adjoint[a] += x * x * x * adj_ret


@wp.func
def cube_sign(x: float, a: float):
    return a * x * x * x


@wp.func_grad(cube_sign)
def adj_sign(y: float, b: float, adj_ret: float):
    wp.adjoint[y] -= 3.0 * b * y * y * adj_ret
    wp.adjoint[b] += y * y * y * adj_ret


@wp.func
def cube_factor(x: float, a: float):
    return a * x * x * x


@wp.func_grad(cube_factor)
def adj_factor(x: float, a: float, adj_ret: float):
    wp.adjoint[x] += 1.5 * a * x * x * adj_ret
    wp.adjoint[a] += x * x * x * adj_ret


@wp.func
def cube_missing(x: float, a: float):
    return a * x * x * x


@wp.func_grad(cube_missing)
def adj_missing(x: float, a: float, adj_ret: float):
    wp.adjoint[a] += x * x * x * adj_ret


@wp.func
def cube_assigned(x: float, a: float):
    return a * x * x * x


@wp.func_grad(cube_assigned)
def adj_assigned(x: float, a: float, adj_ret: float):
    wp.adjoint[x] = 3.0 * a * x * x * adj_ret
    wp.adjoint[a] += x * x * x * adj_ret


@wp.func
def cube_wrong(x: float, a: float):
    return a * x * x * x


@wp.func_grad(cube_wrong)
def adj_wrong(x: float, a: float, adj_ret: float):
    wp.adjoint[x] += 2.0 * a * x * adj_ret
    wp.adjoint[a] += x * x * x * adj_ret


@wp.func
def clipped(x: float):
    return wp.sin(x)


@wp.func_grad(clipped, differs=True)
def adj_clipped(x: float, adj_ret: float):
    wp.adjoint[x] += wp.clamp(wp.cos(x) * adj_ret, -0.5, 0.5)


@wp.func
def straight(x: float):
    return wp.round(4.0 * x)


@wp.func_grad(straight)
def adj_straight(x: float, adj_ret: float):
    """Straight through: this is meant to differ from the derivative, which is 0."""
    wp.adjoint[x] += 4.0 * adj_ret


@wp.kernel
def apply_straight(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = straight(x[i])


@wp.func
def unclipped(x: float):
    return wp.sin(x)


@wp.func_grad(unclipped)
def adj_unclipped(x: float, adj_ret: float):
    wp.adjoint[x] += wp.clamp(wp.cos(x) * adj_ret, -0.5, 0.5)


@wp.func
def root(x: float):
    return wp.sqrt(x)


@wp.func_grad(root)
def adj_root(x: float, adj_ret: float):
    if x > 0.0:
        wp.adjoint[x] += 0.5 / wp.sqrt(x) * adj_ret


@wp.func
def turned(v: wp.vec3, angle: float):
    return wp.vec3(
        v[0] * wp.cos(angle) - v[1] * wp.sin(angle), v[0] * wp.sin(angle) + v[1] * wp.cos(angle), v[2]
    )


@wp.func_grad(turned)
def adj_turned(v: wp.vec3, angle: float, adj_ret: wp.vec3):
    c = wp.cos(angle)
    s = wp.sin(angle)
    wp.adjoint[v] += wp.vec3(c * adj_ret[0] + s * adj_ret[1], c * adj_ret[1] - s * adj_ret[0], adj_ret[2])
    wp.adjoint[angle] += (-s * v[0] - c * v[1]) * adj_ret[0] + (c * v[0] - s * v[1]) * adj_ret[1]


@wp.func
def looked_up(table: wp.array(dtype=float), i: int, x: float):
    total = float(0.0)
    for k in range(3):
        total += table[i + k] * x
    return total


@wp.func_grad(looked_up)
def adj_looked_up(table: wp.array(dtype=float), i: int, x: float, adj_ret: float):
    for k in range(3):
        wp.adjoint[table][i + k] += x * adj_ret
        wp.adjoint[x] += table[i + k] * adj_ret


def kernel_of(function: Any, *, again: bool = False) -> Any:
    """y = f(x, a), with a use of `x` after it that gathers an adjoint before the gradient runs if `again`."""
    if again:

        @wp.kernel
        def apply(x: wp.array(dtype=float), a: wp.array(dtype=float), y: wp.array(dtype=float)):
            i = wp.tid()
            at = x[i]
            y[i] = function(at, a[0]) + 5.0 * at

        return apply

    @wp.kernel
    def apply(x: wp.array(dtype=float), a: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = function(x[i], a[0])

    return apply


@wp.kernel
def apply_clipped(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = clipped(x[i])


@wp.kernel
def apply_unclipped(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = unclipped(x[i])


@wp.kernel
def apply_root(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    r = root(x[i])
    y[i] = r * r * r


@wp.kernel
def apply_turned(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    v = turned(wp.vec3(x[i], x[i] * x[i], 1.0), 2.0 * x[i])
    y[i] = v[0] + 2.0 * v[1] - v[2] + x[i]


@wp.kernel
def apply_looked_up(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = looked_up(x, wp.min(i, x.shape[0] - 3), x[i])


@wp.kernel
def squares(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, y[i] * y[i])


def floats(*values: float) -> Any:
    return wp.array(list(values), dtype=float, requires_grad=True)


def run(kernel: Any, *values: float, a: float | None = None) -> Any:
    x = floats(*(values or np.linspace(0.5, 2.0, 9)))
    y, loss = wp.zeros_like(x), floats(0.0)
    inputs = [x] if a is None else [x, floats(a)]
    with wp.Tape() as tape:
        wp.launch(kernel, x.size, inputs, [y])
        wp.launch(squares, x.size, [y], [loss])
    tape.backward(loss)
    return wp.diagnose(tape)


def the_finding(diagnosis: Any) -> Any:
    (finding,) = [item for item in diagnosis.findings if item.rule == "custom-grad"]
    assert [item.rule for item in diagnosis.findings if item.severity != "info"] in ([], ["custom-grad"])
    return finding


CASES = [
    (
        cube_sign,
        "sign",
        "wp.adjoint[y] -= 3.0 * b * y * y * adj_ret",
        "adj_sign, the gradient of cube_sign, has the wrong sign for x. In launch 0 (kernel_of__apply), "
        "thread 8, at "
        "x = 2, "
        "a = 0.7, the derivative by x is 8.4 and -8.4 is given; of 9 calls that were checked 9 are off. "
        "End to end "
        "the gradient of x is wrong.",
        "correct wp.adjoint[y] in adj_sign, or say that it is meant to differ: "
        "@wp.func_grad(cube_sign, differs=True)",
    ),
    (
        cube_factor,
        "factor",
        "wp.adjoint[x] += 1.5 * a * x * x * adj_ret",
        "adj_factor, the gradient of cube_factor, is only 0.5 of what it should be for x. In launch 0 "
        "(kernel_of__apply), "
        "thread 8, at x = 2, a = 0.7, the derivative by x is 8.4 and 4.2 is given; of 9 calls that were "
        "checked 9 "
        "are off. End to end the gradient of x is wrong.",
        "correct wp.adjoint[x] in adj_factor, or say that it is meant to differ: "
        "@wp.func_grad(cube_factor, differs=True)",
    ),
    (
        cube_missing,
        "missing",
        "def adj_missing",
        "adj_missing, the gradient of cube_missing, has no effect on the adjoint of x. In launch 0 "
        "(kernel_of__apply), thread "
        "8, at x = 2, a = 0.7, the derivative by x is 8.4 and nothing is given; of 9 calls that were "
        "checked 9 are "
        "off. End to end the gradient of x is wrong.",
        "add the derivative by x to wp.adjoint[x] in adj_missing, or say that it is meant to differ: "
        "@wp.func_grad(cube_missing, differs=True)",
    ),
    (
        cube_wrong,
        "wrong",
        "wp.adjoint[x] += 2.0 * a * x * adj_ret",
        "adj_wrong, the gradient of cube_wrong, is not the derivative by x. In launch 0 "
        "(kernel_of__apply), thread 8, "
        "at x = 2, "
        "a = 0.7, the derivative by x is 8.4 and 2.8 is given; of 9 calls that were checked 9 are off. End "
        "to end "
        "the gradient of x is wrong.",
        "correct wp.adjoint[x] in adj_wrong, or say that it is meant to differ: "
        "@wp.func_grad(cube_wrong, differs=True)",
    ),
]


@pytest.mark.parametrize(
    ("function", "kind", "line", "message", "fix"), CASES, ids=[case[1] for case in CASES]
)
def test_what_is_wrong_is_said(function: Any, kind: str, line: str, message: str, fix: str) -> None:
    finding = the_finding(run(kernel_of(function), a=0.7))
    assert (finding.severity, finding.evidence["kind"]) == ("error", kind)
    assert finding.location.line == line_of(line)
    assert finding.location.function == function.gradient.name
    assert finding.message == message
    assert finding.fix == fix


def test_an_assignment_counts_where_something_was_gathered() -> None:
    finding = the_finding(run(kernel_of(cube_assigned, again=True), a=0.7))
    assert (finding.severity, finding.evidence["kind"]) == ("error", "assigned")
    assert finding.location.line == line_of("wp.adjoint[x] = 3.0 * a * x * x * adj_ret")
    assert finding.message == (
        "adj_assigned, the gradient of cube_assigned, sets the adjoint of x instead of adding to it, and "
        "discards what other uses contributed. In launch 0 (kernel_of__apply), thread 8, at x = 2, a = 0.7, "
        "the derivative by x is 8.4 and is given, but what was there before is gone; of 9 calls that were "
        "checked 9 are off. End to end the gradient of x is wrong."
    )
    assert finding.fix == "write wp.adjoint[x] += … in adj_assigned"


def test_an_assignment_that_throws_nothing_away_is_a_note() -> None:
    diagnosis = run(kernel_of(cube_assigned), a=0.7)
    finding = the_finding(diagnosis)
    assert (diagnosis.verdict, finding.severity) == ("AGREE", "info")
    assert finding.message.endswith("End to end the gradient is right: nothing else has added to it.")


@pytest.mark.parametrize(
    ("kernel", "arguments"),
    [
        (kernel_of(cube), {"a": 0.7}),
        (kernel_of(cube, again=True), {"a": 0.7}),
        (apply_root, {}),
        (apply_turned, {}),
        (apply_looked_up, {}),
    ],
    ids=["two arguments", "used again", "singular at 0", "vectors", "an array and a loop"],
)
def test_right_gradients_are_right(kernel: Any, arguments: dict[str, float]) -> None:
    diagnosis = run(kernel, 0.5, 0.0, 1.0, 2.0, 3.0, **arguments)
    assert [item for item in diagnosis.findings if item.rule == "custom-grad"] == []
    assert diagnosis.verdict == "AGREE", str(diagnosis)


def test_a_gradient_that_is_meant_to_differ_is_taken_as_it_is() -> None:
    diagnosis = run(apply_clipped)
    assert (diagnosis.verdict, diagnosis.findings) == ("UNDECIDABLE", [])
    assert diagnosis.coverage.summary == (
        "2 of 2 launches checked end to end; UNDECIDABLE with respect to x: the gradient of clipped is "
        "meant to "
        "differ (func_grad with differs=True), and differences of the loss do not see it; it agrees with "
        "its float64 "
        "twin"
    )
    diagnosis.raise_if_wrong()


def test_a_docstring_says_it_too() -> None:
    diagnosis = run(apply_straight)
    assert (diagnosis.verdict, diagnosis.findings) == ("UNDECIDABLE", [])


def test_unless_nobody_says_so() -> None:
    diagnosis = run(apply_unclipped)
    assert (diagnosis.verdict, the_finding(diagnosis).severity) == ("WRONG", "error")


def test_what_is_overwritten_is_wrong_also_where_a_gradient_is_meant_to_differ() -> None:
    x, loss = floats(0.05, 0.1, 0.15), floats(0.0)
    y = wp.zeros_like(x)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(apply_clipped, 3, [x], [y])
        wp.launch(squares, 3, [y], [loss])
        y.fill_(3.0)
    tape.backward(loss)
    assert wp.diagnose(tape).verdict == "WRONG"


def test_a_long_loop_costs_three_launches() -> None:
    kernel, x, a, loss = kernel_of(cube_factor), floats(*np.full(4, 0.1)), floats(1.0), floats(0.0)
    with wp.Tape() as tape:
        for _ in range(50):
            y = wp.zeros_like(x)
            wp.launch(kernel, 4, [x, a], [y])
        wp.launch(squares, 4, [y], [loss])
    tape.backward(loss)
    finding = the_finding(wp.diagnose(tape))
    assert finding.evidence["checked"] == 12
    assert finding.launches == [0, 24, 49]


# -------------------------------------------------------------------- native functions, arrays, bypassed ones


@wp.func_native("return x * x * x;", adj_snippet="adj_x += 2.0f * x * x * adj_ret;")
def native_cube(x: float) -> float: ...


@wp.func_native("return x * x * x;", adj_snippet="adj_x += 3.0f * x * x * adj_ret;")
def native_right(x: float) -> float: ...


@wp.kernel
def apply_native(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = native_cube(x[i])


@wp.kernel
def apply_native_right(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = native_right(x[i])


@wp.func
def neighbours(table: wp.array(dtype=float), i: int):
    return table[i] * table[i + 1]


@wp.func_grad(neighbours)
def adj_neighbours(table: wp.array(dtype=float), i: int, adj_ret: float):
    wp.adjoint[table][i] += table[i + 1] * adj_ret


@wp.kernel
def apply_neighbours(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = neighbours(x, wp.min(i, x.shape[0] - 2))


@wp.func
def level(x: float):
    return wp.round(x)


@wp.func_grad(level)
def adj_level(x: float, adj_ret: float):
    wp.adjoint[x] += adj_ret


@wp.func
def level(x: float):
    return wp.round(2.0 * x)


@wp.kernel
def apply_level(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = level(x[i])


@wp.func
def norm(v: wp.vec2):
    return wp.length(v)


@wp.func_grad(norm)
def adj_norm(v: wp.vec2, adj_ret: float):
    wp.adjoint[v] += v / (wp.length(v) + 1.0e-9) * adj_ret


@wp.func
def norm(v: wp.vec3):
    return wp.length(v)


@wp.kernel
def apply_norm(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = norm(wp.vec3(x[i], x[i], 1.0))


def test_a_native_function_is_checked_with_its_launch() -> None:
    diagnosis = run(apply_native, 0.5, 1.0, 2.0)
    finding = the_finding(diagnosis)
    evidence = finding.evidence
    assert (diagnosis.verdict, finding.severity, evidence["kind"]) == ("WRONG", "error", "launch")
    assert finding.location.line == line_of("y[i] = native_cube(x[i])")
    assert evidence["given"] == pytest.approx(evidence["right"] * 2 / 3, rel=1e-3)
    assert finding.message == (
        "Launch 0 (apply_native) calls native_cube, with a gradient by adj_snippet, and its adjoint is not "
        "its "
        f"derivative: along a random direction in x it gives {evidence['given']:.6g}, where differences give "
        f"{evidence['right']:.6g} ± {evidence['bar']:.1g}. End to end the gradient of x is wrong."
    )
    assert finding.fix == "correct the adj_snippet of native_cube"


def test_a_gradient_of_arrays_is_checked_with_its_launch() -> None:
    diagnosis = run(apply_neighbours, 0.5, 1.0, 2.0, 4.0)
    finding = the_finding(diagnosis)
    assert (diagnosis.verdict, finding.evidence["kind"], finding.arrays) == ("WRONG", "launch", ["x"])
    assert finding.location.line == line_of("y[i] = neighbours(x, wp.min(i, x.shape[0] - 2))")
    assert finding.fix == (
        "correct the func_grad of neighbours, or say that it is meant to differ: "
        "@wp.func_grad(neighbours, differs=True)"
    )


def test_a_right_native_function_is_right() -> None:
    diagnosis = run(apply_native_right, 0.5, 1.0, 2.0)
    assert (diagnosis.verdict, diagnosis.findings) == ("AGREE", [])


def test_a_function_that_was_defined_again_has_lost_its_gradient() -> None:
    diagnosis = run(apply_level, 0.6, 1.2, 2.9)
    (finding,) = [item for item in diagnosis.findings if item.rule == "custom-grad"]
    again = line_of("return wp.round(2.0 * x)") - 1
    assert (finding.severity, finding.evidence["kind"]) == ("warning", "bypassed")
    assert finding.location.line == line_of("def adj_level")
    assert finding.message == (
        "adj_level is never run: it is the gradient of level(x: float32), and level was defined again at "
        f"test_custom_grad.py:{again}, which has no gradient of its own. The adjoint of launch 0 "
        "(apply_level) "
        "reverses its body."
    )
    assert finding.fix == "define adj_level after the last definition of level"


def test_another_version_of_a_function_has_no_gradient() -> None:
    diagnosis = run(apply_norm, 0.6, 1.2, 2.9)
    (finding,) = diagnosis.findings
    version = line_of("def norm(v: wp.vec3)")
    assert (diagnosis.verdict, finding.severity, finding.evidence["kind"]) == ("AGREE", "info", "bypassed")
    assert finding.message == (
        "adj_norm is never run: it is the gradient of norm(v: vec2), and apply_norm calls the version "
        "norm(v: vec3) "
        f"at test_custom_grad.py:{version}, which has no gradient of its own. The adjoint of launch 0 "
        "(apply_norm) "
        "reverses its body."
    )
    assert finding.fix == "write a gradient for norm(v: vec3), too"


# ---------------------------------------------------------------------------------- a few entries of many


@wp.func
def nearly(x: float, factor: float):
    return wp.sin(x) + x * x


@wp.func_grad(nearly)
def adj_nearly(x: float, factor: float, adj_ret: float):
    c = wp.cos(x)
    wp.adjoint[x] += factor * (c + 2.0 * x) * adj_ret  # the line to blame


@wp.kernel
def apply_at_one_thread(x: wp.array(dtype=float), factor: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 3.0 * x[i]
    if i == 200:
        y[i] = nearly(x[i], factor)


def one_of_400(factor: float) -> Any:
    x, loss = floats(*np.random.default_rng(1).uniform(0.4, 1.4, 400)), floats(0.0)
    y = wp.zeros_like(x)
    with wp.Tape() as tape:
        wp.launch(apply_at_one_thread, 400, [x, factor, y])
        wp.launch(squares, 400, [y], [loss])
    tape.backward(loss)
    return wp.diagnose(tape)


def test_the_one_thread_of_many_that_is_wrong_is_looked_into() -> None:
    diagnosis = one_of_400(0.99)
    finding = the_finding(diagnosis)
    assert (diagnosis.verdict, finding.severity, finding.evidence["thread"]) == ("WRONG", "error", 200)
    assert finding.location.line == line_of("# the line to blame")
    assert "adj_nearly, the gradient of nearly, is only 0.99 of what it should be for x" in finding.message


def test_an_error_that_no_call_alone_shows_is_told_by_its_entries() -> None:
    diagnosis = one_of_400(1.0003)
    finding = the_finding(diagnosis)
    assert (diagnosis.verdict, finding.severity, finding.evidence["kind"]) == ("WRONG", "error", "entries")
    assert (finding.evidence["entries"], finding.evidence["off"]) == (["x[200]"], 1)
    assert finding.location.line == line_of("# the line to blame")
    assert finding.message.startswith(
        "adj_nearly, the gradient of nearly, is not its derivative for 1 of 400 entries of x (x[200]): "
        "x[200] gets "
    )
    assert ", a relative 0.0003 apart; along it AD " in finding.message
    assert finding.fix == (
        "correct adj_nearly, or say that it is meant to differ: @wp.func_grad(nearly, differs=True)"
    )


def test_one_right_thread_of_many_is_not_mentioned() -> None:
    diagnosis = one_of_400(1.0)
    assert (diagnosis.verdict, diagnosis.findings) == ("AGREE", [])
