"""The table of Warp's adjoints beside warp-lang: measured again, argument by argument."""

from __future__ import annotations

from pathlib import Path

import pytest

from tapedebug.lang._measured_in_warp import ADJOINTS, VERSION
from tests.lang.warp_adjoints import LETTERS, SCALARS, Probe, loaded, measured, probes, row_of

pytestmark = pytest.mark.peer
EVERY = {"float32": 1, "float64": 5}
"""Every so many of the rows that are right is measured again, and each of the others."""


def _chosen(scalar: str) -> list[Probe]:
    own = [probe for probe in probes() if probe.scalar == scalar and row_of(probe)[1] in _rows(probe)]
    return [p for k, p in enumerate(own) if k % EVERY[scalar] == 0 or set(_letters(p)) != {"r"}]


def _rows(probe: Probe) -> dict[str, str]:
    return ADJOINTS.get(probe.case.name, {})


def _letters(probe: Probe) -> str:
    kinds = row_of(probe)[1]
    return _rows(probe).get(f"{kinds} {probe.scalar}", _rows(probe)[kinds])


@pytest.mark.parametrize("scalar", list(SCALARS))
def test_the_table_is_what_warp_does(scalar: str, tmp_path: Path) -> None:
    wp = pytest.importorskip("warp")
    if wp.__version__ != VERSION:
        pytest.skip(f"the table was measured with warp-lang {VERSION}; this is {wp.__version__}")
    wp.config.quiet = True
    mode, wp.config.mode = wp.config.mode, "debug"
    try:
        module, refused = loaded(wp, scalar, _chosen(scalar), tmp_path)
        found = {
            probe.key: measured(wp, module, probe) for probe in _chosen(scalar) if probe.key not in refused
        }
    finally:
        wp.config.mode = mode
    wrong = {
        key: (statuses, _letters(probe))
        for probe in _chosen(scalar)
        if isinstance(statuses := found.get(key := probe.key), tuple)
        and "".join(LETTERS[status] for status in statuses) != _letters(probe)
    }
    assert not wrong
    assert len(found) > 40
