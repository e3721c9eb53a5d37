"""Every operation of the rule table beside warp-lang: values, and adjoints where warp-lang's are right.

The cases are those of the rule table's checker. The table of warp-lang's adjoints says for which operands the
gradients must be equal; all of ours are compared with differences in `test_rules.py`.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tapedebug.lang._measured_in_warp import ADJOINTS, VERSION
from tapedebug.lang.rules import COMPOSITES, DRAWS, RULES
from tests.lang.cases import HEADERS, INTEGER_ONLY, TABLES, Case
from tests.lang.cases import INTERNAL as UNNAMED
from tests.lang.warp_adjoints import (
    EXTRA_HEADER,
    FLAT,
    INTERNAL,
    SCALARS,
    THREADS,
    Atomic,
    Probe,
    loaded,
    module_text,
    probes,
    row_of,
)

CLOSE = {"float32": 2e-4, "float64": 1e-9}
"""Largest difference between the engines, relative to the largest number of the operation's result."""
APPROXIMATE = {"erfinv": 1e-3, "erfcinv": 1e-3}
"""Functions for which one of the engines has a shorter series."""
OTHER_VALUES = {
    "eig3": "of a matrix that is not symmetric Warp takes other entries",
    "pnoise": "left of 0 Warp's fields do not continue; test_random_peer.py compares them right of it",
}
"""Operations whose values differ in these cases, with the reason."""
TURN = {"quat_to_euler": 2 * np.pi}
"""Operations whose values are angles, which may differ by whole turns."""
ELSEWHERE = {
    **dict.fromkeys(DRAWS, "test_random_peer.py: the streams are equal"),
    **dict.fromkeys(INTEGER_ONLY, "test_compound_peer.py: on integers"),
    **dict.fromkeys(INTERNAL | UNNAMED, "no program names it"),
}
"""Operations without a case here, and where they are compared or why they are not."""


def flat_probes(scalar: str) -> Iterator[Probe]:
    """Comparisons, conversions and the like, of which only values are compared."""
    for table, cases in TABLES.items():
        for number, case in enumerate(cases):
            if case.name in FLAT and not _is_missing(case):
                size = 3 if 3 in case.lengths else case.lengths[0]
                yield Probe(
                    f"k{1000 + number}_{case.name}_{table}_{scalar}",
                    case,
                    scalar,
                    size,
                    HEADERS.get(table, EXTRA_HEADER),
                )


def _is_missing(case: Case) -> bool:
    """True for what warp-lang lacks: `select`, `!=` of vectors, `isnan` of transforms and their like."""
    not_of_transforms = case.name in ("isnan", "isinf", "isfinite") and case.operands == "x"
    return case.name == "select" or not_of_transforms or (case.name == "ne" and case.operands[0] != "s")


def every_probe(scalar: str) -> list[Probe]:
    own = [probe for probe in probes() if probe.scalar == scalar and not isinstance(probe, Atomic)]
    return [*own, *flat_probes(scalar)]


def test_every_operation_has_a_case_or_says_where_it_is_compared() -> None:
    compared = {probe.case.name for scalar in SCALARS for probe in every_probe(scalar)}
    assert {*RULES, *COMPOSITES, *DRAWS} - compared - {*ELSEWHERE, "select"} == set()


def letters_of(probe: Probe) -> str:
    """Return a letter for each operand: `r` where the table says that warp-lang's adjoint is right."""
    rows, kinds = ADJOINTS.get(probe.case.name, {}), row_of(probe)[1]
    return rows.get(f"{kinds} {probe.scalar}", rows.get(kinds, ""))


def ran(wp: Any, module: Any, probe: Probe, dtypes: Any) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the values of a kernel and its gradients for a fixed seed."""
    kernel = getattr(module, probe.key)
    *inputs, output = dtypes(kernel)
    arrays = [
        wp.array(values, dtype=dtype, requires_grad=True)
        for values, dtype in zip(probe.operands(), inputs, strict=True)
    ]
    out = wp.zeros(THREADS, dtype=output, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=THREADS, inputs=arrays, outputs=[out])
    values = out.numpy().astype(float)
    seed = np.random.default_rng(3).uniform(0.5, 1.5, values.shape).astype(SCALARS[probe.scalar])
    tape.backward(grads={out: wp.array(seed, dtype=output)})
    return values, [a.grad.numpy().astype(float) for a in arrays]


def apart(one: np.ndarray, other: np.ndarray) -> float:
    """Return the largest difference, relative to the largest number; infinite where only one of them is."""
    finite = np.isfinite(other)
    if not np.array_equal(finite, np.isfinite(one)):
        return np.inf
    scale = max(1.0, float(np.abs(other[finite]).max(initial=0.0)))
    return float(np.abs(one[finite] - other[finite]).max(initial=0.0)) / scale


def of_this_engine(text: str, folder: Path, name: str) -> Any:
    path = folder / f"{name}.py"
    path.write_text(text.replace("import warp as wp", "import tapedebug as wp", 1), "utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.peer
@pytest.mark.parametrize("scalar", list(SCALARS))
def test_values_and_adjoints_are_those_of_warp(scalar: str, tmp_path: Path) -> None:
    import tapedebug as td

    wp = pytest.importorskip("warp")
    if wp.__version__ != VERSION:
        pytest.skip(f"the table was measured with warp-lang {VERSION}; this is {wp.__version__}")
    wp.config.quiet = True
    chosen = every_probe(scalar)
    mode, wp.config.mode = wp.config.mode, "debug"  # compiles in a tenth of the time
    try:
        module, refused = loaded(wp, scalar, chosen, tmp_path)
    finally:
        wp.config.mode = mode
    left = [probe for probe in chosen if probe.key not in refused]
    ours = of_this_engine(module_text(scalar, left), tmp_path, f"ours_{scalar}")
    wrong: dict[str, str] = {}
    counts = {"values": 0, "adjoints": 0, "limited": 0, "refused": len(refused)}
    for probe in left:
        theirs, slopes = ran(wp, module, probe, lambda k: [arg.type.dtype for arg in k.adj.args])
        found, own = ran(td, ours, probe, lambda k: [param.type.dtype for param in k.signature])
        close = max(CLOSE[scalar], APPROXIMATE.get(probe.case.name, 0.0))
        counts["values"] += 1
        if turn := TURN.get(probe.case.name):
            found -= turn * np.round((found - theirs) / turn)
        if (distance := apart(found, theirs)) > close:
            if probe.case.name not in OTHER_VALUES:
                wrong[probe.key] = f"values differ by {distance:.1e}"
            continue
        for place, (letter, one, other) in enumerate(zip(letters_of(probe), own, slopes, strict=False)):
            if letter != "r":
                counts["limited"] += 1
                continue
            counts["adjoints"] += 1
            if (distance := apart(one, other)) > 10 * close:
                wrong[f"{probe.key}, operand {place}"] = f"adjoints differ by {distance:.1e}"
    print(scalar, counts, refused)
    assert wrong == {}
    assert counts["values"] > 200
