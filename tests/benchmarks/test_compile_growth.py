"""The benchmark of compile times against the length of a kernel runs."""

from __future__ import annotations

import pytest

from tests.benchmarks import compile_growth


def test_a_short_kernel_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    compile_growth.main(["--lines", "1", "--targets", "forward", "float64 adjoint", "--warp"])
    head, *rows, _ = capsys.readouterr().out.splitlines()[1:]
    assert head.split() == ["lines", "1"]
    assert [row.rsplit("  ", 1)[0].strip() for row in rows[:3]] == ["lowering", "forward", "float64 adjoint"]
    assert all(row.endswith("s") for row in rows[:3])
