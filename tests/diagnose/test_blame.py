"""A verdict WRONG comes with an error that names a place, a number and a fix, wherever it is shown."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._progress import OutOfTime
from tapedebug.autograd.subjects.whole_tape import WholeTape
from tapedebug.autograd.tapes import lockstep
from tapedebug.diagnose import Diagnosis, registry
from tapedebug.diagnose.rules import wrong_adjoint
from tapedebug.trace import Coverage, Finding, Trace
from tests.processes import ROOT

N = 400


@wp.func
def squared(x: float, i: int):
    return x * x


@wp.func_grad(squared)
def adj_squared(x: float, i: int, adj: float):
    sign = 1.0
    if i == 171:
        sign = -1.0
    wp.adjoint[x] += sign * 2.0 * x * adj


@wp.kernel
def one_of_many(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = squared(x[i], i)


@wp.kernel
def doubled(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 2.0 * x[i]


@wp.kernel
def total(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, y[wp.tid()])


def program() -> tuple[wp.Tape, Any]:
    x = wp.array(np.linspace(0.5, 1.5, N), dtype=float, requires_grad=True)
    y, z = wp.zeros(N, requires_grad=True), wp.zeros(N, requires_grad=True)
    loss = wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(doubled, N, [x], [y])
        wp.launch(one_of_many, N, [y], [z])
        wp.launch(total, N, [z], [loss])
    tape.backward(loss)
    return tape, loss


def only_error(diagnosis: Diagnosis) -> Finding:
    assert diagnosis.verdict == "WRONG"
    (found,) = [item for item in diagnosis.findings if item.severity == "error"]
    assert found.launches
    assert found.location is not None
    assert found.call_site is not None
    assert re.search(r"\d", found.message)
    assert found.fix
    return found


def line_of(text: str) -> int:
    lines = Path(__file__).read_text("utf-8").splitlines()
    (number,) = [n for n, line in enumerate(lines, 1) if line.strip() == text]
    return number


@pytest.fixture
def unexplained(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule that looks at gradients of the user's own does not find what is wrong."""
    monkeypatch.setattr(registry, "RULES", [rule for rule in registry.RULES if rule.code != "custom-grad"])


@pytest.mark.usefixtures("unexplained")
def test_a_gradient_of_the_users_own_that_no_rule_looked_at_is_an_error() -> None:
    tape, _ = program()
    found = only_error(wp.diagnose(tape))
    assert (found.rule, found.launches, found.evidence["by_hand"]) == ("wrong-adjoint", [1], "squared")
    assert found.location.line == line_of("y[i] = squared(x[i], i)")
    assert "squared" in found.fix


@pytest.mark.usefixtures("unexplained")
def test_where_no_rule_finds_a_launch_the_tape_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrong_adjoint, "find_first_divergence", lambda *a: None)
    tape, _ = program()
    found = only_error(wp.diagnose(tape))
    assert (found.rule, found.launches) == ("wrong-adjoint", [1])
    y = 2 * np.linspace(0.5, 1.5, N)[171]
    assert found.evidence["given"] == pytest.approx(-2 * y, rel=1e-5)
    assert found.evidence["right"] == pytest.approx(2 * y, rel=1e-5)
    assert found.location.line == line_of("y[i] = squared(x[i], i)")
    assert (
        "The gradient goes wrong in launch 1 (one_of_many): its adjoint is not the derivative."
        in found.message
    )
    assert f"gives {-2 * y:.6g} at y[171], and differences of the launch give {2 * y:.6g} ±" in found.message
    assert "in 1 of 400 entries" in found.message


@pytest.mark.usefixtures("unexplained")
def test_where_there_is_no_time_the_entry_is_told_at_its_first_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def late(*given: Any) -> None:
        raise OutOfTime("time was up after 1 s")

    monkeypatch.setattr(wrong_adjoint, "find_first_divergence", late)
    monkeypatch.setattr(lockstep, "lockstep", late)
    tape, _ = program()
    found = only_error(wp.diagnose(tape))
    assert (found.rule, found.launches, found.arrays) == ("wrong-adjoint", [0], ["x"])
    assert found.location.line == line_of("y[i] = 2.0 * x[i]")
    assert found.evidence["kind"] == "end to end"
    along = r"along a random direction it is (\S+), and differences of the loss give (\S+) ± "
    given, right = map(float, re.search(along, found.message).groups())
    assert abs(given - right) > 1e-3 * abs(right)
    assert "gradcheck_tape(tape, end_to_end=True)" in found.fix


