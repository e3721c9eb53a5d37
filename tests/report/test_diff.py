"""Before and after: which launches are the same, what is gone, new and still there, and where values part."""

from __future__ import annotations

import json
import random
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.report import Diff, _assets, diff
from tapedebug.report._diff import align as aligning
from tapedebug.report._diff.align import Run, align
from tapedebug.report._diff.launches import align_launches
from tapedebug.trace import Finding, Launch, Location, TapeInfo, Trace, TraceError, trace_from_json
from tests.report.pages import Page, bundle

FIXTURES = Path(__file__).parents[2] / "js" / "tests" / "fixtures"


@wp.kernel
def force(x: wp.array(dtype=float), f: wp.array(dtype=float)):
    i = wp.tid()
    f[i] = -x[i] * x[i]


@wp.kernel
def step(x: wp.array(dtype=float), f: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] + 0.1 * f[i] * x[i]


@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i])


def record(states: int, scale: float = 1.0) -> wp.Tape:
    """Four steps between `states` arrays: too few, and values are overwritten that the adjoint needs."""
    x = wp.array((scale * np.linspace(1, 2, 8)).astype(np.float32), requires_grad=True)
    rounds = [x, *(wp.zeros_like(x) for _ in range(states - 1))]
    forces = [wp.zeros_like(x) for _ in range(states - 1)]
    loss = wp.zeros(1, requires_grad=True)
    with wp.Tape(on_overwrite="ignore") as tape:
        for k in range(4):
            here, there = rounds[k % states], rounds[(k + 1) % states]
            f = forces[k % len(forces)]
            wp.launch(force, dim=8, inputs=[here], outputs=[f])
            wp.launch(step, dim=8, inputs=[here, f], outputs=[there])
        wp.launch(total, dim=8, inputs=[rounds[4 % states]], outputs=[loss])
    tape.backward(loss)
    return tape


@pytest.fixture(scope="module")
def fixed() -> Diff:
    return diff(record(2), record(5))


def data(name: str) -> Any:
    return json.loads((FIXTURES / f"{name}.trace.json").read_text("utf-8"))


# ------------------------------------------------------------------------------ a fix


def test_a_fix_shows_what_is_gone(fixed: Diff) -> None:
    assert (fixed.before.verdict, fixed.after.verdict) == ("WRONG", "AGREE")
    assert {finding.rule for finding in fixed.gone} == {"overwrite"}
    assert (fixed.new, fixed.still, fixed.wrong) == ([], [], False)
    assert fixed.matches == [Run(0, 0, 9)]
    (change,) = fixed.gradients
    labels = fixed.before.arrays[0].label, fixed.after.arrays[0].label  # of one variable, and of another
    assert change.label == (labels[0] if labels[0] == labels[1] else f"{labels[0]} ({labels[1]})")
    assert change.ratio == pytest.approx(0.4716, rel=1e-3)
    assert not change.same
    (check,) = fixed.checks
    assert (check.before, check.after) == ("WRONG", "AGREE")
    assert fixed.diverged == []  # the forward pass is right in both


def test_it_says_so_in_words(fixed: Diff) -> None:
    text = str(fixed)
    for words in (
        "verdict    WRONG → AGREE",
        "findings   3 gone, 0 new, 0 still there",
        "launches   9 → 9: 9 the same, 0 only before, 0 only after",
        "gone       ✕ overwrite · ",
        " 1.057 → 0.4986 (× 0.4716)",
        "WRONG, off by 1.498 → AGREE, off by ",
    ):
        assert words in text
    bundle = fixed._repr_mimebundle_()
    assert bundle["text/plain"] == text
    assert "WRONG → AGREE" in bundle["text/html"]
    assert repr(fixed).startswith("<Diff '")


def test_undone_it_is_new(fixed: Diff) -> None:
    undone = diff(fixed.after, fixed.before)
    assert [f.rule for f in undone.new] == [f.rule for f in fixed.gone]
    assert undone.gone == []
    assert undone.wrong


def test_the_same_tape_has_no_difference(fixed: Diff) -> None:
    same = diff(fixed.before, fixed.before)
    assert [(one.id, other.id) for one, other in same.still] == [(f.id, f.id) for f in fixed.before.findings]
    assert (same.gone, same.new, same.diverged, same.begin, same.notes) == ([], [], [], [], [])
    assert [change.same for change in same.gradients] == [True]
    assert "(the same)" in str(same)


