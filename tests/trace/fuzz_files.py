"""Damaged trace files: `python -m tests.trace.fuzz_files --count 10000`.

Real traces, with and without arrays, are flipped, cut, rewritten as JSON and taken apart as zips. Each of
these files must load, or be refused with a `TraceError`: nothing else, soon, in little memory, and without a
file being written. What loads must show like any other trace.
"""

from __future__ import annotations

import argparse
import copy
import functools
import io
import json
import os
import random
import resource
import signal
import struct
import sys
import tempfile
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tapedebug as wp
from tapedebug.diagnose.formatting import format_diagnosis
from tapedebug.report._size_limits import reduce_trace
from tapedebug.trace import Trace, TraceError, load_trace, pack
from tapedebug.visualize import Options, to_dot

SECONDS = 5.0
"""The most that one file may take; the largest take a tenth of that on a busy machine."""
MEMORY = 1 << 30
"""Bytes that a file of less than a megabyte may make us use."""


# ------------------------------------------------------------------------------ what is damaged


@wp.struct
class Body:
    """State that is passed as a struct."""

    x: wp.array(dtype=wp.vec3)
    v: wp.array(dtype=wp.vec3)


@wp.kernel
def push(body: Body, wind: wp.array(dtype=float), dt: float):
    """One step, in place."""
    i = wp.tid()
    drag = wp.length(body.v[i]) * body.v[i]
    body.v[i] = body.v[i] + dt * (wp.vec3(wind[0], -9.8, 0.0) - drag)
    body.x[i] = body.x[i] + dt * body.v[i]


@wp.kernel
def miss(x: wp.array(dtype=wp.vec3), far: wp.array(dtype=float), loss: wp.array(dtype=float)):
    """Squared distance from the mark; `far` is overwritten in every launch."""
    i = wp.tid()
    far[i] = x[i][0] - 1.0
    wp.atomic_add(loss, 0, far[i] * far[i])


