"""The benchmark of compile times against the length of a kernel runs."""

from __future__ import annotations

import ast
import math
import re

import pytest

from tests.benchmarks import compile_growth


@pytest.mark.parametrize("unit", ["lines", "loops"])
def test_short_kernels_are_timed(unit: str, capsys: pytest.CaptureFixture[str]) -> None:
    compile_growth.main([f"--{unit}", "1", "5", "--targets", "forward", "float64 adjoint", "--warp"])
    head, *rows, _ = capsys.readouterr().out.splitlines()[2:]
    assert head.split() == [unit, "1", "5", "exponent"]
    names, *times, exponents = zip(*(re.split(r"  +", row.strip()) for row in rows[:3]), strict=True)
    assert names == ("lowering", "forward", "float64 adjoint")
    assert all(cell.endswith("s") for column in times for cell in column)
    assert all(math.isfinite(float(cell)) for cell in exponents)


def test_kernels_have_so_many_loops() -> None:
    tree = ast.parse(f"def kernel():\n{compile_growth.loops(7)}")
    assert sum(isinstance(node, ast.For) for node in ast.walk(tree)) == 7


def test_growth_is_an_exponent() -> None:
    assert compile_growth.exponent({10: 1.0, 1000: 4.0, 2000: 16.0}) == "2.00"
    assert compile_growth.exponent({10: 1.0}) == ""
