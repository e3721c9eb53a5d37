"""Calls of functions of arrays on a tape of their own, as other libraries use them."""

from __future__ import annotations

import pytest

import tapedebug as wp
from tapedebug.runtime.tape.recorded_call import ArrayFunction, RecordedCall
from tests.runtime.kernels import square


def squares(x: wp.array(dtype=float), times: int, *, into=None):
    for _ in range(times):
        y = wp.zeros(x.shape, requires_grad=True)
        wp.launch(square, x.shape, inputs=[x, y])
        x = y
    return x


def owner(function=squares):
    return ArrayFunction(function, "squares", "a.caller")


def vector(*values):
    return wp.array(values, dtype=float, requires_grad=True)


def test_the_signature_gives_names_and_types():
    assert owner().names(3, ["into"]) == ["x", "times", "into"]
    assert owner(max).names(2, []) == ["args[0]", "args[1]"]
    assert owner().dtype("x") is wp.float32
    assert owner().dtype("times") is None


def test_it_pulls_again_and_again():
    x = vector(1, 2)
    call = RecordedCall(owner(), [x, 2, None], ["into"], differentiable=True)
    assert (call.single, call.outputs[0].numpy().tolist()) == (True, [1, 16])
    for factor in (1, 3):
        call.pull([wp.full(2, float(factor))])
        assert x.grad.numpy().tolist() == [4 * factor, 32 * factor]
    call.pull([None])
    assert x.grad.numpy().tolist() == [0, 0]


def test_it_records_on_no_other_tape():
    with wp.Tape() as tape:
        call = RecordedCall(owner(), [vector(1, 2), 1], [], differentiable=True)
        call.pull([wp.ones(2)])
    assert tape.records == []


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda x: x,
            "the array that it returned was written by no launch, so that its gradient would be lost",
        ),
        (lambda x: (wp.clone(x), wp.zeros(1)), "array 1 that it returned has no requires_grad"),
        (lambda x: (), "it returned tuple"),
        (lambda x: [x, 1.0], "it returned array, float"),
    ],
)
def test_what_it_refuses(function, message):
    with pytest.raises(wp.LaunchError) as caught:
        RecordedCall(owner(function), [vector(1, 2)], [], differentiable=True)
    assert str(caught.value).startswith(f"a.caller of squares: {message}")


def test_without_a_gradient_anything_may_be_returned():
    call = RecordedCall(owner(lambda x: (x, wp.zeros(1))), [vector(1, 2)], [], differentiable=False)
    assert [a.shape for a in call.outputs] == [(2,), (1,)]
