"""Findings about watched programs that need the mirror: adjoint kernels that Warp gets wrong, by line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapedebug as td
from tapedebug.contract import Float64, RecordingGaps, WarpReverse

pytestmark = pytest.mark.peer


def recorded(kernel: Any, dim: int, args: list[Any], ones: list[Any]) -> Any:
    wp = pytest.importorskip("warp")
    with td.watch_warp() as session:
        with wp.Tape() as tape:
            wp.launch(kernel, dim, args)
        tape.backward(grads={a: wp.ones_like(a) for a in ones})
    return session.tapes[0]


def clamped_loop() -> tuple[Any, Any]:
    wp = pytest.importorskip("warp")
    wp.config.quiet = True
    from tests.watch import warp_limits

    kernel, dim, (x, c, count, out) = warp_limits.clamped_loop()
    with td.watch_warp() as session:
        with wp.Tape() as tape:
            wp.launch(kernel, dim, [x, c, count, out])
        tape.backward(out)
    return session.tapes[0], x


def test_a_wrong_adjoint_kernel_is_named_with_its_line_and_both_numbers() -> None:
    tape, x = clamped_loop()
    np.testing.assert_array_equal(x.grad.numpy(), [1, 1])  # right is 0: the result is clamped
    found = td.diagnose(tape)
    assert found.verdict == "WRONG"
    (error,) = [finding for finding in found.findings if finding.severity == "error"]
    assert error.rule == "warp-limitation"
    assert error.message == (
        "Launch 0 (shade): the loop at warp_limits.py:14 leaves s to what follows, whose reverse needs its "
        "value. Warp's reverse pass leaves loops out where it computes values once more, and finds what s "
        "held before the loop: its gradient of x is off by beyond measure (zero or not finite) (1 in place "
        "of 0 for x[0])."
    )
    assert error.fix == "move the loop into a @wp.func that returns s"
    assert error.location is not None
    assert (error.location.line, error.location.function) == (14, "shade")


def test_the_tape_can_be_replayed_in_float64() -> None:
    tape, _ = clamped_loop()
    assert tape.capability(Float64).obstacle() == ""
    assert tape.capability(RecordingGaps).notes() == []


def test_only_wrong_adjoint_kernels_are_divergences() -> None:
    pytest.importorskip("warp").config.quiet = True
    from tests.watch import programs, warp_gallery

    if not programs.CONSUMES:
        pytest.skip("this release leaves the gradients of what a store overwrites")
    for name in ("custom_gradients", "in_place_launches", "strided_views"):
        kernel, dim, args = warp_gallery.GALLERY[name]()
        tape = recorded(kernel, dim, args, args[:2])
        assert tape.capability(WarpReverse).divergences() == {}, name


def test_a_kernel_that_only_warp_can_run_is_listed_with_the_reason() -> None:
    wp = pytest.importorskip("warp")
    from tests.watch import warp_limits

    x, y = (wp.zeros(4, dtype=float, requires_grad=True) for _ in range(2))
    tape = recorded(warp_limits.doubled_by_tile, 1, [x, y], [y])
    tape.new_replay()
    (note,) = tape.capability(RecordingGaps).notes()
    assert note.startswith(
        "1 launch of doubled_by_tile can only be run by Warp, in float32: `wp.tile_load` is not in the "
        "kernel language of this engine ("
    )
    assert "doubled_by_tile" in tape.capability(Float64).obstacle()