@functools.cache
def originals() -> list[tuple[str, dict[str, bytes]]]:
    """Return the contents of the files, JSON and arrays, by member."""
    body = Body()
    body.x = wp.zeros(5, dtype=wp.vec3, requires_grad=True)
    body.v = wp.full(5, wp.vec3(1.0, 0.0, 0.0), dtype=wp.vec3, requires_grad=True)
    wind = wp.full(1, 2.0, dtype=float, requires_grad=True)
    far = wp.zeros(5, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        for step in range(6):
            tape.record_scope_begin(f"step {step}")
            wp.launch(push, dim=5, inputs=[body, wind, 0.1])
            if step == 3:
                body.v[1:3].zero_()
            tape.record_scope_end()
        wp.launch(miss, dim=5, inputs=[body.x, far, loss])
        wp.launch(miss, dim=5, inputs=[body.x, far, loss])
    tape.backward(loss)
    whole = tape.trace(values="arrays", name="whole")
    diagnosed = wp.diagnose(tape).trace
    return [("whole", _members(whole)), ("diagnosed", _members(diagnosed)), ("plain", _members(tape.trace()))]


def _members(trace: Trace) -> dict[str, bytes]:
    trace.tape.id, trace.environment = 1, {}  # a seed is the same file tomorrow
    trace.tape.began, trace.tape.ended = 1, 99
    for number, event in enumerate(trace.events):
        event.clock, event.tape = number, 1
    for launch in trace.launches:
        launch.seconds = launch.backward_seconds = None
    for check in trace.checks:
        check.seconds = None
    text = json.dumps(trace.to_json(), separators=(",", ":")).encode()
    return {"trace.json": text, **{member: values.tobytes() for member, values in trace.data.items()}}


def zipped(members: dict[str, bytes]) -> bytes:
    """A file as `Trace.save` writes it."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            packed = zipfile.ZIP_DEFLATED if name == "trace.json" else zipfile.ZIP_STORED
            archive.writestr(zipfile.ZipInfo(name), content, packed, compresslevel=1)
    return stream.getvalue()


# -------------------------------------------------------------------------------------- bytes


def bytes_damaged(chance: random.Random, members: dict[str, bytes]) -> bytes:
    """Flips, cuts, insertions and copies anywhere in a zip or in its JSON as it is."""
    content = bytearray(zipped(members) if chance.random() < 0.6 else members["trace.json"])
    for _ in range(chance.randint(1, 5)):
        at = chance.randrange(len(content))
        to = min(len(content), at + chance.choice([1, 4, 100]))
        match chance.randrange(7):
            case 0:
                content[at] ^= 1 << chance.randrange(8)
            case 1:
                content[at] = chance.randrange(256)
            case 2:
                del content[at:to]
            case 3:
                content[at:at] = bytes(chance.randrange(256) for _ in range(chance.choice([1, 8])))
            case 4:
                content[at:to] = bytes(to - at)
            case 5:
                place = chance.randrange(len(content))
                content[place:place] = content[at:to]
            case 6:
                del content[max(1, at) :]
    return bytes(content)


# --------------------------------------------------------------------------------------- JSON

HOSTILE: list[Callable[[random.Random], Any]] = [
    lambda chance: None,
    lambda chance: True,
    lambda chance: chance.choice([-1, 0, 1, 2, 3, 7, 99]),
    lambda chance: chance.choice([2**31, 2**63, -(2**63), 2**64, 10**30]),
    lambda chance: chance.choice([0.5, -0.0, 1e308, float("nan"), float("inf")]),
    lambda chance: chance.choice(["", "nan", "-inf", "x", "\ud800", "\0", "\x1b[2J", "</script>", "\u202e"]),
    lambda chance: "y" * chance.choice([100, 100_000]),
    lambda chance: chance.choice(["../../etc/passwd", "/dev/zero", "/dev/stdin", "a\0b", "C:\\nul"]),
    lambda chance: [],
    lambda chance: {},
    lambda chance: [chance.choice([-1, 0, 5, None]) for _ in range(3)],
    lambda chance: _nested(chance.choice([5, 31, 60])),
    lambda chance: [10**9] * 9,
]


def _nested(depth: int) -> Any:
    inner: Any = []
    for _ in range(depth):
        inner = [inner] if depth % 2 else {"x": inner}
    return inner


def _places(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Every (container, key) below `value`."""
    items = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    for key, item in items:
        found.append((value, key))
        _places(item, found)
    return found


def json_damaged(chance: random.Random, members: dict[str, bytes]) -> bytes:
    """The right syntax with the wrong content, in a sound zip."""
    data = json.loads(members["trace.json"])
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        places = _places(data, [])
        container, key = chance.choice(places)
        _rewrite(chance, container, key, places)
    text = json.dumps(data).encode("utf-8", "surrogatepass")
    if chance.random() < 0.1:
        return text
    return zipped({**members, "trace.json": text})


def _rewrite(chance: random.Random, container: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    value = container[key]
    match chance.randrange(6):
        case 0 | 1:
            container[key] = chance.choice(HOSTILE)(chance)
        case 2:
            del container[key]
        case 3 if isinstance(value, int):
            container[key] = value + chance.choice([-2, -1, 1, 2])
        case 3 | 4:
            other, place = chance.choice(places)
            container[key] = copy.deepcopy(other[place])
        case 5 if isinstance(container, list):
            if chance.random() < 0.5:
                chance.shuffle(container)
            else:
                container.insert(key, copy.deepcopy(value))
        case 5:
            container[str(key) + "_"] = container.pop(key)


# ---------------------------------------------------------------------------------------- zip


def zip_damaged(chance: random.Random, members: dict[str, bytes]) -> bytes:
    """A zip that lies: about names, lengths, methods, places; or that holds what it should not."""
    names = list(members)
    victim = chance.choice(names)
    match chance.randrange(8):
        case 0:
            hostile = ["../../evil.py", "/etc/evil", "a\\..\\b", "con", "x" * 60_000, "trace.json/"]
            return zipped(
                {chance.choice(hostile) if name == victim else name: members[name] for name in names}
            )
        case 1:
            return _twice(zipped(members), members, victim)
        case 2:
            return _bomb(chance, members)
        case 3:
            return zipped({name: members[name] for name in names if name != victim})
        case 4:
            return zipped(dict(zip(names, chance.sample(list(members.values()), len(names)), strict=True)))
        case 5:
            cut = members[victim][: chance.randrange(len(members[victim]) + 1)]
            return zipped({**members, victim: cut + bytes(chance.randrange(9))})
        case 6:
            return _other_method(chance, members)
        case _:
            return _lie(chance, bytearray(zipped(members)))


def _twice(content: bytes, members: dict[str, bytes], victim: str) -> bytes:
    stream = io.BytesIO(content)
    with zipfile.ZipFile(stream, "a") as archive:
        archive.filelist.append(copy.copy(archive.getinfo(victim)))
        archive.writestr(zipfile.ZipInfo("more"), b"")
    return stream.getvalue()


def _bomb(chance: random.Random, members: dict[str, bytes]) -> bytes:
    """A quarter of a gigabyte of brackets, blanks or zeros in a quarter of a megabyte."""
    member = chance.choice(["trace.json", *members])
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            if name != member:
                archive.writestr(zipfile.ZipInfo(name), content)
        archive.filelist.append(_bomb_member(archive, member, chance.choice([b"[", b" ", b"\0", b"[],"])))
    return stream.getvalue()


def _bomb_member(archive: zipfile.ZipFile, name: str, unit: bytes) -> zipfile.ZipInfo:
    packed, crc, size = _packed(unit)
    info = zipfile.ZipInfo(name)
    info.compress_type, info.compress_size, info.file_size, info.CRC = (
        zipfile.ZIP_DEFLATED,
        len(packed),
        size,
        crc,
    )
    stream = archive.fp
    assert stream is not None
    stream.seek(archive.start_dir)
    info.header_offset = stream.tell()
    stream.write(info.FileHeader(zip64=False) + packed)
    archive.start_dir = stream.tell()
    archive._didModify = True  # type: ignore[attr-defined]
    return info


@functools.cache
def _packed(unit: bytes) -> tuple[bytes, int, int]:
    """A list of so much of `unit`, deflated; its checksum and its length."""
    engine = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = unit * ((1 << 20) // len(unit))
    start = engine.compress(b"[") + engine.flush(zlib.Z_FULL_FLUSH)
    once = engine.compress(block) + engine.flush(zlib.Z_FULL_FLUSH)  # which refers to nothing before it
    end = engine.compress(b"0]") + engine.flush()
    crc, size = zlib.crc32(b"["), 1
    for _ in range(256):
        crc, size = zlib.crc32(block, crc), size + len(block)
    return start + once * 256 + end, zlib.crc32(b"0]", crc), size + 2


def _other_method(chance: random.Random, members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            method = chance.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return stream.getvalue()


def _lie(chance: random.Random, content: bytearray) -> bytes:
    """Rewrite one field of one header."""
    signature = chance.choice([b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06"])
    starts = [at for at in range(len(content) - 46) if content.startswith(signature, at)] or [0]
    width = chance.choice([2, 4])
    at = chance.choice(starts) + 4 + 2 * chance.randrange(20)
    value = chance.choice([0, 1, 8, 12, 99, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 20]) & ((1 << 8 * width) - 1)
    content[at : at + width] = struct.pack("<H" if width == 2 else "<I", value)
    return bytes(content)


# -------------------------------------------------------------------------------------- trying


def damaged(seed: int) -> bytes:
    """The file of a seed."""
    chance = random.Random(seed)
    _, members = chance.choice(originals())
    make = chance.choices([bytes_damaged, json_damaged, zip_damaged], [3, 5, 2])[0]
    return make(chance, members)


def show(trace: Trace, seed: int) -> None:
    """All that is made of a trace from a file, short of a browser."""
    chance = random.Random(seed)
    repr(trace)
    format_diagnosis(trace).encode()
    simplify, hide, ignore = (chance.random() < 0.5 for _ in range(3))
    options = Options(simplify_graph=simplify, hide_readonly_arrays=hide, ignore_graph_scopes=ignore)
    options.most_launches = chance.choice([1, 300])
    to_dot(trace, options).encode()
    reduced, _ = reduce_trace(pack(trace).head, redact_source=chance.random() < 0.5)
    json.dumps(reduced, allow_nan=False).encode()
    for content in trace.contents if trace.data else ():
        look = trace.values if content.kind == "value" else trace.adjoints
        assert look(content.array, content.version).sum() is not None


def tried(path: Path, seed: int) -> str:
    """Return `"read"` or `"refused"` for the file of a seed; raise `AssertionError` if something is wrong."""
    path.write_bytes(damaged(seed))
    started = time.process_time()
    try:
        trace = load_trace(path)
        show(trace, seed)
        outcome = "read"
    except TraceError as error:
        assert str(error).startswith(f"{path}: "), error
        assert len(str(error)) < len(str(path)) + 400, error
        outcome = "refused"
    took = time.process_time() - started
    assert took < SECONDS, f"{took:.1f} s"
    return outcome


@contextmanager
def limited(memory: int = MEMORY, seconds: float = 600) -> Iterator[None]:
    """Meanwhile this process gets no more than so much memory on top, and is stopped where it hangs."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"it took more than {seconds} s")

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + memory, before[1]))
    handler = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


def fuzz(first: int, count: int, memory: int = MEMORY) -> Counter[str]:
    """Try the files of `count` seeds; gives how many were read and how many refused.

    Args:
        first: The first seed.
        count: The number of seeds.
        memory: The bytes that all of them may make us use.

    Raises:
        AssertionError: One was neither, took too long, or a file was written; the message names the seed.
    """
    outcomes: Counter[str] = Counter()
    originals()
    for unit in (b"[", b" ", b"\0", b"[],"):
        _packed(unit)
    with tempfile.TemporaryDirectory() as folder, limited(memory):
        here, path = Path.cwd(), Path(folder) / "damaged.tapetrace"
        before = sorted(os.listdir(here))
        for seed in range(first, first + count):
            try:
                outcomes[tried(path, seed)] += 1
            except Exception as error:
                raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
        assert os.listdir(folder) == [path.name]
        assert sorted(os.listdir(here)) == before
    return outcomes


def main(arguments: Any = None) -> int:
    """Try files; gives 1 where one did harm."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=10_000, help="how many files")
    options = parser.parse_args(arguments)
    started = time.perf_counter()
    try:
        outcomes = fuzz(options.first, options.count)
    except AssertionError as error:
        print(error, file=sys.stderr)
        return 1
    took = time.perf_counter() - started
    print(
        f"{options.count:,} damaged files in {took:.0f} s: {outcomes['read']:,} read, "
        f"{outcomes['refused']:,} refused"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
