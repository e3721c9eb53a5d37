"""The fuzzer finds what is wrong: in values, adjoints, second derivatives; and makes it small."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tapedebug.compiler.ir import Op
from tapedebug.compiler.passes.adjoint_tangent import _AdjointTangents
from tapedebug.lang.rules import RULES
from tests.compiler import fuzz


def first_failure(seeds: range) -> tuple[int, str]:
    for seed in seeds:
        failure = fuzz.verdict(seed, fuzz.source_of(seed))
        if failure not in ("", fuzz.SKIPPED):
            return seed, failure
    raise AssertionError("nothing was found")


def test_a_wrong_derivative_is_found_made_smaller_and_kept(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(fuzz, "FOUND", tmp_path)
    monkeypatch.setattr(fuzz, "SECONDS", 15.0)
    wrong = replace(RULES["mul"], partials=(lambda x, y, r: y, lambda x, y, r: x * 2.0))
    monkeypatch.setitem(RULES, "mul", wrong)
    seed, failure = first_failure(range(1, 40, 4))
    assert failure.startswith("AssertionError: ")
    text = fuzz.keep(seed, failure)
    (kept,) = tmp_path.iterdir()
    assert (kept.name, kept.read_text(encoding="utf-8")) == (f"{seed}-crossing.txt", text)
    assert text.startswith(f"# seed {seed} crossing\n")
    source = text.partition("\n")[2]
    assert len(source.splitlines()) < len(fuzz.source_of(seed).splitlines())
    assert fuzz.verdict(seed, source).startswith("AssertionError: ")
    monkeypatch.undo()
    assert fuzz.verdict(seed, source) in ("", fuzz.SKIPPED)


def test_a_value_that_a_second_derivative_loses_is_found(monkeypatch: Any) -> None:
    whole = _AdjointTangents._keep

    def forgetful(self: Any, op: Op, args: Any, known: Any, dots: Any) -> None:
        whole(self, op, args, known, dots)
        if op.kind == "restore":
            dots.pop(op.result, None)

    monkeypatch.setattr(_AdjointTangents, "_keep", forgetful)
    _, failure = first_failure(range(64, 80))
    assert "symmetry" in failure or "differences" in failure


def test_a_run_says_what_it_tried(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(["--count", "4", "--first", "2001", "--jobs", "1"]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == "fuzz: kernels of seeds 2001 to 2004"
    assert last.startswith("fuzz: 4 kernels in ")
    assert last.endswith(" s: 0 wrong, 0 ill-conditioned")
