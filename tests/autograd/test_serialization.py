"""Results of checks as data: JSON and back, and choosing among pairs."""

import json
import math
from typing import Any

import pytest

import tapedebug as wp
from tapedebug.autograd import GradcheckResult, gradcheck, gradcheck_tape
from tapedebug.autograd.results.gradcheck_result import PairResults
from tests.autograd import kernels as k

QUIET: dict[str, Any] = {"raise_exception": False, "show_summary": False}


def several() -> GradcheckResult:
    x, y, z = k.vector([0.5, 1.0]), k.vector([0.0, 0.0]), k.vector([0.0, 0.0])
    with wp.Tape() as tape:
        wp.launch(k.with_adjoint_of(k.square, k.doubled), dim=2, inputs=[x], outputs=[y])
        wp.launch(k.times, dim=2, inputs=[y], outputs=[z])
        wp.launch(k.root, dim=2, inputs=[z], outputs=[y])
    return gradcheck_tape(tape, rtol=1e-3, **QUIET)


def test_json_and_back() -> None:
    result = several()
    text = result.to_json(compared=True)
    assert "NaN" not in text and "Infinity" not in text
    other = GradcheckResult.from_dict(json.loads(text))
    assert other.to_json(compared=True) == text
    assert (other.verdict, bool(other), other.subject) == ("WRONG", False, "tape of 3 launches")
    assert str(other) == str(result)
    assert other.pairs[0] == result.pairs[0]
    assert other.coverage == result.coverage
    first, again = result.pairs[0].compared, other.pairs[0].compared
    assert first is not None and again is not None
    assert again.dense(again.ad).tolist() == first.dense(first.ad).tolist()
    with pytest.raises(ValueError, match="as long as the result has not been read from data"):
        other.reproduce()


def test_what_is_in_it() -> None:
    result = several()
    data = result.to_dict()
    assert (data["schema"], data["kind"], data["passed"]) == (1, "gradcheck", False)
    assert (data["settings"]["rtol"], data["settings"]["atol"], data["settings"]["eps"]) == (1e-3, 1e-3, 1e-4)
    assert set(data["environment"]) == {"tapedebug", "python", "numpy", "platform"}
    assert "compared" not in data["pairs"][0]
    wrong = data["pairs"][0]
    assert wrong["signature"] == {"name": "doubled", "text": wrong["signature"]["text"], "ratio": 2.0}
    assert wrong["worst"]["output"] == "y[1]"
    assert wrong["written"]["line"]["text"] == "    y[i] = x[i] * x[i]"
    root = result.pairs.where(launch=2)[0]
    assert not math.isfinite(root.worst.ad)  # sqrt at 0
    assert data["pairs"][-1]["worst"]["ad"] in ("inf", "nan")
    json.dumps(data, allow_nan=False)


@pytest.mark.parametrize(
    "data, message",
    [
        (3, "this is not gradcheck data"),
        ({"kind": "trace"}, "this is not gradcheck data"),
        (
            {"kind": "gradcheck", "schema": 9},
            "this data has version 9 of its schema; this tapedebug reads 1",
        ),
        (
            {"kind": "gradcheck", "schema": 1},
            "this is not gradcheck data, or it is damaged (KeyError: 'subject')",
        ),
    ],
)
def test_other_data_is_refused(data: Any, message: str) -> None:
    with pytest.raises(wp.GradcheckError) as caught:
        GradcheckResult.from_dict(data)
    assert caught.value.message == message


def test_pairs_can_be_chosen() -> None:
    pairs = several().pairs
    assert isinstance(pairs, PairResults) and isinstance(pairs, tuple)
    assert [p.launch for p in pairs.where(verdict="WRONG")] == [0, 2]
    assert [p.launch for p in pairs.where(verdict=["WRONG", "AGREE"], launch=[0, 1], output="y")] == [0, 1, 1]
    assert pairs.where(input="x", launch=1).where(output="y") == (pairs[1],)
    assert pairs.where(input="nobody") == ()
    assert pairs.where(launch=None) == ()
    assert pairs[:1].where(launch=0) == pairs[:1]
    with pytest.raises(ValueError, match="'GOOD' is no verdict; they are AGREE, KINK, UNDECIDABLE"):
        pairs.where(verdict="GOOD")  # type: ignore[arg-type]


def test_pairs_of_a_kernel_have_no_launch() -> None:
    x = k.vector([0.5])
    result = gradcheck(k.square, 1, [x], [wp.zeros_like(x)], **QUIET)
    assert result.pairs.where(launch=None, check="adjoint") == result.pairs
