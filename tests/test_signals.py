"""SIGINT ignored from the start, as in the background of a shell: tests hear it, and checks leave it be."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.processes import ROOT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")

RUNS = """
import signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.exit(subprocess.run([sys.executable, *sys.argv[1:]]).returncode)
"""


def with_sigint_ignored(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUNS, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_the_suite_hears_it() -> None:
    one = "tests/runtime/test_isolation.py::test_ctrl_c_waits_until_everything_is_put_back"
    done = with_sigint_ignored("-m", "pytest", "-q", "-p", "no:cacheprovider", one)
    assert (done.returncode, done.stdout.splitlines()[-1].partition(" in ")[0]) == (0, "1 passed"), (
        done.stdout
    )


STAYS = """
import signal
import tapedebug as wp
from tapedebug.runtime.isolation import uninterrupted
from tapedebug.runtime.interrupts import deferred

for holds in (uninterrupted, deferred):
    with holds():
        signal.raise_signal(signal.SIGINT)
    print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)
"""


def test_what_holds_an_interrupt_back_leaves_it_ignored() -> None:
    done = with_sigint_ignored("-c", STAYS)
    assert (done.stdout, done.stderr) == ("True\nTrue\n", "")


def test_this_suite_hears_it() -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
