"""Classes that programs derive from arrays, with constructors of their own."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tests.runtime.kernels import square


class Tagged(wp.array):
    made = 0

    def __init__(self, *args: Any, tag: str, **named: Any) -> None:
        Tagged.made += 1
        self.tag = tag
        super().__init__(*args, **named)


class Child(Tagged):
    pass


class Plain(wp.array2d):
    pass


class TaggedRows(wp.indexedarray):
    def __init__(self, *args: Any, tag: str, **named: Any) -> None:
        super().__init__(*args, **named)
        self.tag = tag


@wp.kernel
def cube(x: wp.indexedarray(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i] * x[i]


def test_launches_and_tapes_take_them_as_they_are() -> None:
    x = Child([1.0, 2.0, 3.0], dtype=float, requires_grad=True, tag="input")
    y = Tagged(shape=3, dtype=float, requires_grad=True, tag="output")
    made = Tagged.made
    for _ in range(2):  # checked, then on the fast path
        with wp.Tape() as tape:
            wp.launch(square, 3, inputs=[x], outputs=[y])
        assert tape.records[0].args == (x, y)
        tape.backward(grads={y: wp.ones(3)})
        assert tape.gradients[x].numpy().tolist() == [2.0, 4.0, 6.0]
        tape.zero()
    assert y.numpy().tolist() == [1.0, 4.0, 9.0]
    assert (x.tag, y.tag, type(x)) == ("input", "output", Child)
    assert Tagged.made == made, "nothing makes another one"


def test_views_and_results_are_plain_arrays() -> None:
    x = Tagged(np.arange(6.0), dtype=float, tag="x")
    matrix = Plain([[1.0, 2.0]], dtype=float)
    for each in (x[1:], x.reshape((2, 3)), wp.clone(x), wp.zeros_like(x), x + 1.0, matrix[0]):
        assert type(each) is wp.array
    assert x[1:].buffer is x.buffer
    assert copy.deepcopy(x).numpy().tolist() == x.numpy().tolist()
    assert (type(matrix), matrix.shape) == (Plain, (1, 2))
    with pytest.raises(wp.ArrayError, match=r"^array2d: the data has 1 dimensions"):
        Plain([1.0], dtype=float)


def test_gradients_of_their_own() -> None:
    gradient = Tagged([0.0, 0.0], dtype=float, tag="gradient")
    x = Tagged([2.0, 3.0], dtype=float, grad=gradient, tag="x")
    y = wp.zeros(2, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[x], outputs=[y])
    tape.backward(grads={y: wp.ones(2)})
    assert gradient.numpy().tolist() == [4.0, 6.0]
    assert x.grad is gradient


def test_indexed_arrays() -> None:
    x = Tagged([1.0, 2.0, 3.0], dtype=float, requires_grad=True, tag="data")
    rows = TaggedRows(x, wp.array([2, 0], dtype=int), tag="rows")
    y = wp.zeros(2, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(cube, 2, inputs=[rows], outputs=[y])
    tape.backward(grads={y: wp.ones(2)})
    assert (rows.tag, type(rows), rows.data) == ("rows", TaggedRows, x)
    assert (y.numpy().tolist(), x.grad.numpy().tolist()) == ([27.0, 1.0], [3.0, 0.0, 27.0])


def test_memory_whose_clearing_waits() -> None:
    big = Tagged(wp.zeros(1 << 20), tag="big")
    assert big.numpy().sum() == 0


def test_without_data_they_are_no_annotations() -> None:
    with pytest.raises(wp.ArrayError) as caught:
        Child(dtype=float, tag="nothing")
    assert str(caught.value) == (
        "Child: there is no data; without it, only array(…) is an annotation\n  = hint: pass data or a shape"
    )
    assert isinstance(wp.array(dtype=float), type(wp.array(dtype=int)))


def test_versions_of_generic_kernels_for_the_types_of_arrays() -> None:
    @wp.kernel
    def copied(x: wp.array(dtype=Any), y: wp.array(dtype=Any)):
        i = wp.tid()
        y[i] = x[i]

    x = Tagged([1.5], dtype=wp.float64, tag="x")
    version = wp.overload(copied, [x, wp.zeros(1, dtype=wp.float64)])
    assert [param.type.dtype for param in version.params] == [wp.float64, wp.float64]
