"""Findings about launches whose work is done in C."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import tapedebug as wp

pytestmark = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("cc", "gcc", "clang")), reason="there is no C compiler"
)


@wp.func_native("return sqrtf(x);", "adj_x += adj_ret * 0.5f / sqrtf(x);")
def root(x: float) -> float: ...


@wp.func_native("out[i] = x[i] * x[i];", "adj_x[i] += 2.0f * x[i] * adj_out[i];")
def square(x: wp.array(dtype=float), out: wp.array(dtype=float), i: int): ...


@wp.func_native("out[i] = x[i] * x[i];", "adj_x[i] += 3.0f * x[i] * adj_out[i];")
def wrong_square(x: wp.array(dtype=float), out: wp.array(dtype=float), i: int): ...


@wp.kernel
def roots(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, root(x[wp.tid()]))


@wp.kernel
def squares(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    square(x, y, wp.tid())


@wp.kernel
def wrong_squares(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    wrong_square(x, y, wp.tid())


def arrays(count: int, start: tuple[float, ...]) -> list[wp.array]:
    """An input, arrays for what is computed of it, and last the loss."""
    x = wp.array(np.array(start, np.float32), requires_grad=True)
    between = (wp.zeros(len(start), requires_grad=True) for _ in range(count - 1))
    return [x, *between, wp.zeros(1, requires_grad=True)]


def test_what_is_not_finite_is_laid_at_the_native_function() -> None:
    x, loss = arrays(1, (1.0, 0.0, 4.0))
    with wp.Tape() as tape:
        wp.launch(roots, 3, [x, loss])
    (finding,) = [f for f in wp.diagnose(tape, loss=loss).findings if f.rule == "nonfinite"]
    assert "The kernel calls the native function root, whose C is not followed." in finding.message
    assert finding.fix == (
        "look at what the adjoint snippet of root computes of the values that this launch reads"
    )
    assert finding.evidence["cause"] == "native"


def test_overwrites_by_c_are_seen_and_values_kept() -> None:
    x, y, z, loss = arrays(3, (1.0, 0.5, 2.0))
    with wp.Tape() as tape:
        wp.launch(squares, 3, [x, y])
        wp.launch(squares, 3, [y, z])
        wp.launch(squares, 3, [z, y])
        wp.launch(roots, 3, [y, loss])
    tape.backward(loss)
    np.testing.assert_allclose(x.grad.numpy(), 4 * x.numpy() ** 3, rtol=1e-5)  # the loss is the sum of x⁴
    found = wp.diagnose(tape, loss=loss)
    assert found.verdict == "AGREE"
    (finding,) = [f for f in found.findings if f.rule == "overwrite"]
    assert (finding.launches, finding.arrays, finding.severity) == ([1, 2], ["y"], "info")


def test_a_wrong_adjoint_snippet_is_found() -> None:
    x, y, loss = arrays(2, (1.0, 0.5, 2.0))
    with wp.Tape() as tape:
        wp.launch(wrong_squares, 3, [x, y])
        wp.launch(roots, 3, [y, loss])
    assert wp.diagnose(tape, loss=loss).verdict == "WRONG"
    result = wp.autograd.gradcheck(wrong_squares, 3, [x], [y], raise_exception=False)
    assert result.verdict == "WRONG"
    assert wp.autograd.gradcheck(squares, 3, [x], [y], raise_exception=False).verdict == "AGREE"


HAND_OUT = "int next = atomicAdd(counter, 1); tickets[i] = next;"


@wp.func_native(HAND_OUT, replay_snippet="")
def hand_out(counter: wp.array(dtype=int), tickets: wp.array(dtype=int), i: int): ...


@wp.func_native(HAND_OUT)
def hand_out_again(counter: wp.array(dtype=int), tickets: wp.array(dtype=int), i: int): ...


@wp.kernel
def in_order(
    x: wp.array(dtype=float),
    counter: wp.array(dtype=int),
    tickets: wp.array(dtype=int),
    y: wp.array(dtype=float),
):
    i = wp.tid()
    hand_out(counter, tickets, i)
    k = tickets[i]
    y[k] = x[k] * x[k]


@wp.kernel
def in_any_order(
    x: wp.array(dtype=float),
    counter: wp.array(dtype=int),
    tickets: wp.array(dtype=int),
    y: wp.array(dtype=float),
):
    i = wp.tid()
    hand_out_again(counter, tickets, i)
    k = tickets[i]
    y[k] = x[k] * x[k]


def alarms(kernel: wp.Kernel, mode: str, *, as_warp: bool) -> list[tuple[str, str, list[str]]]:
    """Return the findings of a launch of a kernel that hands out places."""
    x, y, loss = arrays(2, (1.0, 0.5, 2.0))
    counter, tickets = wp.zeros(1, dtype=int), wp.zeros(3, dtype=int)
    with wp.Tape(on_overwrite=mode) as tape:
        wp.launch(kernel, 3, [x, counter, tickets, y])
        wp.launch(roots, 3, [y, loss])
    tape.backward(loss)
    found = wp.diagnose(tape, loss=loss, as_warp=as_warp)
    assert found.verdict == "AGREE"
    return [(f.rule, f.severity, f.arrays) for f in found.findings if f.severity != "info"]


@pytest.mark.filterwarnings("ignore::tapedebug.OverwriteWarning")
@pytest.mark.parametrize("mode", ["preserve", "warn", "ignore"])
def test_places_that_a_replay_snippet_leaves_alone_are_right_everywhere(mode: str) -> None:
    assert alarms(in_order, mode, as_warp=False) == []
    assert alarms(in_order, mode, as_warp=True) == []


def test_places_that_are_handed_out_again_are_wrong_in_warp_only() -> None:
    assert alarms(in_any_order, "ignore", as_warp=False) == []
    assert alarms(in_any_order, "preserve", as_warp=False) == []
    assert alarms(in_any_order, "preserve", as_warp=True) == [("overwrite", "error", ["counter"])]


@pytest.mark.parametrize("kernel", [in_order, in_any_order], ids=["replay", "again"])
def test_no_sentence_about_overwrites_of_c_ends_in_nothing(kernel: wp.Kernel) -> None:
    x, y, loss = arrays(2, (1.0, 0.5, 2.0))
    counter, tickets = wp.zeros(1, dtype=int), wp.zeros(3, dtype=int)
    with wp.Tape() as tape:
        wp.launch(kernel, 3, [x, counter, tickets, y])
        wp.launch(roots, 3, [y, loss])
    for as_warp in (False, True):
        for finding in wp.diagnose(tape, loss=loss, as_warp=as_warp).findings:
            assert " ." not in finding.message
            assert "together" not in finding.message
            assert "( without" not in finding.message
