"""Masks fit the tape, or say why not."""

import pytest

from tapedebug import GradcheckError
from tapedebug.panel.pair_mask import check_mask
from tapedebug.panel.panel_source import default_mask
from tapedebug.trace import trace_from_json
from tests.notebook.net_trace import net_trace as recorded_net


def net_trace():
    return trace_from_json(recorded_net())


def test_tuples_become_lists_and_repetitions_go():
    mask = check_mask([(None, "throw", "loss"), [1, "x", "force"], (None, "throw", "loss")], net_trace())
    assert mask == [[None, "throw", "loss"], [1, "x", "force"]]


def test_the_default_is_the_whole_tape():
    trace = net_trace()
    mask = default_mask(trace.to_json())
    assert mask
    assert all(launch is None for launch, _, _ in mask)
    assert check_mask(mask, trace) == mask


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("x", "a mask entry is [launch, input, output], with None for the whole tape; not 'x'"),
        (["x", "y"], "a mask entry is [launch, input, output], with None for the whole tape; not ['x', 'y']"),
        (
            [99, "x", "force"],
            "mask entry [99, 'x', 'force']: there is no launch 99; this tape has 11 launches, counted from 0",
        ),
        (
            [True, "x", "force"],
            "mask entry [True, 'x', 'force']: there is no launch True; "
            "this tape has 11 launches, counted from 0",
        ),
        (
            [1, "x", "speed"],
            "mask entry [1, 'x', 'speed']: launch 1 (spring_forces) has no array 'speed'; it has x, v, force",
        ),
        (
            [1, "stiffness", "force"],
            "mask entry [1, 'stiffness', 'force']: launch 1 (spring_forces) has no array 'stiffness'; "
            "it has x, v, force",
        ),
    ],
)
def test_what_does_not_fit_is_named(entry, message):
    with pytest.raises(GradcheckError) as caught:
        check_mask([entry], net_trace())
    assert str(caught.value) == message


def test_an_unknown_array_of_the_whole_tape_lists_the_labels():
    trace = net_trace()
    labels = ", ".join(info.label for info in trace.arrays)
    with pytest.raises(GradcheckError) as caught:
        check_mask([[None, "thrwo", "loss"]], trace)
    assert str(caught.value) == (
        f"mask entry [None, 'thrwo', 'loss']: the tape has no array 'thrwo'; it has {labels}"
    )