def test_values_part_where_they_first_differ() -> None:
    found = diff(record(5), record(5, scale=1.5))
    assert found.begin == [found.before.arrays[0].label]
    first = found.diverged[0]
    assert (first.before, first.after, first.kernel, first.argument) == (0, 0, "force", "f")
    assert first.values[1] == pytest.approx(2.25 * first.values[0])
    assert [(p.kernel, p.argument) for p in found.diverged] == [
        ("force", "f"),
        ("step", "y"),
        ("total", "loss"),
    ]
    assert "what they compute differs anyway" in str(found)


def test_what_was_not_looked_at_is_said() -> None:
    found = diff(record(5).trace(), record(5).trace())
    assert (found.before.verdict, found.diverged) == ("NOT CHECKED", [])
    assert len(found.notes) == 3
    assert "Values were not compared" in str(found)
    assert "holds no gradients of its inputs" in str(found)


def test_recorded_traces_and_json() -> None:
    found = diff(data("recorded-ignore"), data("recorded-preserve"))
    assert found.before.verdict == "WRONG"
    assert found.matched == len(found.before.launches)
    assert "on_overwrite='ignore' → 'preserve'" in str(found)
    severities = [(one.severity, other.severity) for one, other in found.still]
    assert ("error", "info") in severities or found.gone
    with pytest.raises(TypeError, match=r"the JSON data of a trace; got 3 \(int\)$"):
        diff(3, found.before)  # type: ignore[arg-type]
    with pytest.raises(TraceError, match="not a tapedebug trace"):
        diff({}, found.before)


# ------------------------------------------------------------------------------ the file


def test_one_file_with_both(fixed: Diff, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_assets, "STATIC", bundle(tmp_path))
    path = fixed.save(tmp_path / "diff.html")
    page = Page(path.read_text("utf-8"))
    payload = page.payload()
    assert len(payload["traces"]) == 2
    assert payload["diff"]["matches"] == [[0, 0, 9]]
    rows = payload["diff"]["rows"]
    gone = [row for row in rows if row["kind"] == "gone"]
    assert len(gone) == 3
    launch = fixed.gone[0].launches[0]
    assert (gone[0]["launches"], gone[0]["findings"]) == ([launch, launch], [fixed.gone[0].id, None])
    assert "before and after" in page.texts["title"]
    assert "WRONG → AGREE" in page.texts["noscript"]

    secret = fixed.save(tmp_path / "secret.html", redact_source=True).read_text("utf-8")
    assert "f[i] = -x[i]" not in secret
    assert str(Path(__file__).parent) not in secret


def test_names_that_are_markup_stay_text() -> None:
    evil = "</td><script>alert(1)</script>"
    trace = trace_from_json({**data("net"), "name": evil})
    trace.findings[0].message = trace.findings[0].rule = evil
    shown = diff(trace, data("net"))._repr_mimebundle_()["text/html"]
    assert "<script" not in shown
    assert "&lt;/td&gt;&lt;script&gt;" in shown


def test_bidi_controls_do_not_turn_the_text_around() -> None:
    trace = trace_from_json({**data("net"), "name": "a\u202eb\x1b[31m\nc"})
    first = str(diff(trace, trace)).splitlines()[0]
    assert first == "a b [31m c → a b [31m c"


# ------------------------------------------------------------------------------ launches


def launches(*sites: tuple[str, str, int]) -> Trace:
    """A trace of launches: kernel, function and line that launched it."""
    items = [
        Launch(
            index=i,
            kind="kernel",
            kernel=None,
            name=kernel,
            dim=[1],
            args=[],
            call_site=Location(file="net.py", line=line, function=function),
        )
        for i, (kernel, function, line) in enumerate(sites)
    ]
    return Trace(name="t", tape=TapeInfo(id=1, on_overwrite="ignore", launches=len(items)), launches=items)


def test_lines_move_when_code_above_them_is_edited() -> None:
    before = launches(("f", "main", 3), ("g", "main", 4), ("f", "main", 3), ("g", "main", 4))
    after = launches(("f", "main", 9), ("g", "main", 10), ("f", "main", 9), ("g", "main", 10))
    assert align_launches(before, after) == [Run(0, 0, 4)]


