"""The gallery: every wrong adjoint is found, every right one passes, however hard it is to check."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import tapedebug as wp
from tapedebug.autograd import GradcheckResult, gradcheck, gradcheck_tape
from tests.gallery.entry import WRONG_ROOMS, Picture, derived, pictures
from tests.sweeps import sample_of

WRONG, RIGHT = pictures()
EVERY = WRONG | RIGHT
QUIET: dict[str, Any] = {"show_summary": False, "raise_exception": False}


@functools.cache
def checked(name: str) -> GradcheckResult:
    return check(EVERY[name])


def check(picture: Picture, **options: Any) -> GradcheckResult:
    options = {**picture.tolerances, **picture.options, **QUIET, **options}
    return gradcheck(picture.kernel, **picture.arguments(wp), **options)


def test_the_gallery_is_large_enough() -> None:
    assert len(WRONG) >= 50
    assert len(RIGHT) >= 50
    assert {picture.verdict for picture in WRONG.values()} == {"WRONG"}
    assert {picture.verdict for picture in RIGHT.values()} == {
        "AGREE",
        "KINK",
        "UNDECIDABLE",
        "NONDETERMINISTIC",
    }


@pytest.mark.parametrize("name", EVERY)
def test_the_verdict_is_right(name: str) -> None:
    picture, result = EVERY[name], checked(name)
    assert (result.verdict, bool(result)) == (picture.verdict, picture.verdict == "AGREE"), result.summary()
    failing = result.failing
    assert picture.says in ("" if failing is None else failing.message)
    assert picture.note in str(result.coverage)


@pytest.mark.parametrize("name", [name for name, picture in EVERY.items() if picture.at is not None])
def test_a_failure_points_to_its_entry(name: str) -> None:
    failing = checked(name).failing
    assert failing is not None and failing.worst is not None
    found = failing.input, failing.output, failing.worst.output_index, failing.worst.input_index
    assert found == EVERY[name].at


@pytest.mark.parametrize("name", WRONG)
def test_what_wrong_entries_have_in_common_is_told(name: str) -> None:
    failing = checked(name).failing
    assert failing is not None
    assert (failing.signature and failing.signature.name) == WRONG[name].signature


KERNELS = [name for name, picture in EVERY.items() if picture.is_kernel]


@pytest.mark.parametrize("name", sample_of(KERNELS, first=0, step=2))
def test_a_launch_on_a_tape_gets_the_same_verdict(name: str) -> None:
    picture = EVERY[name]
    given = picture.arguments(wp)
    with wp.Tape() as tape:
        wp.launch(picture.kernel, **given)
    result = gradcheck_tape(tape, **picture.tolerances, **picture.options, **QUIET)
    assert result.verdict == picture.verdict, result.summary()


ENGINES_OWN = [
    (room, name)
    for room in WRONG_ROOMS
    for name, picture in derived(room).items()
    if picture.is_kernel and "native" not in name
]


@pytest.mark.parametrize(("room", "name"), ENGINES_OWN, ids=[name for _, name in ENGINES_OWN])
def test_what_is_wrong_is_the_gradient_of_its_own(room: str, name: str) -> None:
    """The same kernels with the gradients that the engine derives are right, at the same tolerances."""
    result = check(derived(room)[name])
    assert result.verdict == ("KINK" if "kink" in name else "AGREE"), result.summary()
