"""The programs whose compilation is timed compute what they say, and the benchmark runs."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tests.benchmarks import compile_programs, mpm, relativity

DOUBLE = """import numpy as np

import tapedebug as wp


@wp.kernel
def double(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 2.0 * x[i]


KERNELS = (double,)
RESULTS = ("y",)


def arrays():
    return {name: wp.ones(5, dtype=float, requires_grad=True) for name in "xy"}


def launch(a):
    wp.launch(double, dim=5, inputs=[a["x"], a["y"]])
"""


def test_programs_are_timed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(compile_programs.PROGRAMS, "MPM", DOUBLE)
    words = ["--programs", "MPM", "--targets", "forward", "float64 adjoint", "--engines", "tapedebug"]
    compile_programs.main(words)
    head, *rows, load = capsys.readouterr().out.splitlines()
    assert head.split() == ["median", "MPM"] and load.startswith("1 rounds")
    names, times = zip(*(re.split(r"  +", row.strip()) for row in rows), strict=True)
    assert names == ("lowering", "forward", "float64 adjoint", "step, tapedebug")
    assert all(cell.endswith("s") for cell in times)


@pytest.mark.unoptimized
def test_particles_give_their_mass_and_momentum_to_the_grid_and_take_them_back() -> None:
    arrays = mpm.arrays()
    mpm.launch(arrays)
    mass, momentum = (arrays[name].numpy().astype(float) for name in ("grid_m", "grid_v"))
    velocity = arrays["v"].numpy()
    np.testing.assert_allclose(mass.sum(), mpm.MASS * len(velocity), rtol=1e-5)
    np.testing.assert_allclose(momentum.sum((0, 1, 2)), mpm.MASS * velocity.sum(0), rtol=1e-4, atol=1e-7)
    fallen = velocity.sum(0) - [0, mpm.GRAVITY * mpm.STEP * len(velocity), 0]
    np.testing.assert_allclose(arrays["new_v"].numpy().sum(0), fallen, rtol=1e-4, atol=1e-4)


def test_equations_are_written_out_by_component() -> None:
    _, second, *_ = relativity.statements("W[ij] = 2.0 * <u[ik] * v[k][j]>")
    assert second == "W01 = 2.0 * (u00 * v01 + u01 * v11 + u02 * v21)"
    assert len(list(relativity.statements("M[i][j] = a"))) == 9
    assert len(list(relativity.statements("C[k][ij] = <u[km] * L[m][ij]>"))) == 18


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    """The module with the kernel of the BSSN equations."""
    path = tmp_path / "equations.py"
    path.write_text(relativity.text(), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("equations", path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def accelerated(spacing: float, size: int) -> dict[str, np.ndarray[Any, Any]]:
    """Return the fields of flat space in curved coordinates, and the lapse of an observer who accelerates."""
    bend = 0.2
    X, Y, Z = np.meshgrid(*[spacing * np.arange(size)] * 3, indexing="ij")

    def conformal(X: Any, Y: Any, Z: Any) -> tuple[Any, Any]:
        """Return the metric of unit determinant, and the determinant, for x = X + sin(Y) / 5 and so on."""
        one, zero = np.ones_like(X), np.zeros_like(X)
        jacobian = np.array(
            [
                [one, bend * np.cos(Y), zero],
                [zero, one, bend * np.cos(Z)],
                [bend * np.cos(X), zero, one],
            ]
        )
        metric = np.einsum("ai...,aj...->...ij", jacobian, jacobian)
        det = np.linalg.det(metric)
        return metric / np.cbrt(det)[..., None, None], det

    metric, det = conformal(X, Y, Z)
    fields = {f"g{i}{j}": metric[..., i, j] for i, j in relativity.PAIRS}
    fields |= {"phi": np.log(det) / 12, "alpha": 1 + 0.3 * (X + bend * np.sin(Y))}
    step, slopes = 1e-4, []
    for axis in range(3):
        shift = step * np.eye(3)[axis]
        after, before = (
            np.linalg.inv(conformal(*(each + s * d for each, d in zip((X, Y, Z), shift, strict=True)))[0])
            for s in (1, -1)
        )
        slopes.append((after - before) / (2 * step))
    return fields | {f"G{i}": -sum(slopes[j][..., i, j] for j in range(3)) for i in range(3)}


@pytest.mark.unoptimized
def test_flat_space_stays_flat_in_curved_coordinates(module: ModuleType) -> None:
    """An accelerated observer sees no curvature grow: the Ricci tensor and that of the lapse are zero."""
    spacing = 0.15
    arrays = module.arrays()
    fields = accelerated(spacing, module.SIZE)
    for name in module.FIELDS:
        arrays[name].assign(fields.get(name, np.zeros((module.SIZE,) * 3)).astype(np.float32))
    dim = (module.SIZE - 2 * module.GHOSTS,) * 3
    kernel = module.right_hand_side
    inside = (slice(module.GHOSTS, -module.GHOSTS),) * 3

    def growth() -> float:
        wp.launch(kernel, dim=dim, inputs=[*arrays.values(), spacing, 0.0, 2.0])
        grown = [arrays[f"new_{name}"].numpy()[inside] for name in ("K", *relativity.TENSORS)]
        return float(np.abs(grown).max())

    flat = growth()
    arrays["G0"].assign(arrays["G0"].numpy() + 0.05 * np.linspace(0, 1, module.SIZE, dtype=np.float32))
    assert flat < 1e-3 < 0.01 < growth()
