"""Writing files: whole or not at all, through what is no regular file, with mode, owner and links kept."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import tapedebug as wp
from tapedebug import _atomic
from tapedebug._atomic import is_special, require_place, write_whole, written_whole
from tapedebug.report import diff, report

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="of modes, owners, pipes and devices")
ROOT = Path(__file__).parents[1]
AS_ROOT = os.geteuid() == 0


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


def taped() -> wp.Tape:
    x = wp.ones(3, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 3, [x], [wp.zeros(3, dtype=float, requires_grad=True)])
    return tape


WRITERS: dict[str, Callable[[Path], object]] = {
    "bytes": lambda path: write_whole(path, b"content"),
    "text": lambda path: write_whole(path, "content"),
    "Trace.save": lambda path: taped().trace().save(path),
    "report": lambda path: report(taped(), path),
    "diff": lambda path: diff(taped(), taped()).save(path),
    "visualize": lambda path: taped().visualize(path),
}
writers = pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)


@pytest.fixture(autouse=True)
def nothing_else_stays(tmp_path):
    yield
    assert [p.name for p in tmp_path.rglob("*.part")] == []


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@writers
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_a_file_that_is_replaced_keeps_its_mode(writer, mode, tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"before")
    path.chmod(mode)
    before = path.stat().st_ino
    writer(path)
    assert mode_of(path) == mode
    assert path.stat().st_size > 6
    assert path.stat().st_ino != before, "it is replaced, not written into"


@pytest.mark.parametrize("umask", [0o022, 0o002, 0o077])
def test_a_new_file_is_as_umask_says(umask, tmp_path):
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "out", "content")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "out") == 0o666 & ~umask


@writers
@pytest.mark.parametrize("exists", [True, False])
def test_a_symbolic_link_stays_one(writer, exists, tmp_path):
    (tmp_path / "far").mkdir()
    final, link, chain = tmp_path / "far" / "final", tmp_path / "link", tmp_path / "chain"
    if exists:
        final.write_bytes(b"before")
    link.symlink_to(Path("far", "final"))
    chain.symlink_to(link)
    writer(chain)
    assert (chain.is_symlink(), link.is_symlink()) == (True, True)
    assert not final.is_symlink() and final.stat().st_size > 6
    assert sorted(p.name for p in tmp_path.iterdir()) == ["chain", "far", "link"]


@writers
def test_a_pipe_gets_all_of_it_and_stays(writer, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    thread = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    thread.start()
    writer(pipe)
    thread.join(timeout=60)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert len(read[0]) > 6


@writers
def test_a_device_stays_one(writer, tmp_path):
    if AS_ROOT:  # another /dev/null, which nothing else needs
        device = tmp_path / "null"
        try:
            os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
            device.write_bytes(b"")
        except OSError:
            device = Path("/dev/null")
    else:
        device = Path("/dev/null")
    writer(device)
    assert stat.S_ISCHR(device.stat().st_mode)


@pytest.mark.skipif(not AS_ROOT, reason="owners are changed by root alone")
def test_the_owner_stays(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"before")
    os.chown(path, 1234, 4321)
    path.chmod(0o640)
    write_whole(path, "content")
    found = path.stat()
    assert (found.st_uid, found.st_gid, mode_of(path)) == (1234, 4321, 0o640)


def test_the_group_comes_before_the_owner(tmp_path, monkeypatch):
    path = tmp_path / "out"
    path.write_bytes(b"before")
    asked = []

    def refused(name, user, group):
        asked.append((user, group))
        raise PermissionError

    monkeypatch.setattr(_atomic.os, "chown", refused)
    write_whole(path, "content")
    found = path.stat()
    assert asked == [(found.st_uid, found.st_gid), (-1, found.st_gid)]


@pytest.mark.skipif(not AS_ROOT, reason="groups are changed by root alone")
def test_another_group_gets_nothing_that_the_first_one_had(tmp_path, monkeypatch):
    def refused(*args):
        raise PermissionError

    path = tmp_path / "out"
    path.write_bytes(b"before")
    os.chown(path, -1, 4321)
    path.chmod(0o664)
    monkeypatch.setattr(_atomic.os, "chown", refused)
    write_whole(path, "content")
    assert (path.stat().st_gid, mode_of(path)) == (os.getegid(), 0o644)


def run(code: str, *redirections: str, cwd: Path) -> None:
    command = f"'{sys.executable}' -c '{code}' {' '.join(redirections)}"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(["bash", "-c", command], check=True, cwd=cwd, env=environment, timeout=60)


@pytest.mark.parametrize(
    ("name", "redirection"), [("/dev/stdout", "> out"), ("out", "> out"), ("/dev/fd/7", "7> out")]
)
def test_an_open_file_is_written_where_it_stands(name, redirection, tmp_path):
    stream = "sys.stdout" if "7" not in name else 'os.fdopen(7, mode="w")'
    code = (
        f"import os, sys; from pathlib import Path; from tapedebug._atomic import write_whole\n"
        f"out = {stream}\n"
        f'print("before", file=out, flush=True); write_whole(Path("{name}"), "content\\n"); '
        f'print("after", file=out)'
    )
    run(code, redirection, cwd=tmp_path)
    assert (tmp_path / "out").read_text() == "before\ncontent\nafter\n"


def test_a_block_that_fails_leaves_what_was_there(tmp_path):
    path, link = tmp_path / "out", tmp_path / "link"
    path.write_bytes(b"before")
    link.symlink_to(path)
    for name in (path, link, tmp_path / "new"):
        with pytest.raises(KeyboardInterrupt), written_whole(name) as stream:
            stream.write(b"half")
            raise KeyboardInterrupt
    assert path.read_bytes() == b"before"
    assert not (tmp_path / "new").exists()


def test_a_pipe_gets_nothing_of_a_block_that_fails(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(KeyboardInterrupt), written_whole(pipe) as stream:
        stream.write(b"half")
        raise KeyboardInterrupt
    assert os.read(reader, 10) == b""
    os.close(reader)


def test_a_full_disk_is_told_by_the_name_that_was_asked_for(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device", "/somewhere/.0123.part")

    path = tmp_path / "out"
    path.write_bytes(b"before")
    with monkeypatch.context() as patched:
        patched.setattr(_atomic.Path, "replace", full)
        with pytest.raises(OSError) as caught:
            write_whole(path, "content")
    assert str(caught.value) == f"{path} cannot be written: No space left on device"
    assert caught.value.errno == 28
    assert path.read_bytes() == b"before"
    with pytest.raises(OSError, match="^/dev/full cannot be written: No space left on device$"):
        write_whole(Path("/dev/full"), "content")


def test_places_that_cannot_be(tmp_path, monkeypatch):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "nowhere").symlink_to(tmp_path / "no" / "out")
    (tmp_path / "a file").write_bytes(b"")
    for name, error, message in [
        ("", IsADirectoryError, f"{tmp_path} is a folder, not a file"),
        ("nowhere", FileNotFoundError, f"the folder {tmp_path / 'no'} does not exist"),
        ("a file/out", FileNotFoundError, f"the folder {tmp_path / 'a file'} does not exist"),
        ("loop", OSError, f"{tmp_path / 'loop'} cannot be written: Too many levels of symbolic links"),
    ]:
        for use in (require_place, lambda path: write_whole(path, "content")):
            with pytest.raises(error, match=f"^{re.escape(message)}$"):
                use(tmp_path / name)
    allowed: dict[Path, bool] = {tmp_path: False}
    monkeypatch.setattr(_atomic.os, "access", lambda path, _: allowed.get(Path(path), True))
    for name in ("a file", "new"):
        with pytest.raises(PermissionError, match=f"^{re.escape(str(tmp_path))} is not writable$"):
            require_place(tmp_path / name)


def test_special(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert [is_special(p) for p in (Path("/dev/null"), tmp_path / "pipe", tmp_path, tmp_path / "new")] == [
        True,
        True,
        False,
        False,
    ]
