"""Losses of one tape of Warp that are reversed one after the other: Warp leaves the seed of the first."""

from __future__ import annotations

import pytest

import tapedebug as td

pytestmark = pytest.mark.peer
wp = pytest.importorskip("warp")
programs = pytest.importorskip("tests.watch.programs")


def two_losses(between):
    """Reverse `sum(x²)` and then `sum(x)`, which is what `between` does in between; return the gradient."""
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    y, first, second = (wp.zeros(n, dtype=float, requires_grad=True) for n in (3, 1, 1))
    with wp.Tape() as tape:
        wp.launch(programs.square, dim=3, inputs=[x], outputs=[y])
        wp.launch(programs.total, dim=3, inputs=[y], outputs=[first])
        wp.launch(programs.total, dim=3, inputs=[x], outputs=[second])
    tape.backward(first)
    between(tape, first)
    tape.backward(second)
    return x.grad.numpy().tolist()


Y_LEFT = not programs.CONSUMES
"""The gradient of y stays, too, and counts as a seed of the second pass."""


@pytest.mark.parametrize(
    ("between", "gradient", "expected"),
    [
        (
            lambda tape, first: None,
            [7.0, 13.0, 19.0] if Y_LEFT else [5.0, 9.0, 13.0],
            ("WRONG", ["accumulated"]),
        ),
        (
            lambda tape, first: first.grad.zero_(),
            [5.0, 9.0, 13.0] if Y_LEFT else [3.0, 5.0, 7.0],
            ("AGREE", []),
        ),
        (lambda tape, first: tape.zero(), [1.0, 1.0, 1.0], ("AGREE", [])),
    ],
)
def test_a_seed_that_an_earlier_pass_left_counts_its_loss_twice(between, gradient, expected):
    with td.watch_warp() as session:
        assert two_losses(between) == gradient
    (tape,) = session.tapes
    found = td.diagnose(tape, progress=False)
    loud = [item.rule for item in found.findings if item.severity != "info"]
    assert (found.verdict, loud) == expected
