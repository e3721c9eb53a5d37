"""The reference of a whole tape: nothing that shares the adjoint under test, compared entry by entry."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import end_to_end, gradcheck_tape
from tapedebug.autograd.tapes.directional import Probe
from tapedebug.autograd.tapes.input_check import _deciding
from tapedebug.autograd.tapes.reference import Departure, custom_functions

N = 400
CLAIM = re.compile(r"agrees to (\d(?:e-?\d+)?)")


@wp.func
def wave(x: float, slope: float):
    return wp.sin(x) + x * x


@wp.func_grad(wave)
def adj_wave(x: float, slope: float, adj_ret: float):
    wp.adjoint[x] += slope * (wp.cos(x) + 2.0 * x) * adj_ret


@wp.kernel
def all_wrong(x: wp.array(dtype=float), slope: float, loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wave(x[i], slope))


@wp.kernel
def one_wrong(x: wp.array(dtype=float), slope: float, loss: wp.array(dtype=float)):
    i = wp.tid()
    if i == 200:
        wp.atomic_add(loss, 0, wave(x[i], slope))
    else:
        wp.atomic_add(loss, 0, 3.0 * x[i] * x[i])


def floats(values: Any) -> Any:
    return wp.array(np.asarray(values, dtype=np.float32), dtype=float, requires_grad=True)


def recorded(kernel: Any, x: Any, *more: Any) -> tuple[Any, Any]:
    loss = floats([0.0])
    with wp.Tape() as tape:
        wp.launch(kernel, x.shape[0], inputs=[x, *more, loss])
    tape.backward(loss)
    return tape, loss


def some(count: int = N) -> Any:
    return floats(np.random.default_rng(3).random(count) + 0.3)


def line_of(text: str) -> int:
    with open(__file__, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, start=1) if text in line)


@pytest.mark.parametrize("size", [16, N, 10_000])
@pytest.mark.parametrize("error", [0.1, 1e-2, 3e-3, 1e-3, 1e-4, 1e-5])
def test_one_wrong_entry_of_many_is_named(error: float, size: int) -> None:
    x = some(max(size, 201))
    tape, loss = recorded(one_wrong, x, 1.0 - error)
    result = end_to_end(tape, loss)
    (check,) = result.inputs
    assert result.verdict == "WRONG", str(result)
    assert check.departure is not None
    assert check.departure.entries.tolist() == [200]
    assert check.rel_error == pytest.approx(error, rel=0.02)
    assert f"1 of {x.size} entries is off, most x[200]: AD " in check.message
    assert re.search(
        rf"adj_wave \(\S*test_reference.py:{line_of('def adj_wave')}\) is not the derivative of wave",
        check.reason,
    )


@pytest.mark.parametrize("slope", [1.0009, 1.00003, 0.7, -1.0])
@pytest.mark.parametrize("size", [7, N])
def test_an_error_in_all_entries_is_wrong_however_small(size: int, slope: float) -> None:
    """The dot-product test and the printed agreement once contradicted each other in two lines."""
    tape, loss = recorded(all_wrong, some(size), slope)
    result = end_to_end(tape, loss)
    assert result.verdict == "WRONG"
    assert result.rel_error == pytest.approx(abs(slope - 1.0), rel=0.02)
    assert "agrees to" not in str(result)
    assert f"{size} of {size} entries are off" in result.inputs[0].reason


def test_no_result_that_is_wrong_prints_an_agreement() -> None:
    tape, loss = recorded(all_wrong, some(), 1.0009)
    for result in (
        gradcheck_tape(tape, end_to_end=True, loss=loss, raise_exception=False, show_summary=False),
        wp.diagnose(tape, progress=False),
    ):
        assert result.verdict == "WRONG"
        assert "agrees to" not in str(result)


def test_a_right_gradient_of_the_users_own_agrees_to_what_was_measured() -> None:
    tape, loss = recorded(all_wrong, some(), 1.0)
    result = end_to_end(tape, loss)
    assert result.verdict == "AGREE"
    (check,) = result.inputs
    assert check.departure is None
    true = np.cos(x := check.array.numpy().astype(np.float64)) + 2.0 * x
    off = np.linalg.norm(check.consumed - true) / np.linalg.norm(true)
    claimed = CLAIM.search(result.coverage.summary)
    assert claimed is not None
    assert off <= float(claimed[1]) < 1e-6


# ---------------------------------------------------------------- small gradients beside a large loss


@wp.kernel
def large_beside_small(x: wp.array(dtype=float), slope: float, loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, 1.0e3 / float(x.shape[0]) + 1.0e-12 * wave(x[i], slope))


def test_a_wrong_sign_of_a_small_gradient_is_not_right_to_the_last_digit() -> None:
    """No difference of the loss can see it: differences of the function alone decide."""
    tape, loss = recorded(large_beside_small, some(9), -1.0)
    result = end_to_end(tape, loss)
    assert result.verdict == "WRONG", str(result)
    assert result.rel_error == pytest.approx(2.0)


def test_a_small_gradient_that_is_right_is_below_the_resolution_of_the_check() -> None:
    tape, loss = recorded(large_beside_small, some(9), 1.0)
    result = end_to_end(tape, loss)
    assert result.verdict == "AGREE", str(result)
    assert result.coverage.summary.endswith(
        "nothing contradicts it, but the gradient with respect to x is below the resolution of the check"
    )


# ------------------------------------------------------- right programs that look like these


@wp.func
def root_of(a: float):
    """√a by Newton's method."""
    y = float(1.0)
    for _i in range(40):
        y = 0.5 * (y + a / y)
    return y


