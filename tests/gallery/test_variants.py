"""The gallery with the further options of `gradcheck`: the verdicts stay what they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.gallery.right_programs import newton, squared
from tests.gallery.test_gallery import EVERY, check
from tests.sweeps import sample_of

OPTIONS: dict[str, dict[str, Any]] = {
    "fast_mode": {"fast_mode": True},
    "forward": {"check_forward_ad": True},
    "batched": {
        "check_forward_ad": True,
        "check_batched_grad": True,
        "check_batched_forward_grad": True,
        "check_grad_dtypes": True,
    },
}
UNKNOWN = {
    "a native function's factor",
    "a native function's = for +=",
    "a forward pass that counts its calls",
}
"""Variants without a known tangent."""


@pytest.mark.sweep
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("name", EVERY)
def test_the_verdict_is_that_without_the_option(name: str, option: str) -> None:
    result = check(EVERY[name], **OPTIONS[option])
    assert result.verdict == EVERY[name].verdict, result.summary()


TANGENTS = [name for name in EVERY if name not in UNKNOWN]


@pytest.mark.parametrize("name", sample_of(TANGENTS, first=0, step=2))
def test_tangents_are_right_also_where_an_adjoint_is_wrong(name: str) -> None:
    """A function's tangent is that of its body, whatever its gradient says."""
    picture = EVERY[name]
    result = check(picture, check_forward_ad=True, check_backward_ad=False)
    expected = "KINK" if "kink" in name else "AGREE" if picture.verdict == "WRONG" else picture.verdict
    assert result.verdict == expected, result.summary()


def test_nobody_looks_far_away_where_loops_follow_values() -> None:
    """Newton's iteration never ends for negative numbers, and a wrong gradient is seen from all sides."""
    assert (newton.follows_values, squared.follows_values) == (True, False)
    picture = EVERY["Newton's iteration until it stands"]
    wrong = check(picture, reference="float32", atol=0.0, rtol=1e-12)
    assert wrong.verdict == "WRONG"
    assert np.isfinite(wrong.pairs[0].max_abs_error)
