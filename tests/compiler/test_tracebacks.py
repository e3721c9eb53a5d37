"""An error in a kernel shows the user's frames and one of ours, not the compiler's."""

from __future__ import annotations

import traceback

import pytest

import tapedebug as wp


@wp.kernel
def wrong(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = missing[i]  # noqa: F821


def frames_of(call) -> list[str]:
    with pytest.raises(wp.KernelNameError) as caught:
        call()
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    return [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]


def test_a_launch_shows_no_frame_of_the_compiler():
    def user():
        wp.launch(wrong, 1, inputs=[wp.zeros(1, dtype=float)])

    assert frames_of(user) == ["frames_of", "user", "launch"]


def test_source_shows_no_frame_of_the_lowering():
    names = frames_of(lambda: wrong.source())
    assert names[-1] == "_lowered"
    assert not any(name in ("block", "lower_kernel", "lookup", "name_error") for name in names)