@wp.func_grad(root_of)
def adj_root_of(a: float, adj_ret: float):
    wp.adjoint[a] += 0.5 / root_of(a) * adj_ret


@wp.kernel
def implicit(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, root_of(x[i]) * x[i])


@wp.func
def bell(x: float):
    return wp.exp(-0.5 * x * x) / wp.sqrt(2.0 * 3.14159265358979)


@wp.func_grad(bell)
def adj_bell(x: float, adj_ret: float):
    wp.adjoint[x] -= 0.39894228 * x * wp.exp(-0.5 * x * x) * adj_ret


@wp.kernel
def rounded_constant(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, bell(x[i]))


@wp.func
def ramp(x: float):
    return wp.max(x, 0.0)


@wp.func_grad(ramp)
def adj_ramp(x: float, adj_ret: float):
    if x >= 0.0:
        wp.adjoint[x] += adj_ret


@wp.kernel
def subgradient(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, ramp(x[i] - x[0]) + x[i] * x[i])


@wp.func
def length_of(x: float):
    return wp.sqrt(x * x)


@wp.func_grad(length_of)
def adj_length_of(x: float, adj_ret: float):
    if x != 0.0:
        wp.adjoint[x] += wp.sign(x) * adj_ret


@wp.kernel
def guarded(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    r = length_of(x[i] - x[0])
    wp.atomic_add(loss, 0, r * r)


@wp.func
def step(x: float):
    return wp.floor(4.0 * x)


@wp.func_grad(step, differs=True)
def adj_step(x: float, adj_ret: float):
    wp.adjoint[x] += 4.0 * adj_ret


@wp.kernel
def straight_through(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, step(x[i]) * x[i])


@pytest.mark.parametrize(
    ("kernel", "verdict"),
    [
        (implicit, "AGREE"), (rounded_constant, "AGREE"), (subgradient, "AGREE"), (guarded, "AGREE"),
        (straight_through, "UNDECIDABLE"),
    ],
    ids=["implicit", "constant", "subgradient", "guarded", "straight through"],
)  # fmt: skip
def test_gradients_written_for_a_reason_are_not_wrong(kernel: Any, verdict: str) -> None:
    tape, loss = recorded(kernel, some(40))
    assert len(custom_functions(tape)) == (
        verdict == "AGREE"
    )  # what is meant to differ has no other reference
    result = end_to_end(tape, loss)
    assert result.verdict == verdict, str(result)


# ------------------------------------------------------------------------------- several functions


@wp.func
def cube(x: float):
    return x * x * x


@wp.func_grad(cube)
def adj_cube(x: float, adj_ret: float):
    wp.adjoint[x] += 3.0 * x * x * adj_ret


@wp.kernel
def two_of_them(x: wp.array(dtype=float), slope: float, loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wave(x[i], slope) + cube(x[i]))


def test_the_function_to_blame_is_named_alone() -> None:
    tape, loss = recorded(two_of_them, some(30), 1.01)
    (check,) = end_to_end(tape, loss).inputs
    assert check.departure is not None
    assert [function.name for function in check.departure.functions] == ["wave"]


@wp.kernel
def halved(x: wp.array(dtype=float), slope: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 0.5 * wave(x[i], slope)


@wp.kernel
def summed(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, y[wp.tid()])


def test_values_that_only_the_derivative_needs_are_kept_for_the_reference() -> None:
    """The gradient reads x after a launch overwrote it: the reference must see what the launch saw."""
    x, y, loss = some(20), wp.zeros(20, dtype=float, requires_grad=True), floats([0.0])
    with wp.Tape() as tape:
        wp.launch(halved, 20, inputs=[x, 1.01, y])
        wp.launch(halved, 20, inputs=[y, 1.0, x])  # x is overwritten
        wp.launch(summed, 20, inputs=[x, loss])
    tape.backward(loss)
    (check,) = end_to_end(tape, loss, [x]).inputs
    assert check.verdict == "WRONG"
    assert check.rel_error == pytest.approx(0.01, rel=0.02)


# ------------------------------------------------------------------------------------------ what is printed


@wp.kernel
def of_no_account(x: wp.array(dtype=float), slope: float, loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * x[i] + 0.0 * wave(x[i], slope))


def test_a_part_that_is_wrong_prints_no_agreement_of_the_whole() -> None:
    """The gradient of the function does not count here, and is wrong by itself."""
    tape, loss = recorded(of_no_account, some(20), 0.7)
    assert end_to_end(tape, loss).verdict == "AGREE"
    result = gradcheck_tape(tape, end_to_end=True, loss=loss, raise_exception=False, show_summary=False)
    assert result.verdict == "WRONG"
    assert "agrees to" not in f"{result} {result.coverage} {result.summary()}"
    assert "1 of 1 launches checked end to end; nothing contradicts the whole" in str(result.coverage)


def test_the_probe_that_is_quoted_is_the_one_that_decided() -> None:
    """A direction that decides nothing may be off by more, and is not what the verdict rests on."""
    wrong = Probe((3,), 1.01, 1.01, 1.0, 1e-9, 1.0, 1e-3, verdict="WRONG")
    vague = Probe(None, 5.0, 1.0, 1.0, 9.0, 1.0, 1e-3, verdict="UNDECIDABLE")
    fine = replace(wrong, ad=1.0, exact=1.0, verdict="AGREE")
    assert _deciding([vague, wrong, fine]) == [wrong]
    assert _deciding([vague, fine]) == [fine]
    assert _deciding([vague]) == [vague]


def test_overwritten_values_are_no_function() -> None:
    """No sentence names a custom gradient if none is to blame."""
    port: Any = SimpleNamespace(size=2, name="x", shape=(2,), value_type=float)
    probe: Any = SimpleNamespace(bar=float("nan"))
    off = Departure(port, np.array([0]), np.array([1.0, 2.0]), np.array([3.0, 2.0]), "unknown", (), probe)
    assert off.reason == (
        "the adjoint, which reads values after they were overwritten, differs from the derivative: 1 of 2 "
        "entries is off, most x[0]: AD 1, the derivative of the forward pass 3; no difference of the loss is "
        "known that could tell which is right"
    )
