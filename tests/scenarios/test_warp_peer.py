"""The programs of Warp's limits under warp-lang itself: as wrong as we say, and right once they are fixed."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as td
from tests.scenarios import harness

pytestmark = pytest.mark.peer

PROGRAMS = [item for item in harness.programs() if item.number in {"04", "11", "14"} and item.as_warp]
WRONG = [item for item in PROGRAMS if not item.alike]
RIGHT = [item for item in PROGRAMS if item.alike]
TRAINING = {"c04_pendulum_tuned_by_descent"}
"""Each step begins where the last wrong gradient led, so only the first could be compared."""
COMPARED = [item for item in WRONG if item.name not in TRAINING]
UNSET = {"replayed-counter"}
"""Warp's wrong gradient rests on a variable that nothing set: it is wrong, but not by a certain amount."""


def _names(path: Path) -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location(f"peer_{path.parent.name}_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with contextlib.redirect_stdout(io.StringIO()):
        spec.loader.exec_module(module)
    return vars(module)


def _gradients(names: dict[str, Any]) -> dict[str, Any]:
    """The gradients that a program leaves, by variable."""
    found = {}
    for name, item in names.items():
        if getattr(item, "requires_grad", False) and getattr(item, "grad", None) is not None:
            found[name] = item.grad.numpy()
    return found


def _with_warp(path: Path) -> dict[str, Any]:
    pytest.importorskip("warp").config.quiet = True
    return _gradients(_names(path))


def _with_ours(path: Path) -> dict[str, Any]:
    with td.as_warp():
        return _gradients(_names(path))


def _at(gradient: Any, element: str) -> float:
    for part in re.findall(r"\[([\d, ]+)\]", element):
        gradient = gradient[tuple(int(index) for index in part.split(","))]
    return float(gradient)


@pytest.mark.parametrize(
    "program", [item for item in WRONG if item.name not in TRAINING], ids=lambda p: p.name
)
def test_warp_is_as_wrong_as_we_say(program: harness.Program, tmp_path: Path) -> None:
    warps = _with_warp(program.path)
    (finding,) = [item for item in harness.run(program, tmp_path).findings if item.severity == "error"]
    assert finding.evidence["gradients"]
    for label, message in finding.evidence["gradients"].items():
        gradient = warps[label]
        if finding.rule in UNSET:
            assert abs(_at(gradient, message["element"]) - message["right"]) > 1e-3 * abs(message["right"])
            continue
        assert _at(gradient, message["element"]) == pytest.approx(message["wrong"], rel=1e-4, abs=1e-6)
        assert np.linalg.norm(gradient) == pytest.approx(message["norm_wrong"], rel=1e-4)


@pytest.mark.parametrize("program", WRONG, ids=lambda p: p.name)
def test_the_fixed_program_is_right_in_warp(program: harness.Program, tmp_path: Path) -> None:
    path = tmp_path / program.path.name
    path.write_text(harness.fixed(program.path.read_text("utf-8")), "utf-8")
    _same(_with_warp(path), _with_ours(path))


@pytest.mark.parametrize("program", RIGHT, ids=lambda p: p.name)
def test_a_look_alike_is_right_in_warp(program: harness.Program) -> None:
    _same(_with_warp(program.path), _with_ours(program.path))


def _same(warps: dict[str, Any], ours: dict[str, Any]) -> None:
    assert warps.keys() == ours.keys()
    for name, gradient in ours.items():
        np.testing.assert_allclose(warps[name], gradient, rtol=2e-4, atol=1e-5, err_msg=name)
