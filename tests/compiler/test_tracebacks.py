"""An error in a kernel shows the user's frames and one of ours, not the compiler's."""

from __future__ import annotations

import traceback

import pytest

import tapedebug as wp


@wp.kernel
def wrong(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = missing[i]  # noqa: F821


def frames_of(call, error=wp.KernelNameError) -> list[str]:
    with pytest.raises(error) as caught:
        call()
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    return [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]


def test_a_launch_shows_no_frame_of_the_compiler():
    def user():
        wp.launch(wrong, 1, inputs=[wp.zeros(1, dtype=float)])

    assert frames_of(user) == ["frames_of", "user", "launch"]


def test_a_launch_that_has_run_before_shows_no_frame_of_what_packs_its_arguments():
    @wp.kernel
    def scaled(x: wp.array(dtype=float), k: int):
        i = wp.tid()
        x[i] = x[i] * float(k)

    x = wp.zeros(1, dtype=float)
    wp.launch(scaled, 1, inputs=[x, 2])

    def number():
        wp.launch(scaled, 1, inputs=[x, 2**40])

    def size():
        wp.launch(scaled, -1, inputs=[x, 2])

    def kind():
        wp.launch(scaled, 1, inputs=[x, "2"])

    def too_few():
        wp.launch(scaled, 1, inputs=[x])

    def adjoint():
        wp.launch(scaled, 1, inputs=[x, 2], adj_inputs=[wp.zeros(3, dtype=float)], adjoint=True)

    def command():
        wp.launch(scaled, 1, inputs=[x, [2]], record_cmd=True)

    for call in (number, size, kind, too_few, adjoint, command):
        assert frames_of(call, wp.LaunchError) == ["frames_of", call.__name__, "launch"]


def test_a_copy_shows_no_frame_of_its_checks():
    def copied():
        wp.copy(wp.zeros(3, dtype=float), wp.zeros(3, dtype=int))

    assert frames_of(copied, wp.ArrayError) == ["frames_of", "copied", "copy"]


def test_backward_shows_no_frame_of_its_checks():
    loss = wp.zeros(3, dtype=float, requires_grad=True)

    def user():
        wp.Tape().backward(loss)

    assert frames_of(user, wp.TapeError) == ["frames_of", "user", "backward"]


def test_source_shows_no_frame_of_the_lowering():
    names = frames_of(lambda: wrong.source())
    assert names[-1] == "_lower"
    assert not any(name in ("block", "lower_kernel", "lookup", "name_error") for name in names)
