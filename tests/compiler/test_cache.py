"""The cache of object code: who writes it, who may damage it, and what a second process loads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import platformdirs
import pytest

import tapedebug as wp
from tapedebug.compiler import objects
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
    assert {".json", ".o"} <= set(kinds) <= {".json", ".o", ".sign"} and kinds.count(".o") == 2
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
