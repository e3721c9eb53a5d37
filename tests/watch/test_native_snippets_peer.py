"""Verdicts on launches of Warp that call native snippets."""

from __future__ import annotations

import pytest

import tapedebug as td
from tapedebug.contract import Repeatability

pytestmark = pytest.mark.peer
wp = pytest.importorskip("warp")
programs = pytest.importorskip("tests.watch.programs")


@pytest.mark.parametrize(("factor", "expected"), [(2, ("AGREE", [])), (3, ("WRONG", [["x", "y"], ["x"]]))])
def test_a_snippet_whose_adjoint_leaves_the_gradient_of_its_result(factor, expected):
    @wp.func_native("y[i] = x[i] * x[i];", adj_snippet=f"adj_x[i] += {factor}.0f * x[i] * adj_y[i];")
    def snippet(x: wp.array(dtype=float), y: wp.array(dtype=float), i: int): ...

    @wp.kernel(module="unique")
    def native(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        snippet(x, y, wp.tid())

    with td.watch_warp() as session:
        x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
        y, loss = wp.zeros(3, dtype=float, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(native, dim=3, inputs=[x], outputs=[y])
            wp.launch(programs.total, dim=3, inputs=[y], outputs=[loss])
        tape.backward(loss)
    assert x.grad.numpy().tolist() == [factor * 1.0, factor * 2.0, factor * 3.0]
    (tape,) = session.tapes
    found = td.diagnose(tape, progress=False)
    loud = [item for item in found.findings if item.severity != "info"]
    assert found.verdict == expected[0]
    assert [item.rule for item in loud] == ["wrong-adjoint"] * (factor != 2)
    assert all(item.arrays in expected[1] for item in loud)


def test_a_snippet_that_counts_its_calls_gives_two_losses():
    """Launches of Warp on the host run once, unless they call C++ of the user: that may do anything."""

    adjoint = "adj_x[i] += adj_y[i];"

    @wp.func_native("static float calls = 0.0f; calls += 1.0f; y[i] = x[i] + calls;", adj_snippet=adjoint)
    def counting(x: wp.array(dtype=float), y: wp.array(dtype=float), i: int): ...

    @wp.func
    def around(x: wp.array(dtype=float), y: wp.array(dtype=float), i: int):
        counting(x, y, i)

    @wp.kernel(module="unique")
    def count(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        around(x, y, wp.tid())

    with td.watch_warp() as session:
        programs.one(programs.square)
        with wp.Tape():
            wp.launch_tiled(programs.tile_square, dim=2, inputs=[wp.ones(8), wp.zeros(8)], block_dim=32)
        programs.one(count)
    repeats = [tape.capability(Repeatability).is_repeatable() for tape in session.tapes]
    assert repeats == [True, True, False]
    assert session.tapes[1].operations[0].mirrored is None
    assert td.diagnose(session.tapes[2], progress=False).verdict == "NONDETERMINISTIC"
