"""The target's fingerprint is read from the cache; LLVM is asked only if something changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tapedebug.compiler import fingerprint, objects, target_fingerprint

LONG_AGO = 1_000_000_000


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TAPEDEBUG_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small one, whose files count as settled."""
    folder = tmp_path / "package"
    for name in ("one.py", "rooms/two.py", "rooms/inner/three.py", "rooms/four.txt", "apart/five.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{name}\n")
    monkeypatch.setattr(target_fingerprint, "PACKAGE", folder)
    monkeypatch.setattr(target_fingerprint, "SETTLED", 0)
    return folder


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The files of each time that sources were read."""
    found: list[list[str]] = []
    read = target_fingerprint._read

    def noted(paths: list[str]) -> str:
        found.append(list(paths))
        return read(found[-1])

    monkeypatch.setattr(target_fingerprint, "_read", noted)
    return found


def test_sources_are_read_once_for_each_state(package: Path, cache: Path, reads: list[list[str]]) -> None:
    places = ("", "rooms/")
    first = target_fingerprint.digest_of(*places)
    names = [os.path.relpath(path, package) for path in reads[0]]
    assert sorted(names) == ["one.py", "rooms/inner/three.py", "rooms/two.py"]
    assert target_fingerprint.digest_of(*places) == first and len(reads) == 1
    path = package / "rooms" / "two.py"
    path.write_text("rooms/too.py\n")  # as long as before
    second = target_fingerprint.digest_of(*places)
    assert second != first and len(reads) == 2
    (package / "rooms" / "six.py").write_text("")
    assert target_fingerprint.digest_of(*places) == second and len(reads) == 3, (
        "an empty file changes nothing"
    )
    path.write_text("rooms/two.py\n")
    os.utime(path, ns=(LONG_AGO, LONG_AGO))
    assert target_fingerprint.digest_of(*places) == first and len(reads) == 4


def test_what_has_just_changed_is_read_every_time(
    package: Path, cache: Path, reads: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_fingerprint, "SETTLED", 3600e9)
    assert (
        target_fingerprint.digest_of("rooms/") == target_fingerprint.digest_of("rooms/") and len(reads) == 2
    )
    assert not cache.exists()


def test_digests_are_of_all_that_compiles(cache: Path, reads: list[list[str]]) -> None:
    fingerprint.toolchain.__wrapped__()
    objects.processor.__wrapped__()
    lowering, translating = (
        {os.path.relpath(p, target_fingerprint.PACKAGE) for p in paths} for paths in reads
    )
    assert lowering > {"_source.py", "compiler/passes/adjoint.py", "compiler/lower/calls.py", "lang/types.py"}
    assert "runtime/launch/launch.py" not in lowering
    assert {"compiler/llvm/translate.py", "compiler/numba_library.py", "compiler/backend.py"} < translating


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Callable[[], int]]:
    """The system's description of the processor, and a count of calls of LLVM."""
    number = 0

    def ask() -> str:
        nonlocal number
        number += 1
        return f"answer {number}"

    path = tmp_path / "modalias"
    path.write_text("cpu:type:x86,ven0000fam0006:feature:,0000,0001\n")
    monkeypatch.setattr(target_fingerprint, "PROCESSOR", str(path))
    monkeypatch.setattr(target_fingerprint, "_asked", ask)
    return path, lambda: number


def test_llvm_is_asked_once_for_each_processor(
    asked: tuple[Path, Callable[[], int]], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, times = asked
    assert [target_fingerprint.processor(), target_fingerprint.processor(), times()] == [
        "answer 1",
        "answer 1",
        1,
    ]
    path.write_text("cpu:type:x86,ven0000fam0006:feature:,0000\n")
    assert [target_fingerprint.processor(), target_fingerprint.processor(), times()] == [
        "answer 2",
        "answer 2",
        2,
    ]
    monkeypatch.setattr(os, "uname", lambda: ("Linux", "another machine"))
    assert [target_fingerprint.processor(), target_fingerprint.processor(), times()] == [
        "answer 3",
        "answer 3",
        3,
    ]


def test_llvm_is_asked_where_the_system_does_not_say(
    asked: tuple[Path, Callable[[], int]], cache: Path
) -> None:
    path, times = asked
    path.unlink()
    assert [target_fingerprint.processor(), target_fingerprint.processor(), times()] == [
        "answer 1",
        "answer 2",
        2,
    ]
    assert not cache.exists()


def test_another_llvm_is_asked_again(
    asked: tuple[Path, Callable[[], int]], cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site" / "llvmlite"
    (folder / "binding").mkdir(parents=True)
    for name in ("__init__.py", "_version.py"):
        (folder / name).write_text("")
    _, times = asked
    monkeypatch.setattr("sys.path", [str(tmp_path / "site")])
    assert [target_fingerprint.processor(), target_fingerprint.processor(), times()] == [
        "answer 1",
        "answer 1",
        1,
    ]
    (folder / "_version.py").write_text("version = 2\n")
    assert [target_fingerprint.processor(), times()] == ["answer 2", 2]
    monkeypatch.setattr("sys.path", [])
    assert [target_fingerprint.processor(), target_fingerprint.processor(), times()] == [
        "answer 3",
        "answer 4",
        4,
    ], "no signs of it"


def test_the_answer_is_llvms(cache: Path) -> None:
    import llvmlite
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features().flatten()
    expected = f"{llvm.get_host_cpu_name()} {features} llvmlite {llvmlite.__version__}"
    assert [target_fingerprint.processor(), target_fingerprint.processor()] == [expected, expected]


def test_clearing_removes_what_is_kept(asked: tuple[Path, Callable[[], int]], cache: Path) -> None:
    target_fingerprint.processor()
    assert len(list(cache.glob("*.sign"))) == 1
    objects.clear()
    assert list(cache.iterdir()) == []
