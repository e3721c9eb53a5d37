"""`assert_gradients`: passes in silence, and fails with the pair, the entry and a way to look at it."""

from typing import Any

import pytest

import tapedebug as wp
from tapedebug.autograd import GradcheckFailure, GradientAssertionError, assert_gradients
from tests.autograd import kernels as k
from tests.autograd.test_masks import bent_above


def vectors() -> tuple[Any, Any]:
    return k.vector([1.0, 2.0, 3.0]), k.vector([0.0, 0.0, 0.0])


def squared(x: Any) -> Any:
    y = wp.zeros_like(x)
    wp.launch(k.square, len(x), [x], [y])
    return y


@wp.kernel
def total(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    wp.atomic_add(out, 0, x[wp.tid()])


def test_right_gradients_pass_in_silence(capsys: pytest.CaptureFixture) -> None:
    x, y = vectors()
    assert assert_gradients(k.square, len(x), [x], [y]).verdict == "AGREE"
    assert assert_gradients(squared, inputs=[x]).subject == "function squared"
    with wp.Tape() as tape:
        wp.launch(k.square, len(x), [x], [y])
    assert assert_gradients(tape, max_inputs_per_var=2).coverage.checked == 1
    assert capsys.readouterr().out == ""
    assert_gradients(k.square, len(x), [x], [y], show_summary=True)
    assert capsys.readouterr().out.endswith("Gradient check for kernel square passed\n")


def test_a_wrong_gradient_is_an_assertion_error_with_the_whole_story() -> None:
    x, y = vectors()
    with pytest.raises(AssertionError) as caught:
        assert_gradients(bent_above, len(x), [x], [y])
    error = caught.value
    assert isinstance(error, GradientAssertionError | GradcheckFailure | ValueError)
    assert error.result.verdict == "WRONG"
    lines = str(error).splitlines()
    assert lines[0].startswith(
        "Gradient check for kernel bent_above failed: WRONG: kernel bent_above, y with respect to x: "
        "d y[2] / d x[2]: AD -6, FD 6 ± "
    )
    assert "result.reproduce()" in lines[-1]


def test_tolerances_and_masks_go_through() -> None:
    x, y = vectors()
    assert_gradients(bent_above, len(x), [x], [y], input_output_mask=[("x[:2]", "y")])
    assert_gradients(bent_above, len(x), [x], [y], atol=100.0)


def test_a_loss_checks_the_tape_end_to_end() -> None:
    x, y = vectors()
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(k.square, len(x), [x], [y])
        wp.launch(total, len(x), [y], [loss])
        wp.launch(k.doubled, len(x), [y], [x])  # overwrites what the adjoint of the square reads
    assert assert_gradients(tape).verdict == "AGREE", "each launch alone is right"
    with pytest.raises(GradientAssertionError, match="WRONG"):
        assert_gradients(tape, loss=loss)


def test_what_is_not_decided_fails() -> None:
    x, y = k.vector([1.0], grad=False), k.vector([0.0])
    with pytest.raises(GradientAssertionError) as caught:
        assert_gradients(k.square, 1, [x], [y])
    assert str(caught.value) == (
        "Gradient check for kernel square failed: UNDECIDABLE: nothing was checked: no pair of an input and "
        "an output with requires_grad=True\n"
        "  = note: not checked: x has requires_grad=False\n"
        "  = hint: set requires_grad=True on the arrays whose gradients are wanted, and name them"
    )


def test_arguments_that_belong_to_something_else() -> None:
    x, y = vectors()
    with wp.Tape() as tape:
        wp.launch(k.square, len(x), [x], [y])
    mistakes: list[tuple[Any, dict[str, Any], str]] = [
        (k.square, {"raise_exception": True}, "assert_gradients takes no raise_exception"),
        (tape, {"end_to_end": True}, "assert_gradients takes no end_to_end"),
        (
            k.square,
            {"loss": y},
            "assert_gradients: loss belongs to a tape; of a kernel or function all outputs are checked",
        ),
        (
            tape,
            {"dim": 3},
            "assert_gradients: dim and outputs belong to kernels, and inputs of a tape to a loss",
        ),
        (
            tape,
            {"inputs": [x]},
            "assert_gradients: dim and outputs belong to kernels, and inputs of a tape to a loss",
        ),
    ]
    for subject, options, message in mistakes:
        with pytest.raises(wp.GradcheckError) as caught:
            assert_gradients(subject, **options)
        assert caught.value.message == message
        assert not isinstance(caught.value, AssertionError)
