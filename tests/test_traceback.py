"""Tracebacks of errors of this package, without its own frames."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

import tapedebug as wp
from tapedebug import _traceback
from tapedebug._traceback import frames_of_user


def caught(code: str, file: str) -> TracebackType | None:
    """The traceback of an error of code in a file."""
    try:
        exec(compile(code, file, "exec"), {"wp": wp})
    except Exception as error:
        return error.__traceback__
    return None


def files(trace: TracebackType | None) -> list[str]:
    """The names of the files of the frames."""
    return [Path(frame.f_code.co_filename).name for frame, _ in traceback.walk_tb(trace)]


def test_frames_of_this_package_are_left_out_and_the_given_traceback_stays() -> None:
    trace = caught("wp.array([1.0, 'a'], dtype=float)", "user.py")
    before = files(trace)
    assert len(before) > 2
    assert files(frames_of_user(trace)) == ["test_traceback.py", "user.py"]
    assert files(trace) == before


def test_files_beside_the_package_are_the_users() -> None:
    beside = str(Path(_traceback.__file__).parent) + "_demo.py"
    trace = caught("1 / 0", beside)
    assert files(frames_of_user(trace)) == ["test_traceback.py", "tapedebug_demo.py"]


def test_a_traceback_of_this_package_alone_stays() -> None:
    trace = caught("1 / 0", str(Path(_traceback.__file__).parent / "module.py"))
    assert trace is not None
    assert trace.tb_next is not None
    assert frames_of_user(trace.tb_next) is trace.tb_next
    assert frames_of_user(None) is None