def test_what_only_float32_gets_wrong_names_the_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    pull = WholeTape.pull

    def off(self: Any, seeds: Any, *, double: bool = False, **options: Any) -> Any:
        found = pull(self, seeds, double=double, **options)
        for values in found.values():
            values[7] *= 1.0 if double else 2.0
        return found

    x, y, loss = (
        wp.array(np.linspace(0.5, 1.5, 16), dtype=float, requires_grad=True),
        wp.zeros(16, requires_grad=True),
        wp.zeros(1, requires_grad=True),
    )
    with wp.Tape() as tape:
        wp.launch(doubled, 16, [x], [y])
        wp.launch(total, 16, [y], [loss])
    monkeypatch.setattr(WholeTape, "pull", off)
    found = only_error(wp.diagnose(tape, loss))
    assert found.launches == [0]
    assert "at x[7] it is 4, and" in found.message
    assert found.evidence["max_abs_error"] == pytest.approx(2.0)


def test_a_diagnosis_that_is_wrong_can_not_be_made_without_an_error() -> None:
    tape, _ = program()
    trace: Trace = wp.diagnose(tape).trace
    with pytest.raises(ValueError, match="a diagnosis that is WRONG has a finding"):
        Diagnosis("WRONG", Coverage(), [], trace)
    note = Finding(rule="race", severity="warning", message="")
    with pytest.raises(ValueError, match="a diagnosis that is WRONG has a finding"):
        Diagnosis("WRONG", Coverage(), [note], trace)
    assert Diagnosis("AGREE", Coverage(), [note], trace).wrong is False


LOOP = """
import numpy as np
import tapedebug as wp

@wp.kernel
def loss_of(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (x[i] - 1.0) * (x[i] - 1.0))

@wp.kernel
def step(x: wp.array(dtype=float), g: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] - 0.01 * g[i]

x = wp.array(np.linspace(0.0, 0.5, 4), dtype=float, requires_grad=True)
for _ in range(4):
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(loss_of, 4, [x], [loss])
    tape.backward(loss)
    wp.launch(step, 4, [x, x.grad])
"""


def test_every_tape_that_is_wrong_says_why_in_every_format(tmp_path: Path) -> None:
    """Gradients pile up from the second tape on: the error is shown on one of them and is about all."""
    script = tmp_path / "loop.py"
    script.write_text(LOOP, "utf-8")
    names = {kind: tmp_path / f"out.{kind}" for kind in ("json", "sarif", "junit", "report")}
    options = [item for kind, path in names.items() for item in (f"--{kind}", str(path))]
    done = subprocess.run(
        [sys.executable, "-m", "tapedebug", "run", *options, str(script)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    data = json.loads(names["json"].read_text("utf-8"))
    wrong = [number for number, tape in enumerate(data["tapes"]) if tape["verdict"] == "WRONG"]
    assert len(wrong) >= 2
    errors = {item["tape"] for item in data["findings"] if item["severity"] == "error"}
    assert set(wrong) <= errors
    assert "gradient WRONG\n  coverage" in done.stdout
    assert not re.search(r"gradient WRONG(?:(?!gradient)[\s\S])*no findings", done.stdout)
    failed = [
        case
        for case in ElementTree.parse(names["junit"]).iter("testcase")
        if case.find("failure") is not None
    ]
    assert len(failed) == len(wrong)
    assert all("accumulated" in (case.find("failure").text or "") for case in failed)
    results = json.loads(names["sarif"].read_text("utf-8"))["runs"][0]["results"]
    assert sum(item["ruleId"] == "accumulated" for item in results) >= 1
    assert "accumulated" in names["report"].read_text("utf-8")
