"""The cache of compiled kernels has a limit: what was used least recently is removed, and nothing else."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tapedebug as wp
from tapedebug.compiler import cache_limit, objects
from tests.processes import ROOT

HOUR = 3600.0


def put(folder: Path, name: str, age: float, nbytes: int = 100_000) -> Path:
    """Write a file that was last used `age` seconds ago."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(nbytes))
    then = time.time() - age
    os.utime(path, (then, then))
    return path


def key(part: str, number: int, suffix: str = ".o") -> str:
    return f"{part}{number:063x}{suffix}"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def test_the_least_recently_used_are_removed(tmp_path: Path) -> None:
    for number in range(10):
        put(tmp_path, key("a", number), age=(10 - number) * HOUR)
        put(tmp_path, key("b", number), age=50 * HOUR)
    others = {key("b", number) for number in range(10)}
    removed = cache_limit.trim(tmp_path, 16 * 800_000, "a")
    assert names(tmp_path) - others == {key("a", number) for number in range(removed, 10)}
    assert removed == 5, "to three quarters of 800,000 bytes, at 25 blocks of 4,096 bytes each"
    assert others <= names(tmp_path), "each trim looks at one part"
    assert cache_limit.trim(tmp_path, 16 * 800_000, "a") == 0


def test_all_kinds_of_files_count_and_no_other_is_touched(tmp_path: Path) -> None:
    suffixes = (".o", ".json", ".njit", ".sign", ".crash")
    ours = [put(tmp_path, key("c", number, suffix), 2 * HOUR) for number, suffix in enumerate(suffixes)]
    ours += [
        put(tmp_path, f"native/native_bend_c{'0' * 19}{suffix}", 2 * HOUR) for suffix in (".so", ".sha256")
    ]
    foreign = ["notes.json", "c.o", f"c{'0' * 63}.txt", f"folder/{key('c', 1)}", f"c{'0' * 63}.o.bak"]
    kept = [put(tmp_path, name, 100 * HOUR) for name in foreign]
    (tmp_path / key("c", 99)).mkdir()
    (tmp_path / key("c", 98)).symlink_to(kept[0])
    assert cache_limit.trim(tmp_path, 16, "c") == len(ours)
    assert not any(path.exists() for path in ours)
    assert all(path.exists() for path in kept)
    assert (tmp_path / key("c", 99)).is_dir() and (tmp_path / key("c", 98)).is_symlink()


def test_files_that_may_be_in_use_stay(tmp_path: Path) -> None:
    young, old = put(tmp_path, key("d", 1), age=60), put(tmp_path, key("d", 2), age=HOUR)
    left, writing = put(tmp_path, f"{'1' * 16}.tmp", 30 * HOUR), put(tmp_path, f"{'2' * 16}.tmp", HOUR)
    assert cache_limit.trim(tmp_path, 16, "d") == 2
    assert young.exists() and writing.exists()
    assert not old.exists() and not left.exists()


def test_files_that_vanish_meanwhile_are_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes trim the folder at once: each file is removed by one of them."""
    for number in range(4):
        put(tmp_path, key("e", number), age=HOUR)
    unlink = os.unlink

    def raced(path: str) -> None:
        unlink(path)
        unlink(path)

    monkeypatch.setattr(os, "unlink", raced)
    assert cache_limit.trim(tmp_path, 16, "e") == 0
    assert names(tmp_path) == set()
    assert cache_limit.trim(tmp_path / "missing", 16, "e") == 0


def test_reading_marks_a_file_as_used_once_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wp.config, "kernel_cache_dir", tmp_path)
    name = "f" * 64
    objects.write(name, b"code")
    path = tmp_path / f"{name}.o"
    for age, marked in ((23 * HOUR, False), (25 * HOUR, True)):
        then = time.time() - age
        os.utime(path, (then, then))
        assert objects.read(name) == b"code"
        assert (time.time() - path.stat().st_mtime < HOUR) == marked


def test_the_limit_is_a_setting_or_a_variable(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("TAPEDEBUG_CACHE_SIZE", raising=False)
    assert cache_limit.limit() == 1 << 30
    monkeypatch.setenv("TAPEDEBUG_CACHE_SIZE", "200")
    assert cache_limit.limit() == 200 << 20
    monkeypatch.setattr(wp.config, "kernel_cache_size", 0)
    assert cache_limit.limit() == 0
    monkeypatch.setattr(wp.config, "kernel_cache_size", None)
    monkeypatch.setenv("TAPEDEBUG_CACHE_SIZE", "2 GB")
    with caplog.at_level(logging.WARNING, "tapedebug"):
        assert cache_limit.limit() == 1 << 30
    assert caplog.messages == ["TAPEDEBUG_CACHE_SIZE is a number of MiB; got '2 GB', so 1024 is used"]


WRITER = """
from tapedebug.compiler import objects
for number in range(8):
    objects.write(f"{number:x}" * 64, bytes(1 << 18))
"""


@pytest.mark.parametrize(("size", "trimmed"), [("1", True), ("0", False), ("4096", False)])
def test_a_process_trims_what_it_has_written_to(size: str, trimmed: bool, tmp_path: Path) -> None:
    """It writes more than 1 MiB, so it trims one part or more while it runs."""
    old = [put(tmp_path, key(part, 1), age=HOUR) for part in cache_limit.PARTS]
    environment = {**os.environ, "TAPEDEBUG_CACHE_DIR": str(tmp_path), "TAPEDEBUG_CACHE_SIZE": size}
    subprocess.run([sys.executable, "-c", WRITER], check=True, cwd=ROOT, env=environment, timeout=120)
    assert all(path.exists() for path in old) != trimmed


def test_a_user_seed_is_not_consumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import random

    monkeypatch.setattr(wp.config, "kernel_cache_size", 1)
    random.seed(3)
    wanted = random.random()
    random.seed(3)
    for _ in range(40):
        cache_limit.note_written(tmp_path, 1 << 20)
    assert random.random() == wanted
