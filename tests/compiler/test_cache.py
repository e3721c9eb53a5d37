"""The cache of object code: who writes it, who may damage it, and what a second process loads."""

from __future__ import annotations

import json
import logging
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import platformdirs
import pytest

import tapedebug as wp
from tapedebug.compiler import backend, objects
from tests.compiler.harness import run

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
import numpy as np
import tapedebug as wp
from tests.compiler.harness import run

@wp.kernel
def double(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] * 2.0

@wp.kernel
def product(x: wp.array(dtype=float)):
    i = wp.tid()
    s = float(1.0)
    for k in range(3):
        s = s * x[k]
    x[i] = s

for name in sys.argv[1:]:
    x = np.full(3, 3.0, np.float32)
    run(globals()[name], 1, [x])
    print(name, x[0], end=" ")
print("compiled" if "tapedebug.compiler.llvm.machine" in sys.modules else "cached", end="")
assert "numba" not in sys.modules
"""


@pytest.fixture
def script(tmp_path):
    """Starts a process that runs kernels with the cache in `tmp_path / "cache"`."""
    path = tmp_path / "script.py"
    path.write_text(SCRIPT, encoding="utf-8")
    environment = os.environ | {"TAPEDEBUG_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}

    def start(*kernels: str) -> subprocess.Popen:
        pipe = subprocess.PIPE
        command = [sys.executable, str(path), *kernels]
        return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True, cwd=ROOT)

    return start


def output(process: subprocess.Popen) -> str:
    out, error = process.communicate(timeout=120)
    assert (process.returncode, error) == (0, "")
    return out.strip()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TAPEDEBUG_CACHE_DIR", str(tmp_path / "objects"))
    return tmp_path / "objects"


def test_second_process_runs_from_the_cache(script, tmp_path):
    """Each object was the first that its process compiled: their symbols must differ, to live together."""
    assert output(script("double")) == "double 6.0 compiled"
    assert output(script("product")) == "product 27.0 compiled"
    assert len(list((tmp_path / "cache").glob("*.o"))) == 2
    assert output(script("double", "product")) == "double 6.0 product 27.0 cached"


DAMAGES = {
    "flipped": lambda content, other: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
    "truncated": lambda content, other: content[: len(content) // 2],
    "empty": lambda content, other: b"",
    "of another format": lambda content, other: b"tapedebug-object-2\n" + content[19:],
    "of another kernel": lambda content, other: other,
    "of another program": lambda content, other: b"\x7fELF" + bytes(200),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_object_is_discarded(folder, damage):
    one, two = "1" * 64, "2" * 64
    objects.write(one, b"code" * 50)
    objects.write(two, b"other code" * 50)
    path = folder / f"{one}.o"
    path.write_bytes(DAMAGES[damage](path.read_bytes(), (folder / f"{two}.o").read_bytes()))
    assert objects.read(one) is None
    assert not path.exists()
    assert objects.read(two) is not None


def test_damaged_object_is_made_again(script, tmp_path):
    output(script("double"))
    (path,) = (tmp_path / "cache").glob("*.o")
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[: size // 2])
    assert output(script("double")) == "double 6.0 compiled"
    assert path.stat().st_size == size
    assert output(script("double")) == "double 6.0 cached"


def test_processes_may_write_at_once(script, tmp_path):
    processes = [script("double", "product") for _ in range(3)]
    found = {output(p).rpartition(" ")[0] for p in processes}  # a late one may find it all in the cache
    assert found == {"double 6.0 product 27.0"}
    kinds = [p.suffix for p in (tmp_path / "cache").iterdir()]
    assert {".json", ".o"} <= set(kinds) <= {".json", ".o", ".sign", ".crash"} and kinds.count(".o") == 2
    assert output(script("double", "product")).endswith("cached")


def test_a_folder_that_cannot_be_written_is_harmless(script, tmp_path):
    (tmp_path / "cache").write_text("a file, where the folder should be")
    assert output(script("double")) == "double 6.0 compiled"
    assert (tmp_path / "cache").read_text() == "a file, where the folder should be"


def test_nothing_half_written_stays(folder, monkeypatch):
    def full(*args):
        raise OSError("no space left")

    monkeypatch.setattr(objects.os, "replace", full)
    objects.write("k" * 64, b"code")
    assert list(folder.iterdir()) == []


def test_what_is_written_is_read(folder):
    assert objects.read("a" * 64) is None
    objects.write("a" * 64, b"\ncode\n\x00")
    assert objects.read("a" * 64) == b"\ncode\n\x00"
    os.rename(folder / ("a" * 64 + ".o"), folder / ("b" * 64 + ".o"))
    assert objects.read("b" * 64) is None
    assert not list(folder.glob("*.o"))
    objects.write("c" * 64, b"")
    assert (objects.clear(), objects.clear()) == (1, 0)


def test_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("TAPEDEBUG_CACHE_DIR", str(tmp_path))
    assert objects.folder() == tmp_path
    monkeypatch.delenv("TAPEDEBUG_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    if sys.platform == "linux":
        assert objects.folder() == tmp_path / "home" / "tapedebug" / "objects"


@pytest.mark.parametrize("home", [None, "", "relative", "/a/folder"])
@pytest.mark.parametrize("chosen", [None, "", " ", "relative", "/another/folder"])
def test_the_folder_is_that_of_platformdirs(chosen, home, monkeypatch):
    for name, value in (("TAPEDEBUG_CACHE_DIR", None), ("XDG_CACHE_HOME", chosen), ("HOME", home)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    expected = Path(platformdirs.user_cache_dir("tapedebug", appauthor=False)) / "objects"
    assert objects.folder() == expected


def test_key_is_of_code_processor_and_compiler(monkeypatch):
    one = objects.key_of("a = 1\n", "llvm")
    assert one == objects.key_of("a = 1\n", "llvm")
    assert one != objects.key_of("a = 2\n", "llvm")
    assert one != objects.key_of("a = 1\n", "numba")
    assert one != objects.key_of("a = 1\n", "llvm", 0)
    assert "llvmlite" in objects.processor()
    monkeypatch.setattr(objects, "processor", lambda: "another machine")
    assert one != objects.key_of("a = 1\n", "llvm")


def test_same_code_at_other_lines_is_one_object(folder):
    """Neither names of kernels nor lines are in the key: an edit above a kernel compiles nothing."""

    @wp.kernel
    def one(x: wp.array(dtype=float)):
        i = wp.tid()
        x[i] = x[i] * 7.25

    @wp.kernel
    def two(x: wp.array(dtype=float)):
        i = wp.tid()
        # a comment
        x[i] = x[i] * 7.25

    x = np.ones(2, np.float32)
    run(one, 2, [x])
    assert len(list(folder.glob("*.o"))) == 1
    run(two, 2, [x])
    assert len(list(folder.glob("*.o"))) == 1
    assert x.tolist() == [7.25**2] * 2


def test_objects_of_different_optimization_are_not_mixed(folder, monkeypatch):
    """One definition, compiled at two levels of LLVM, is two objects: notes lead to their own one."""

    def made():
        @wp.kernel
        def leveled(x: wp.array(dtype=float)):
            i = wp.tid()
            x[i] = x[i] * 7.25

        return leveled

    x = np.ones(2, np.float32)
    run(made(), 2, [x])
    first = set(folder.glob("*.o"))
    monkeypatch.setattr(backend, "optimization", 0)
    run(made(), 2, [x])
    assert len(first) == 1 and len(set(folder.glob("*.o")) - first) == 1
    run(made(), 2, [x])
    assert len(list(folder.glob("*.o"))) == 2
    assert x.tolist() == [7.25**3] * 2


# Who may change what is run ---------------------------------------------------------------------------------

posix = pytest.mark.skipif(sys.platform == "win32", reason="of modes and owners")
as_root = pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="root alone changes owners")
NATIVE = """
import sys
import numpy as np
import tapedebug as wp

