"""A gradient that is wrong because the adjoint of one launch is: the launch is found by bisection."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._progress import Progress
from tapedebug.diagnose._diagnose import _context
from tapedebug.diagnose.rules import wrong_adjoint
from tapedebug.runtime.launch.plan import KernelPlan

needs_c = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("cc", "gcc", "clang")), reason="there is no C compiler"
)


@wp.func_native("out[i] = x[i] * x[i];", "adj_x[i] += 3.0f * x[i] * adj_out[i];")
def wrong_square(x: wp.array(dtype=float), out: wp.array(dtype=float), i: int): ...


@wp.func_native("out[i] = x[i] * x[i];", "adj_x[i] += 2.0f * x[i] * adj_out[i];")
def right_square(x: wp.array(dtype=float), out: wp.array(dtype=float), i: int): ...


@wp.kernel
def wrong_squares(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    wrong_square(x, y, wp.tid())


@wp.kernel
def right_squares(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    right_square(x, y, wp.tid())


@wp.kernel
def wave(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 0.9 * x[i] + 0.2 * wp.sin(x[i])


@wp.kernel
def drag(v: wp.array(dtype=wp.vec3), k: wp.array(dtype=float)):
    i = wp.tid()
    v[i] = v[i] * (1.0 - 0.01 * k[0] * wp.length(v[i]))


@wp.kernel
def push(v: wp.array(dtype=wp.vec3), k: wp.array(dtype=float)):
    i = wp.tid()
    v[i] = v[i] + wp.vec3(0.01, 0.0, 0.0) * k[0]


@wp.kernel
def energy(v: wp.array(dtype=wp.vec3), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, wp.dot(v[wp.tid()], v[wp.tid()]))


@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, x[wp.tid()])


def chain(kernel: Any, at: int, length: int = 20) -> tuple[Any, Any]:
    x, loss = wp.array([0.5, 1.0, 2.0], dtype=float, requires_grad=True), wp.zeros(1, requires_grad=True)
    a, b = wp.zeros(3, requires_grad=True), wp.zeros(3, requires_grad=True)
    with wp.Tape() as tape:
        wp.copy(a, x)
        for step in range(1, length):
            wp.launch(kernel if step == at else wave, 3, inputs=[a], outputs=[b])
            a, b = b, a
        wp.launch(total, 3, inputs=[a, loss])
    tape.backward(loss)
    return tape, x


def blamed(tape: Any) -> list[Any]:
    """Return the findings of the rule alone: other rules look at custom gradients before it."""
    context = _context(tape, None, None, Progress(False))
    findings = wrong_adjoint.WrongAdjoint().check(context)
    assert context.trace.verdict == "WRONG" or not findings
    return findings


@needs_c
@pytest.mark.parametrize("at", [1, 7, 19])
def test_the_launch_is_found_wherever_it_is(at: int) -> None:
    tape, _ = chain(wrong_squares, at)
    (finding,) = blamed(tape)
    assert (finding.severity, finding.launches) == ("error", [at])
    (numbers,) = finding.evidence["along"].values()
    assert numbers["adjoint"] / numbers["difference"] == pytest.approx(1.5, rel=1e-4)
    assert finding.evidence["before"] / finding.evidence["after"] == pytest.approx(1.5, rel=1e-4)
    assert finding.evidence["by_hand"] == "wrong_square"
    assert finding.evidence["same_kernel"] == [at]
    assert "(1.5 times as much)" in finding.message
    assert f"the adjoints of the {20 - at} launch{'es' * (20 - at > 1)} after it are right" in finding.message
    assert finding.message.endswith(" It calls wrong_square, whose adjoint is written by hand.")
    assert finding.location.function == "wrong_squares"
    assert finding.call_site.function == "chain"
    assert finding.fix == (
        "look at the adjoint snippet of wrong_square, which does not compute the derivative of the function"
    )


@needs_c
def test_a_native_function_whose_adjoint_is_right_is_not_blamed() -> None:
    tape, _ = chain(right_squares, 7)
    diagnosis = wp.diagnose(tape)
    assert diagnosis.verdict == "AGREE"
    assert "wrong-adjoint" not in {finding.rule for finding in diagnosis.findings}


@wp.func
def kept_within(x: float):
    return x * x


@wp.func_grad(kept_within)
def adj_kept_within(x: float, adj_ret: float):
    wp.adjoint[x] += wp.clamp(2.0 * x * adj_ret, -0.1, 0.1)


@wp.kernel
def clipped(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = kept_within(x[i])


def test_a_gradient_of_the_users_own_is_to_be_corrected_or_declared() -> None:
    tape, _ = chain(clipped, 7)
    (finding,) = blamed(tape)
    assert (finding.severity, finding.launches, finding.evidence["by_hand"]) == ("error", [7], "kept_within")
    assert finding.fix == (
        "look at the gradient (func_grad) of kept_within, which does not compute the derivative of the "
        "function, or say that it is meant to differ: @wp.func_grad(kept_within, differs=True)"
    )


def simulation(steps: int) -> tuple[Any, Any]:
    v = wp.array(np.linspace(0.1, 1.0, 12).reshape(4, 3), dtype=wp.vec3, requires_grad=True)
    k, loss = wp.array([0.7], dtype=float, requires_grad=True), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        for _ in range(steps):
            wp.launch(push, 4, inputs=[v, k])
            wp.launch(drag, 4, inputs=[v, k])
        wp.launch(energy, 4, inputs=[v, loss])
    return tape, loss


def test_a_slip_of_the_engine_is_found_and_asked_to_be_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    real = KernelPlan.adjoint_run

    def doubled(self: Any, *args: Any, **options: Any) -> Any:
        run = real(self, *args, **options)
        if self.name != "drag":
            return run

        def twice(lo: int, hi: int, where: int) -> None:
            run(lo, hi, where)
            run(lo, hi - 1, where)  # and once more, but for the last thread

        return twice

    monkeypatch.setattr(KernelPlan, "adjoint_run", doubled)
    tape, loss = simulation(60)
    tape.backward(loss)
    (finding,) = (f for f in wp.diagnose(tape).findings if f.rule == "wrong-adjoint")
    assert finding.severity == "error"
    assert finding.launches == [119], "the first in the reverse pass"
    assert set(finding.evidence["along"]) == {"v", "k"}
    assert finding.evidence["same_kernel"] == list(range(1, 120, 2))
    assert "60 launches of the tape run this kernel." in finding.message
    assert finding.fix == (
        "look at what drag computes, and report it with a program that shows it: adjoints that are not "
        "written by hand should be right"
    )


def test_what_another_rule_explains_is_not_told_twice() -> None:
    x, y, loss = (wp.array([0.5, 1.0], dtype=float, requires_grad=True) for _ in range(3))
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(wave, 2, inputs=[x], outputs=[y])
        wp.launch(wave, 2, inputs=[y], outputs=[x])
        wp.launch(total, 2, inputs=[x, loss[:1]])
    tape.backward(grads={x: [1.0, 1.0]})
    diagnosis = wp.diagnose(tape)
    assert diagnosis.verdict == "WRONG"
    assert {finding.rule for finding in diagnosis.findings if finding.severity == "error"} == {"overwrite"}


def test_right_tapes_are_not_bisected() -> None:
    tape, loss = simulation(10)
    tape.backward(loss)
    said: list[str] = []
    assert wp.diagnose(tape, progress=said.append).verdict == "AGREE"
    assert not any("bisecting" in words for words in said)
