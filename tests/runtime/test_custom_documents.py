"""The examples of the document's chapter "Custom Gradient Functions", with only the import changed.

Two kernels lose the `test_` of their names, by which pytest would take them for tests.

What the document prints for them is asserted; where it prints a wrong gradient (a counter without a replay),
ours is right.
"""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp

# Example 1: Custom Grad Function ---------------------------------------------------------------------------


@wp.func
def safe_sqrt(x: float):
    return wp.sqrt(x)


@wp.kernel
def run_safe_sqrt(xs: wp.array(dtype=float), output: wp.array(dtype=float)):
    i = wp.tid()
    output[i] = safe_sqrt(xs[i])


def run_example_1():
    xs = wp.array([1.0, 2.0, 0.0], dtype=wp.float32, requires_grad=True)
    ys = wp.zeros_like(xs)
    tape = wp.Tape()
    with tape:
        wp.launch(run_safe_sqrt, dim=len(xs), inputs=[xs], outputs=[ys])
    tape.backward(grads={ys: wp.array(np.ones(len(xs)), dtype=wp.float32)})
    print("ys ", ys)
    print("xs.grad", xs.grad)


def define_the_gradient():
    @wp.func_grad(safe_sqrt)
    def adj_safe_sqrt(x: float, adj_ret: float):
        if x > 0.0:
            wp.adjoint[x] += 1.0 / (2.0 * wp.sqrt(x)) * adj_ret


def test_safe_sqrt_before_and_after_its_gradient_is_defined(capsys) -> None:
    run_example_1()
    define_the_gradient()
    run_example_1()
    printed = [" ".join(line.replace("[", "[ ").split()) for line in capsys.readouterr().out.splitlines()]
    assert printed == [
        "ys [ 1. 1.4142135 0. ]",
        "xs.grad [ 0.5 0.35355338 inf]",
        "ys [ 1. 1.4142135 0. ]",
        "xs.grad [ 0.5 0.35355338 0. ]",
    ]


# Example 2: Custom Replay Function -------------------------------------------------------------------------


@wp.kernel
def add(counter: wp.array(dtype=int), input: wp.array(dtype=float), output: wp.array(dtype=float)):
    idx = wp.atomic_add(counter, 0, 1)
    output[idx] = wp.sqrt(input[idx])


@wp.func
def reversible_increment(
    buf: wp.array(dtype=int), buf_index: int, value: int, thread_values: wp.array(dtype=int), tid: int
):
    next_index = wp.atomic_add(buf, buf_index, value)
    # store which thread ID corresponds to which index for the backward pass
    thread_values[tid] = next_index
    return next_index


@wp.func_replay(reversible_increment)
def replay_reversible_increment(
    buf: wp.array(dtype=int), buf_index: int, value: int, thread_values: wp.array(dtype=int), tid: int
):
    return thread_values[tid]


@wp.kernel
def add_diff(
    counter: wp.array(dtype=int),
    thread_ids: wp.array(dtype=int),
    input: wp.array(dtype=float),
    output: wp.array(dtype=float),
):
    tid = wp.tid()
    idx = reversible_increment(counter, 0, 1, thread_ids, tid)
    output[idx] = wp.sqrt(input[idx])


@pytest.mark.parametrize("use_reversible_increment", [False, True])
def test_reversible_increment(use_reversible_increment: bool) -> None:
    dim = 8  # the document's listing says 16; its output is that of 8
    input = wp.array(np.arange(1, dim + 1), dtype=wp.float32, requires_grad=True)
    counter = wp.zeros(1, dtype=wp.int32)
    thread_ids = wp.zeros(dim, dtype=wp.int32)
    output = wp.zeros(dim, dtype=wp.float32, requires_grad=True)

    tape = wp.Tape()
    with tape:
        if use_reversible_increment:
            wp.launch(add_diff, dim, inputs=[counter, thread_ids, input], outputs=[output])
        else:
            wp.launch(add, dim, inputs=[counter, input], outputs=[output])

    assert counter.numpy().tolist() == [dim]
    assert thread_ids.numpy().tolist() == (list(range(dim)) if use_reversible_increment else [0] * dim)
    np.testing.assert_allclose(output.numpy(), np.sqrt(np.arange(1, dim + 1)), rtol=1e-6)

    tape.backward(grads={output: wp.array(np.ones(dim), dtype=wp.float32)})
    np.testing.assert_allclose(input.grad.numpy(), 0.5 / np.sqrt(np.arange(1, dim + 1)), rtol=1e-6)
    assert counter.numpy().tolist() == [dim], "the reverse pass does not count again"
