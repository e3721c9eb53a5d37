"""`diagnose(…, as_warp=True)` of the documents' programs: errors where Warp's gradient is wrong."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pytest

import tapedebug as wp
from tests.seeds.table import EXAMPLES, Example
from tests.seeds.test_documents import ours, run

pytestmark = pytest.mark.unoptimized

ERRORS = {
    "counter": ("replayed-counter", "the documents print a gradient of [4 0 0 …]: the counter is replayed"),
    "dynamic_loop_mult": ("warp-limitation", "the documents: [32 8 2], for prod is not kept"),
    "dynamic_loop_norm": ("warp-limitation", "the documents: inf, for norm is not computed again"),
    "inter_kernel_overwrite_of_b": ("overwrite", "the documents: [-2 -4 -6], for a is written over"),
    "intra_kernel_overwrite": ("overwrite", "the documents: [2 2 2], for a is written over in place"),
    "shared_force": ("overwrite", "the documents: step 2 writes over the force of step 1"),
    "safe_sqrt": ("nonfinite", "the documents: inf at 0; the next example fixes it with a gradient by hand"),
    "visualize": ("disconnected", "the documents: c has no requires_grad, no gradient passes there"),
    "quick_usage": ("accumulated", "backward runs twice without zero(), as the documents warn"),
}
"""The rule, and why. `inter_kernel_overwrite`, the documents' own text, reads `a` after it was written over:
the gradient of `a` is then 0 with and without the overwrite. Of `detached_clone` 0 is what is wanted."""

RAN = [example for example in EXAMPLES if not example.refused]
COMPILER = any(shutil.which(name) for name in ("cc", "gcc", "clang"))


@pytest.mark.parametrize("example", RAN, ids=lambda example: example.name)
def test_errors_exactly_where_the_documents_say_so(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "func_native" in example.source and not COMPILER:
        pytest.skip("there is no C compiler")
    monkeypatch.chdir(tmp_path)
    tapes: list[wp.Tape] = []
    enter = wp.Tape.__enter__

    def entered(tape: wp.Tape) -> wp.Tape:
        if tape in wp.live_tapes():  # one of the program's own, and none that a check makes
            tapes.append(tape)
        return enter(tape)

    monkeypatch.setattr(wp.Tape, "__enter__", entered)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(ours(example), example.name, tmp_path)
    found = {
        (finding.rule, finding.severity)
        for tape in tapes
        if tape.records
        for finding in wp.diagnose(tape, as_warp=True).findings
        if finding.severity != "info"
    }
    expected = ERRORS.get(example.name)
    assert found == ({(expected[0], "error")} if expected else set()), expected


def test_each_program_that_is_wrong_is_looked_at() -> None:
    assert set(ERRORS) <= {example.name for example in RAN}