@wp.func_native("y[i] = 2.0f * x[i];")
def native_double(x: wp.array(dtype=float), y: wp.array(dtype=float), i: int): ...

@wp.kernel
def double(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    native_double(x, y, wp.tid())

y = wp.zeros(3, dtype=float)
wp.launch(double, 3, [wp.full(3, 3.0, dtype=float)], [y])
print(y.numpy()[0], end="")
"""


@posix
@pytest.mark.parametrize("umask", [0o002, 0o000, 0o077])
def test_only_the_user_writes_to_a_folder_that_is_made(umask, script, tmp_path):
    before = os.umask(umask)
    try:
        output(script("double"))
    finally:
        os.umask(before)
    places = [tmp_path / "cache", *(tmp_path / "cache").iterdir()]
    assert {stat.S_IMODE(place.stat().st_mode) for place in places} == {0o700, 0o600}
    assert output(script("double")) == "double 6.0 cached"


@posix
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_only_the_user_writes_to_shared_objects(tmp_path):
    path = tmp_path / "native.py"
    path.write_text(NATIVE, encoding="utf-8")
    cache = tmp_path / "cache"
    environment = os.environ | {"TAPEDEBUG_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}

    def run_it() -> str:
        return subprocess.run(
            [sys.executable, path], env=environment, capture_output=True, text=True, check=True, umask=0o002
        ).stdout

    assert run_it() == "6.0"
    places = [cache, *cache.rglob("*")]
    assert {stat.S_IMODE(place.stat().st_mode) for place in places} == {0o700, 0o600}
    (library,) = (cache / "native").glob("*.so")
    made = library.stat()
    assert run_it() == "6.0"
    assert library.stat().st_mtime_ns == made.st_mtime_ns
    (cache / "native").chmod(0o777)
    assert run_it() == "6.0"  # compiled elsewhere, and this one is not loaded
    assert library.stat() == made or library.stat().st_mtime_ns == made.st_mtime_ns


@posix
def test_a_folder_that_others_can_write_to_is_left_alone(script, tmp_path):
    cache = tmp_path / "cache"
    assert output(script("double")) == "double 6.0 compiled"
    before = {path.name: path.stat().st_mtime_ns for path in cache.iterdir()}
    for mode in (0o777, 0o775, 0o702):
        cache.chmod(mode)
        process = script("double", "product")
        out, error = process.communicate(timeout=120)
        assert (process.returncode, out) == (0, "double 6.0 product 27.0 compiled")
        assert error == (
            f"tapedebug: compiled kernels are not cached: other users may write to the folder {cache} "
            f"(mode {mode:04o}), and could put code there for you to run\n"
            f"  = hint: run `chmod go-w {cache}`\n"
        )
        assert {path.name: path.stat().st_mtime_ns for path in cache.iterdir()} == before
        subprocess.run(["bash", "-c", error.partition("`")[2].rpartition("`")[0]], check=True)
    assert output(script("double")) == "double 6.0 cached"


@posix
def test_a_folder_that_all_share_stays_so(folder, caplog):
    folder.mkdir()
    folder.chmod(0o1777)
    objects.write("a" * 64, b"code")
    assert (objects.read("a" * 64), list(folder.iterdir())) == (None, [])
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        f"tapedebug: compiled kernels are not cached: other users may write to the folder {folder} "
        "(mode 1777), and could put code there for you to run\n"
        "  = hint: set TAPEDEBUG_CACHE_DIR, or config.kernel_cache_dir, to a folder of your own"
    )


@as_root
def test_a_folder_of_another_user_is_left_alone(folder, caplog):
    objects.write("a" * 64, b"code")
    os.chown(folder, 1234, -1)
    assert objects.read("a" * 64) is None
    assert [record.getMessage() for record in caplog.records] == [
        f"tapedebug: compiled kernels are not cached: the folder {folder} belongs to user 1234, who could "
        "put code there for user 0 to run\n"
        "  = hint: set TAPEDEBUG_CACHE_DIR, or config.kernel_cache_dir, to a folder of your own"
    ]


@posix
@pytest.mark.parametrize("change", ["mode", pytest.param("owner", marks=as_root)])
def test_a_file_that_another_user_can_change_is_made_again(change, folder):
    objects.write("a" * 64, b"code")
    path = folder / ("a" * 64 + ".o")
    if change == "mode":
        path.chmod(0o620)
    else:
        os.chown(path, 1234, -1)
    assert objects.read("a" * 64) is None
    objects.write("a" * 64, b"code")
    assert objects.read("a" * 64) == b"code"


def test_without_owners_every_folder_is_the_users(folder, monkeypatch, caplog):
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.delattr(objects.os, "geteuid", raising=False)
    objects.write("a" * 64, b"code")
    assert (objects.read("a" * 64), caplog.records) == (b"code", [])


# Notes that say something else ------------------------------------------------------------------------------

CHANGES = {
    "a number": lambda note: 3 if is_list(note) else 0.5,
    "nothing": lambda note: [],
    "of another kind": lambda note: ["Pair", ["tuple", "value", 0], ["tuple", "value", 0], True],
    "of an unknown kind": lambda note: ["Elephant"],
    "deep": lambda note: "deep",
    "fields that are numbers": lambda note: [note[0], *(7 for _ in note[1:])] if is_list(note) else note,
    "fields that are texts": lambda note: [note[0], *("x" for _ in note[1:])] if is_list(note) else note,
    "too few": lambda note: note[:-1] if is_list(note) else "x",
    "inside": lambda note: within(note, "x"),
    "a list inside": lambda note: within(note, [[]]),
}


def is_list(note) -> bool:
    return isinstance(note, list)


def within(note, other):
    """Every last part that is a number or a text is `other`."""
    if is_list(note):
        return [note[0], *(within(part, other) for part in note[1:])]
    return other


@pytest.mark.parametrize("change", CHANGES)
def test_a_malformed_note_is_made_again(change, folder):
    source = """
@wp.kernel
def noted(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(y, 0, wp.sin(x[i]) * x[i])
    assert x[i] > 0.0
"""

    def ran() -> list[float]:
        names = {"wp": wp, "__name__": __name__}
        path = folder.parent / "noted.py"
        path.write_text("import tapedebug as wp\n" + source, encoding="utf-8")
        exec(compile(path.read_text(), str(path), "exec"), names)
        x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
        y = wp.zeros(1, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(names["noted"], 2, [x], [y])
        tape.backward(y)
        return [*y.numpy().tolist(), *x.grad.numpy().tolist()]

    expected = ran()
    good = {path.name: path.read_bytes() for path in folder.glob("*.json")}
    assert len(good) >= 5
    for name in good:
        key = name.partition(".")[0]
        note = CHANGES[change](json.loads(objects.read(key, ".json")))
        text = "[" * 100_000 if note == "deep" else json.dumps(note)
        objects.write(key, text.encode(), ".json")
    assert ran() == expected
    assert {path.name: path.read_bytes() for path in folder.glob("*.json")} == good, "they are as they were"


@wp.kernel
def scaled(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 2.0 * x[i]


def test_an_analysis_is_read_or_made_once_in_a_process(folder, monkeypatch):
    from tapedebug.compiler.analysis_cache import AnalysisCache
    from tapedebug.compiler.effects import Analysis

    cache = AnalysisCache(scaled, Analysis)
    read, made = [], []
    get = AnalysisCache.get
    monkeypatch.setattr(AnalysisCache, "get", lambda *words: (read.append(words[1]), get(*words))[1])
    for _ in range(3):
        assert cache.known("axes of the test", int, lambda: made.append(1) or 4) == 4
    assert read == ["axes of the test"] and made == [1]
    cache.valid = False  # the kernel was lowered in another state
    assert cache.known("axes of the test", int, lambda: 5) == 5
