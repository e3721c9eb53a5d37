"""The demo problem: right by default, wrong as Warp is wrong with "ignore", and both are told apart."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tests.processes import ROOT
from tests.report.pages import Page


@pytest.fixture(scope="module")
def net() -> ModuleType:
    spec = importlib.util.spec_from_file_location("net", ROOT / "notebooks" / "net.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def gradient(net: ModuleType, buffers: str, throw: tuple[float, float, float], **options: Any) -> np.ndarray:
    hand = wp.array([throw], dtype=wp.vec3, requires_grad=True)
    tape, loss = net.record(net.make_net(), hand, buffers, **options)
    tape.backward(loss)
    return hand.grad.numpy()[0].astype(np.float64)


def reference(net: ModuleType, throw: tuple[float, float, float]) -> np.ndarray:
    """Differences of a float64 simulation in plain NumPy, which shares no line with the kernels."""
    out = np.zeros(3)
    for k in range(3):
        estimates = []
        for h in (1e-4, 5e-5):
            step = np.zeros(3)
            step[k] = h
            estimates.append(
                (numpy_loss(net, np.array(throw) + step) - numpy_loss(net, np.array(throw) - step)) / (2 * h)
            )
        out[k] = (4 * estimates[1] - estimates[0]) / 3  # Richardson
    return out


def numpy_loss(net: ModuleType, throw: np.ndarray) -> float:
    side = net.SIDE
    fabric = net.make_net()
    x = fabric.x.numpy().astype(np.float64)
    v = fabric.grip.numpy().astype(np.float64)[:, None] * throw
    index = np.arange(side * side).reshape(side, side)
    springs = [
        (index[:, :-1], index[:, 1:], net.SPACING, net.STIFFNESS),
        (index[:-1], index[1:], net.SPACING, net.STIFFNESS),
        (index[:-1, :-1], index[1:, 1:], net.SPACING * 2**0.5, net.STIFFNESS / 2),
        (index[:-1, 1:], index[1:, :-1], net.SPACING * 2**0.5, net.STIFFNESS / 2),
    ]
    gravity = np.array([0.0, -9.81, 0.0])
    for _ in range(net.STEPS):
        force = net.MASS * gravity - net.DRAG * v
        for a, b, rest, stiffness in springs:
            a, b = a.ravel(), b.ravel()
            d = x[b] - x[a]
            stretched = np.linalg.norm(d, axis=1, keepdims=True)
            pull = stiffness * (stretched - rest) * d / stretched
            np.add.at(force, a, pull)
            np.subtract.at(force, b, pull)
        v = v + net.DT / net.MASS * force
        x = x + net.DT * v
    m = side // 2
    miss = x[[index[m, m], index[m, m - 1], index[m - 1, m], index[m - 1, m - 1]]].mean(axis=0)
    miss = miss - np.array([2.5, 0.5, 0.5])
    return float(miss @ miss)


THROWS = [(3.0, 4.0, 0.0), (5.0, 6.5, 1.0)]


def off_by(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize("throw", THROWS)
def test_preserve_is_right_and_ignore_is_not(net: ModuleType, throw: tuple[float, float, float]) -> None:
    wanted = reference(net, throw)
    assert off_by(gradient(net, "pingpong", throw), wanted) < 1e-4
    assert off_by(gradient(net, "distinct", throw), wanted) < 1e-4
    assert off_by(gradient(net, "pingpong", throw, on_overwrite="ignore"), wanted) > 0.05


def test_ignore_reproduces_warps_own_wrong_number(net: ModuleType) -> None:
    # warp-lang 1.19 on this script, with `import warp as wp`
    wrong = gradient(net, "pingpong", (3.0, 4.0, 0.0), on_overwrite="ignore")
    np.testing.assert_allclose(wrong, [-1.544989, -2.45662, -0.809564], rtol=2e-3)


# ------------------------------------------------------------------ which reuse matters


def recorded(net: ModuleType, buffers: str, **options: Any) -> tuple[Any, Any]:
    hand = wp.array([net.FIRST_THROW], dtype=wp.vec3, requires_grad=True)
    tape, loss = net.record(net.make_net(), hand, buffers, **options)
    tape.backward(loss)
    return tape, wp.diagnose(tape, loss=loss)


def source(place: dict[str, Any]) -> str:
    return (ROOT / "notebooks" / "net.py").read_text(encoding="utf-8").splitlines()[place["line"] - 1].strip()


def test_only_positions_are_kept(net: ModuleType) -> None:
    """Each of 40 steps overwrites the positions of the step before the last, and nothing else is needed."""
    tape, _ = recorded(net, "pingpong")
    assert tape.preserved_bytes == (net.STEPS - 1) * net.SIDE**2 * 3 * 4


def test_distinct_buffers_are_clean(net: ModuleType) -> None:
    tape, diagnosis = recorded(net, "distinct")
    assert (tape.preserved_bytes, diagnosis.findings, diagnosis.verdict) == (0, [], "AGREE")


@pytest.mark.parametrize(
    ("mode", "severity", "verdict"), [("preserve", "info", "AGREE"), ("ignore", "error", "WRONG")]
)
def test_the_reuse_of_positions_is_found(net: ModuleType, mode: str, severity: str, verdict: str) -> None:
    _, diagnosis = recorded(net, "pingpong", on_overwrite=mode)
    assert diagnosis.verdict == verdict
    found = [f for f in diagnosis.findings if "x" in f.arrays]
    assert {(f.rule, f.severity) for f in found} == {("overwrite", severity)}
    # one for each kernel whose adjoint needs positions
    assert sorted(f.message.split(" needs")[0].split("(")[-1] for f in found) == [
        "shear_forces)",
        "spring_forces)",
    ]
    for finding in found:
        assert finding.location["function"] == finding.location.function == "integrate"
        assert source(finding.location) == "x_next[i] = x[i] + moved * dt"
        assert dict(finding.call_site)["function"] == "simulate"
        assert source(finding.call_site).startswith("wp.launch(")
        assert "256 of 256 elements changed value" in finding.message


@pytest.mark.parametrize("mode", ["preserve", "ignore"])
def test_the_reuse_of_force_is_harmless(net: ModuleType, mode: str) -> None:
    _, diagnosis = recorded(net, "pingpong", on_overwrite=mode)
    (finding,) = [f for f in diagnosis.findings if f.arrays == ["force"]]
    assert (finding.rule, finding.severity) == ("overwrite", "info")
    assert "harmless, integrate is linear in force: its adjoint does not read the values." in finding.message


def test_descent_hits_the_target(net: ModuleType) -> None:
    hand = wp.array([net.FIRST_THROW], dtype=wp.vec3, requires_grad=True)
    losses = net.descend(net.make_net(), hand, 15)
    assert losses[0] > 3
    assert losses[-1] < 1e-6, "a millimetre"


def test_descent_with_ignored_overwrites_misses(net: ModuleType) -> None:
    hand = wp.array([net.FIRST_THROW], dtype=wp.vec3, requires_grad=True)
    wp.config.on_overwrite = "ignore"
    try:
        losses = net.descend(net.make_net(), hand, 15)
    finally:
        wp.config.on_overwrite = "preserve"
    assert not losses[-1] < 0.01


def test_the_command_of_the_docstring(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    done = subprocess.run(
        [sys.executable, "-m", "tapedebug", "run", "--report", report, ROOT / "notebooks" / "net.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k != "DISPLAY"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    for part in (
        "gradient AGREE",
        "123 of 123 launches checked end to end",
        "kernel at notebooks/net.py:107, in integrate",
        "launched at notebooks/net.py:177, in simulate",
        "0 errors, 0 warnings, 4 infos",
    ):
        assert part in done.stdout, done.stdout
    assert report.stat().st_size > 100_000


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Return the output of the program that `make demo` runs, and its report."""
    report = tmp_path_factory.mktemp("demo") / "report.html"
    done = subprocess.run(
        [sys.executable, ROOT / "notebooks" / "demo.py", "--report", report],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout, report


def test_the_demo_misses_names_the_line_and_hits(demo: tuple[str, Path]) -> None:
    text, _ = demo
    before, found, after, compared = re.split(r"^\d\. ", text, flags=re.M)[1:]
    wrong, right = ([float(m) for m in re.findall(r"\d+\.\d{3}", re.findall("by \\(m\\):(.*)", part)[0])]
                    for part in (before, after))  # fmt: skip
    assert len(wrong) == len(right) == 8
    assert wrong[0] == right[0] == pytest.approx(1.781)
    assert not wrong[-1] < 10 * wrong[0], "descent along the wrong gradient goes far away"
    assert right == sorted(right, reverse=True) and right[-1] < 0.005
    assert "the last throw misses the target by " in before
    assert "The last throw hits the target: it is 3.33 mm off." in after
    for part in (
        "gradient WRONG: 123 of 123 launches checked end to end",
        "✕ overwrite · x, x_next",
        "kernel at notebooks/net.py:107, in integrate",
        "launched at notebooks/net.py:177, in simulate",
        "fix: give integrate an array of its own for x_next in each round",
        "and 1 more on the same line",
    ):
        assert part in found, found
    for part in ("verdict    WRONG → AGREE", "findings   4 gone, 0 new, 0 still there"):
        assert part in compared, compared


def test_the_demo_fits_on_one_page(demo: tuple[str, Path]) -> None:
    lines = demo[0].splitlines()
    assert len(lines) <= 50 and max(map(len, lines[:-1])) <= 110


def test_the_report_of_the_demo_has_both_tapes(demo: tuple[str, Path]) -> None:
    data = Page(demo[1].read_text("utf-8")).payload()
    assert [trace["verdict"] for trace in data["traces"]] == ["WRONG", "AGREE"]
    assert data["diff"]["names"] == ["before", "after"]


def test_make_demo_says_nothing_of_npm() -> None:
    """npm prints how many packages it added, and that there is a newer npm, unless it is told not to."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (line,) = [line for line in makefile.splitlines() if "npm ci" in line]
    for part in ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error", ">/dev/null"):
        assert part in line
