"""Reports on standard error of a kernel that crashes the process."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tapedebug.compiler import crash_report

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in crash_report.COUNTER_OF,
    reason="the address of an instruction is known for Linux alone",
)
SCRIPT = """
import faulthandler, os, sys
import tapedebug as wp

@wp.kernel
def put_far(x: wp.array(dtype=float), k: wp.int64):
    i = wp.tid()
    x[k + wp.int64(i)] = 1.0

@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]

@wp.kernel
def the_same(x: wp.array(dtype=float), k: wp.int64):
    i = wp.tid()
    x[k + wp.int64(i)] = 1.0

@wp.kernel
def gather(keys: wp.array(dtype=wp.int64), x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[keys[i]] * x[keys[i]]

x = wp.zeros(3, dtype=float, requires_grad=True)
y = wp.zeros(3, dtype=float, requires_grad=True)
far = 1 << 42
"""
HOW = "to see which, run it with `tapedebug run`, or set tapedebug.config.check_bounds = True."


def crashed(tmp_path: Path, body: str, *options: str) -> str:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT + body, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONFAULTHANDLER"}
    done = subprocess.run(
        [sys.executable, *options, str(path)],
        env=environment | {"PYTHONPATH": str(ROOT), "TAPEDEBUG_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        cwd=tmp_path,
        check=False,
        timeout=120,
    )
    assert done.returncode < 0, done.stderr
    return done.stderr.decode("utf-8", "replace")


def place(kernel: str, tmp_path: Path) -> str:
    decorated = SCRIPT.splitlines().index(next(t for t in SCRIPT.splitlines() if f"def {kernel}(" in t))
    return f"kernel `{kernel}` ({tmp_path / 'script.py'}:{decorated})"


def test_the_kernel_and_the_line_of_the_launch(tmp_path: Path) -> None:
    body = "wp.launch(put_far, 1, [x, far])"
    for _ in range(2):  # compiled, and from the cache
        text = crashed(tmp_path, body)
        assert text.startswith(
            f"\ntapedebug: the process crashed in the {place('put_far', tmp_path)}. "
            f"An index may be outside its array; {HOW}\nFatal Python error: Segmentation fault\n"
        ), text
        assert f'script.py", line {len(SCRIPT.splitlines()) + 1} in <module>' in text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("wp.launch(square, 50_000_000, [x, y])", "square"),
        (
            "wp.launch(the_same, 1, [x, 0])\nwp.launch(put_far, 1, [x, far])",
            "the_same",
        ),
        (
            "wp.launch(put_far, 1, [x, far], adjoint=True, adj_inputs=[None, None])",
            "adjoint of put_far",
        ),
        (
            "keys = wp.full(100_000, far, dtype=wp.int64)\n"
            "wp.launch(gather, 100_000, [keys, x, wp.zeros(100_000, dtype=float)])",
            "gather",
        ),
    ],
)
def test_each_program_of_a_kernel(body: str, message: str, tmp_path: Path) -> None:
    text = crashed(tmp_path, body)
    kernel, of = message.removeprefix("adjoint of "), "adjoint of " if " of " in message else ""
    others = f" or the {place('put_far', tmp_path)}" if kernel == "the_same" else ""
    assert text.startswith(
        f"\ntapedebug: the process crashed in the {of}{place(kernel, tmp_path)}{others}. "
        f"An index may be outside its array; {HOW}\n"
    ), text


def test_what_crashes_later_is_told_with_care(tmp_path: Path) -> None:
    text = crashed(tmp_path, "wp.launch(square, 3, [x, y])\nos.abort()")
    assert text.startswith(crash_report.LATER), text
    assert "Fatal Python error: Aborted" in text
    assert 'script.py", line' in text


@pytest.mark.parametrize("when", ["before", "after", "option"])
def test_a_handler_of_the_users_runs_too(when: str, tmp_path: Path) -> None:
    enable, launch = "faulthandler.enable()", "wp.launch(square, 3, [x, y])"
    body = {"before": f"{enable}\n{launch}", "after": f"{launch}\n{enable}", "option": launch}[when]
    options = ["-X", "faulthandler"] if when == "option" else []
    text = crashed(tmp_path, f"{body}\nwp.launch(put_far, 1, [x, far])", *options)
    assert "tapedebug: the process crashed in the kernel `put_far`" in text
    assert "Fatal Python error: Segmentation fault" in text


def test_a_program_that_launches_nothing_keeps_its_handlers(tmp_path: Path) -> None:
    text = crashed(tmp_path, "assert not faulthandler.is_enabled()\nos.abort()")
    assert "tapedebug: the process crashed" not in text


def test_the_table_has_room_for_so_many_kernels_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel of the same text as an early one is noted there, though the table is full."""
    monkeypatch.setattr(crash_report, "MOST", 4)
    table = crash_report._Table()
    for number in range(6):
        table.note((number * 64, number * 64 + 32), f"kernel `k{number}`")
    table.note((0, 32), "kernel `again`")
    assert struct.unpack_from("=Q", table.memory)[0] == 4
    start, stop, text, length = crash_report.ROW.unpack_from(table.memory, crash_report.FIRST)
    assert (start, stop) == (0, 32)
    message = ctypes.string_at(text, length).decode()
    assert message.startswith("\ntapedebug: the process crashed in the kernel `k0` or the kernel `again`. ")
