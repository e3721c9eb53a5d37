"""Rule `loop-memory`: what adjoints keep of their loops, and when that is worth a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp

HERE = Path(__file__)


def line_of(text: str) -> int:
    """The first line of this file that holds `text`."""
    lines = HERE.read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


@wp.kernel
def orbit(gain: wp.array(dtype=float), n: int, out: wp.array(dtype=float)):
    i = wp.tid()
    p = gain[i]
    v = float(0.1)
    for _turn in range(n):
        v = v - 0.00001 * p * p
        p = p + 0.00001 * v * p
    out[i] = p


@wp.kernel
def nested(gain: wp.array(dtype=float), n: int, out: wp.array(dtype=float)):
    i = wp.tid()
    p = gain[i]
    for _outer in range(n):
        q = p
        for _inner in range(out.shape[0] * 500000):
            q = q - 0.0000001 * q * q
        p = p + 0.1 * q
    for _later in range(3 * n):
        p = p - 0.0001 * p * p
    out[i] = p


@wp.kernel
def adds(gain: wp.array(dtype=float), n: int, out: wp.array(dtype=float)):
    i = wp.tid()
    s = float(0.0)
    for _turn in range(n):
        s += 0.5 * gain[i]
    out[i] = s


@wp.kernel
def seeks(gain: wp.array(dtype=float), n: int, out: wp.array(dtype=float)):
    i = wp.tid()
    p = gain[i]
    k = 0
    while k < n:
        p = p - 0.000001 * p * p
        k += 1
    out[i] = p


@wp.kernel
def total(out: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, out[wp.tid()])


def notes(kernel: Any, n: int, *, threads: int = 1, times: int = 1) -> list[Any]:
    """Return the findings of the rule for some launches of a kernel."""
    gain = wp.array(np.full(threads, 0.5, np.float32), dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        for k in range(times):
            out = wp.zeros(threads, dtype=float, requires_grad=True)
            wp.launch(kernel, dim=threads, inputs=[gain, n + k], outputs=[out])  # launched
            wp.launch(total, dim=threads, inputs=[out], outputs=[loss])
    found = wp.diagnose(tape, loss=loss, max_seconds=60)
    assert found.verdict != "WRONG"
    return [item for item in found.findings if item.rule == "loop-memory"]


def test_a_long_loop() -> None:
    (finding,) = notes(orbit, 600_000)
    here = line_of("for _turn in")
    assert finding.severity == "info"
    assert finding.message == (
        f"The adjoint of launch 0 (orbit) keeps 2 values of each of 600,000 iterations of the loop at "
        f"{HERE.name}:{here}: 9.6 MB while one thread is reversed, where the arrays of the launch take 8 "
        "bytes."
    )
    assert finding.fix == (
        "nothing has to change; to save the memory, launch the loop in parts: a kernel that runs 775 "
        "iterations, launched 775 times, with what it carries in arrays"
    )
    assert finding.location.line == here and finding.location.function == "orbit"
    assert finding.call_site.line == line_of("# launched")
    assert finding.evidence["bytes"] == 9_600_000 and finding.evidence["array_bytes"] == 8
    assert finding.evidence["loops"] == [{"line": here, "iterations": 600_000, "values": 2}]


def test_loops_inside_and_beside_it() -> None:
    (finding,) = notes(nested, 2, threads=2)
    assert [loop["iterations"] for loop in finding.evidence["loops"]] == [2, 6, 1_000_000]
    assert finding.message.endswith(" Loops beside it and inside it bring that to 8 MB.")
    assert finding.location.line == line_of("for _inner in")


def test_many_launches_are_one_note_about_the_largest() -> None:
    (finding,) = notes(orbit, 500_000, times=3)
    assert finding.launches == [4, 0, 2] and finding.message.endswith(" 2 more launches like it.")
    assert finding.evidence["loops"][0]["iterations"] == 500_002


@pytest.mark.parametrize(("kernel", "n"), [(orbit, 1000), (adds, 2_000_000), (seeks, 1000)])
def test_what_is_small_or_keeps_nothing_is_no_note(kernel: Any, n: int) -> None:
    assert notes(kernel, n) == []
