"""An index that was overwritten must not lead an adjoint out of its array."""

from __future__ import annotations

import numpy as np

import tapedebug as wp


@wp.kernel
def gathered(at: wp.array(dtype=int), x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[at[i]] * x[at[i]]


@wp.kernel
def stretched(at: wp.array(dtype=int)):
    i = wp.tid()
    at[i] = 1000000 * (i - 1)


@wp.kernel
def plain(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


def recorded(mode):
    at = wp.array([2, 1, 0], dtype=int)
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    y = wp.zeros(3, dtype=float, requires_grad=True)
    with wp.Tape(on_overwrite=mode) as tape:
        wp.launch(gathered, 3, inputs=[at, x], outputs=[y])
        wp.launch(stretched, 3, inputs=[at])
    return tape, x, y


def test_an_overwritten_index_stays_inside_the_array():
    tape, x, y = recorded("ignore")
    tape.backward(grads={y: np.ones(3, np.float32)})
    # -1000000 and 1000000 are no elements of x: the first stands for them.
    np.testing.assert_array_equal(x.grad.numpy(), [6.0, 0.0, 0.0])


def test_a_shadow_that_consumes_what_memory_holds_now_stays_inside_too():
    tape, x, y = recorded("preserve")
    shadow = tape.replay()
    shadow.backward({y: np.ones(3)}, consume="current")
    np.testing.assert_array_equal(shadow.gradient(x), [6.0, 0.0, 0.0])
    shadow.backward({y: np.ones(3)}, consume="versions")
    np.testing.assert_array_equal(shadow.gradient(x), [2.0, 4.0, 6.0])
    assert wp.diagnose(tape, loss={y: wp.ones(3, dtype=float)}).verdict == "AGREE"


def test_indices_of_threads_are_not_guarded():
    active = frozenset({0, 1})
    from tapedebug.compiler import pipeline

    function, _ = pipeline.adjoint(plain._lowered, active, frozenset())
    assert "inside" not in pipeline.text(function, plain.layout, guarded=True).code
    function, _ = pipeline.adjoint(gathered._lowered, frozenset({1, 2}), frozenset())
    assert "inside" in pipeline.text(function, gathered.layout, guarded=True).code
    assert "inside" not in pipeline.text(function, gathered.layout).code