def test_two_launches_of_a_kernel_in_one_function_stay_apart() -> None:
    before = launches(("f", "main", 3), ("f", "main", 5), ("g", "main", 6))
    after = launches(("f", "main", 4), ("new", "main", 5), ("f", "main", 7), ("g", "main", 8))
    assert align_launches(before, after) == [Run(0, 0, 1), Run(1, 2, 2)]


def test_a_renamed_function_and_a_new_launch_each_round() -> None:
    before = launches(*[("f", "old", 3), ("g", "old", 4)] * 50)
    after = launches(*[("f", "renamed", 13), ("check", "renamed", 14), ("g", "renamed", 15)] * 50)
    runs = align_launches(before, after)
    assert sum(run.length for run in runs) == 100
    assert runs[1] == Run(1, 2, 2)


def length(a: list[int], b: list[int]) -> int:
    """Return the length of a longest common subsequence, by the textbook table."""
    row = [0] * (len(b) + 1)
    for x in a:
        above = row[:]
        for j, y in enumerate(b):
            row[j + 1] = above[j] + 1 if x == y else max(above[j + 1], row[j])
    return row[-1]


def test_alignment_is_a_longest_common_subsequence() -> None:
    chance = random.Random(1)
    for _ in range(400):
        keys = chance.choice([1, 2, 3, 8])
        a, b = ([chance.randrange(keys) for _ in range(chance.randrange(40))] for _ in range(2))
        runs = align(a, b)
        pairs = [(run.before + k, run.after + k) for run in runs for k in range(run.length)]
        assert all(a[i] == b[j] for i, j in pairs)
        assert all(i < k and j < m for (i, j), (k, m) in pairwise(pairs))
        assert len(pairs) == length(a, b)


def test_long_tapes_are_aligned_in_seconds() -> None:
    a, b = [0, 1, 2, 3, 4] * 6_000, [0, 1, 9, 2, 4, 3] * 5_000
    start = time.process_time()
    runs = align(a, b)
    assert time.process_time() - start < 10
    assert sum(run.length for run in runs) > 20_000
    start = time.process_time()
    assert align(a * 10, a * 10) == [Run(0, 0, 300_000)]
    assert time.process_time() - start < 5


def test_beyond_that_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aligning, "MOST_CELLS", 100)
    monkeypatch.setattr(aligning, "WINDOW", 20)
    a, b = [0, 1, 2] * 30, [5, 0, 1, 9, 2, 6] * 30
    runs = align(a, b)
    pairs = [(run.before + k, run.after + k) for run in runs for k in range(run.length)]
    assert all(a[i] == b[j] for i, j in pairs)
    assert len(pairs) > 60
    assert pairs == sorted(set(pairs))


# ------------------------------------------------------------------------------ findings


def test_a_finding_that_became_harmless_is_still_there() -> None:
    def trace(severity: Any, launches: list[int]) -> Trace:
        made = Trace(name="t", tape=TapeInfo(id=1, on_overwrite="ignore", launches=0))
        at = Location(file="net.py", line=3, function="integrate")
        made.findings = [
            Finding(
                rule="overwrite", severity=severity, message="m", launches=launches, arrays=["x"], location=at
            )
        ]
        made.findings[0].launches = launches
        return made

    found = diff(trace("error", [3]), trace("info", [7]))
    assert [(one.severity, other.severity) for one, other in found.still] == [("error", "info")]
    assert "still      was error, now info: i overwrite · x" in str(found)


def test_a_page_has_the_end_of_a_message_and_a_terminal_one_line() -> None:
    trace = Trace(name="t", tape=TapeInfo(id=1, on_overwrite="preserve", launches=0))
    message = "the values of x were overwritten; " * 6 + "the tape kept a copy"
    trace.findings = [Finding(rule="overwrite", severity="info", message=message, launches=[], arrays=["x"])]
    found = diff(Trace(name="t", tape=trace.tape), trace)
    assert "kept a copy" in found._repr_mimebundle_()["text/html"]
    assert "kept a copy" not in str(found)
    assert max(map(len, str(found).splitlines())) < 260
