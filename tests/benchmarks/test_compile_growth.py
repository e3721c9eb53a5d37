"""The benchmark of compile times against the length of a kernel runs."""

from __future__ import annotations

import math
import re

import pytest

from tests.benchmarks import compile_growth


def test_short_kernels_are_timed(capsys: pytest.CaptureFixture[str]) -> None:
    compile_growth.main(["--lines", "1", "5", "--targets", "forward", "float64 adjoint", "--warp"])
    head, *rows, _ = capsys.readouterr().out.splitlines()[2:]
    assert head.split() == ["lines", "1", "5", "exponent"]
    names, *times, exponents = zip(*(re.split(r"  +", row.strip()) for row in rows[:3]), strict=True)
    assert names == ("lowering", "forward", "float64 adjoint")
    assert all(cell.endswith("s") for column in times for cell in column)
    assert all(math.isfinite(float(cell)) for cell in exponents)


def test_growth_is_an_exponent() -> None:
    assert compile_growth.exponent({10: 1.0, 1000: 4.0, 2000: 16.0}) == "2.00"
    assert compile_growth.exponent({10: 1.0}) == ""
