"""Random tapes over few arrays: the end-to-end verdict is right on each, and is about `Tape.backward`."""

from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import end_to_end, gradcheck_tape
from tests.autograd import kernels as k
from tests.sweeps import cases


@wp.kernel
def wave(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sin(x[i]) + 0.5 * x[i]


@wp.kernel
def accumulate(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(y, i, 0.3 * x[i] * x[i])


@wp.kernel
def neighbour(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if i > 0:
        y[i] = x[i - 1] * 0.7


@wp.kernel
def damp(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = y[i] * wp.cos(x[i]) + 0.1


KERNELS = (wave, accumulate, neighbour, damp, k.identity)
SIZE = 6


def record(seed: int, mode: str) -> tuple[wp.Tape, Any, list[Any]]:
    rng = np.random.default_rng(seed)
    arrays = [k.vector(rng.normal(size=SIZE)) for _ in range(4)]
    steps = [(KERNELS[rng.integers(5)], *rng.choice(4, 2, replace=False)) for _ in range(rng.integers(2, 14))]
    loss = k.vector([0.0])
    tape = wp.Tape(on_overwrite=mode)
    with tape:
        for kernel, source, target in steps:
            wp.launch(kernel, SIZE, [arrays[source], arrays[target]])
        wp.launch(k.total, SIZE, [arrays[steps[-1][2]], loss])
    return tape, loss, arrays


@pytest.mark.parametrize("seed", range(cases(full=24, sample=14)))
def test_verdicts_are_right(seed: int) -> None:
    tape, loss, _ = record(seed, "preserve")
    kept = end_to_end(tape, loss)
    assert kept.verdict == "AGREE", str(kept)
    assert gradcheck_tape(tape, show_summary=False)
    tape, loss, _ = record(seed, "ignore")
    lost = end_to_end(tape, loss)
    off = any(
        np.abs(c.consumed - c.reference).max() > 1e-3 * np.abs(c.reference).max() + 1e-9 for c in lost.inputs
    )
    assert lost.verdict == ("WRONG" if off else "AGREE"), str(lost)


def test_some_of_them_are_wrong_and_some_are_not() -> None:
    verdicts = {end_to_end(*record(seed, "ignore")[:2]).verdict for seed in range(12)}
    assert verdicts == {"WRONG", "AGREE"}


@pytest.mark.parametrize("mode", ["preserve", "ignore"])
@pytest.mark.parametrize("seed", range(12))
def test_what_is_checked_is_what_backward_gives(seed: int, mode: str) -> None:
    tape, loss, _ = record(seed, mode)
    checks = end_to_end(tape, loss).inputs
    tape.backward(loss)
    for check in checks:
        np.testing.assert_array_equal(check.consumed, check.array.grad.numpy())


@pytest.mark.parametrize("seed", range(cases(full=24, sample=14)))
def test_in_lockstep_no_launch_is_blamed_that_is_right(seed: int) -> None:
    quiet: dict[str, Any] = {"end_to_end": True, "show_summary": False, "raise_exception": False}
    tape, loss, _ = record(seed, "preserve")
    kept = gradcheck_tape(tape, loss=loss, **quiet)
    assert kept.verdict == "AGREE", str(kept)
    tape, loss, _ = record(seed, "ignore")
    lost = gradcheck_tape(tape, loss=loss, rtol=1e-3, **quiet)
    assert lost.verdict == end_to_end(tape, loss).verdict
    off = [pair for pair in lost.pairs if pair.verdict == "WRONG"]
    assert bool(off) == any(pair.launch is not None for pair in off), "where it is wrong a launch is named"
    assert all("overwrote values" in pair.message for pair in off if pair.launch is not None)
