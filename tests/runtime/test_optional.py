"""None for an array: where the kernel asks whether it is there, or does not use it."""

from __future__ import annotations

import pytest

import tapedebug as wp


@wp.func
def weight(w: wp.array(dtype=float), i: int) -> float:
    if w:
        return w[i]
    return 1.0


@wp.kernel
def weighted(
    x: wp.array(dtype=float), w: wp.array(dtype=float), b: wp.array2d(dtype=float), y: wp.array(dtype=float)
):
    i = wp.tid()
    s = weight(w, i) * x[i]
    if b and i < b.shape[1] and b[0, i] > 0.0:
        s += b[0, i]
    y[i] = s if not w else s + 1.0


@wp.struct
class Model:
    gain: wp.array(dtype=float)
    bias: wp.array(dtype=float)


@wp.kernel
def modelled(model: Model, x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    s = x[i]
    if model.gain:
        s *= model.gain[i]
    if not model.bias:
        s -= 1.0
    y[i] = s


@wp.kernel
def plain(x: wp.array(dtype=float), unused: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[wp.tid()] = x[wp.tid()]


@pytest.mark.parametrize("interpreted", [False, True])
def test_arrays_that_may_be_none(interpreted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wp.config, "interpreted", interpreted)
    x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    w = wp.array([3.0, 4.0], dtype=float, requires_grad=True)
    b = wp.array([[10.0]], dtype=float, requires_grad=True)
    y = wp.zeros(2, dtype=float, requires_grad=True)
    for given, values, slopes in (
        ((None, None), [1.0, 2.0], [1.0, 1.0]),
        ((w, None), [4.0, 9.0], [3.0, 4.0]),
        ((None, b), [11.0, 2.0], [1.0, 1.0]),
        ((w, b), [14.0, 9.0], [3.0, 4.0]),
        ((None, None), [1.0, 2.0], [1.0, 1.0]),
    ):
        with wp.Tape() as tape:
            wp.launch(weighted, dim=2, inputs=[x, *given], outputs=[y])
        tape.backward(grads={y: wp.ones(2, dtype=float)})
        assert y.numpy().tolist() == values
        assert x.grad.numpy().tolist() == slopes
        assert given[0] is None or w.grad.numpy().tolist() == [1.0, 2.0]
        tape.zero()


def test_an_empty_array_is_not_there() -> None:
    x, y = wp.array([2.0], dtype=float), wp.zeros(1, dtype=float)
    wp.launch(
        weighted, dim=1, inputs=[x, wp.zeros(0, dtype=float), wp.zeros((0, 3), dtype=float)], outputs=[y]
    )
    assert y.numpy().tolist() == [2.0]


def test_fields_that_may_be_none() -> None:
    model = Model()
    x, y = wp.array([2.0], dtype=float), wp.zeros(1, dtype=float)
    wp.launch(modelled, dim=1, inputs=[model, x], outputs=[y])
    assert y.numpy().tolist() == [1.0]
    model.gain = wp.array([5.0], dtype=float)
    model.bias = x
    wp.launch(modelled, dim=1, inputs=[model, x], outputs=[y])
    assert y.numpy().tolist() == [10.0]


def test_arrays_that_are_not_used_may_be_none() -> None:
    x, y = wp.array([2.0], dtype=float), wp.zeros(1, dtype=float)
    wp.launch(plain, dim=1, inputs=[x, None], outputs=[y])
    assert y.numpy().tolist() == [2.0]


def test_none_is_refused_where_the_array_is_used() -> None:
    with pytest.raises(wp.LaunchError) as error:
        wp.launch(plain, dim=1, inputs=[None, None], outputs=[wp.zeros(1, dtype=float)])
    assert "argument 'x' (number 1) must be array(dtype=float32); got None (NoneType)" in str(error.value)
    assert "or ask in the kernel whether it is there: `if x:`" in str(error.value)


def test_an_array_that_is_only_printed_is_not_none():
    @wp.kernel
    def printing(x: wp.array(dtype=float)):
        print(x[0])

    with pytest.raises(
        wp.LaunchError, match=r"argument 'x' \(number 1\) must be array\(dtype=float32\); got None"
    ):
        wp.launch(printing, dim=1, inputs=[None])
