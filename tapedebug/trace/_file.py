"""Trace files: a zip of ``trace.json`` and raw arrays. Never pickle, never an extracted path.

Whatever the file claims, reading it takes memory proportional to its length: ``trace.json`` is not inflated
beyond `RATIO` times its size in the file, and arrays are not compressed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import numpy as np

from tapedebug._atomic import written_whole
from tapedebug._errors import TapedebugError
from tapedebug._gc_pause import gc_paused
from tapedebug.trace._decode import TraceError, describe, shortened
from tapedebug.trace.json_codec import trace_from_json

if TYPE_CHECKING:
    from tapedebug.trace.model import Content, Trace

MEMBER = "trace.json"
LIMIT = 1 << 30
"""Largest number of bytes of JSON. 100,000 launches of the net take about 90 MB."""
RATIO = 100
"""Largest compression ratio of ``trace.json``; that of time loops is about 20."""
SMALL = 1 << 20
"""Bytes of JSON that are inflated at any ratio."""
DTYPES = frozenset(
    {"|b1", "|i1", "|u1"} | {f"<{kind}{size}" for kind in "iu" for size in (2, 4, 8)} | {"<f2", "<f4", "<f8"}
)
"""Data types of arrays in a file: always little-endian."""


class MissingTraceError(TapedebugError, FileNotFoundError):
    """There is no file at the path of a trace.

    Args:
        path: The path.
    """

    def __init__(self, path: Path) -> None:
        parts = ["`trace.save(path)` and `tapedebug run --trace PATH` write such a file"]
        with contextlib.suppress(OSError):
            from difflib import get_close_matches

            near = get_close_matches(path.name, os.listdir(path.parent), n=1)
            if near:
                parts.insert(0, f"did you mean {str(path.with_name(near[0]))!r}?")
            elif not path.is_absolute():
                parts.insert(0, f"a relative path starts at {Path.cwd()};")
        super().__init__(f"the trace file {path} does not exist", hint=" ".join(parts))
        self.errno, self.strerror, self.filename = errno.ENOENT, os.strerror(errno.ENOENT), str(path)


def save_trace(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write `trace` to `path`. The file appears complete or not at all.

    Raises:
        OSError: The file cannot be written.
    """
    stored = [item for item in trace.contents if item.member in trace.data]
    with gc_paused():
        data = trace.to_json()
        if "contents" in data:
            data["contents"] = [item for item in data["contents"] if item["member"] in trace.data]
        text = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    # A lone surrogate, as in a file name that is not UTF-8, cannot be written.
    encoded = text.encode("utf-8", "replace")
    with written_whole(Path(path)) as stream:
        for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
            stream.seek(0)
            stream.truncate()
            with zipfile.ZipFile(stream, "w") as archive:
                archive.writestr(MEMBER, encoded, method)
                for item in stored:
                    archive.writestr(item.member, trace.data[item.member].tobytes(), zipfile.ZIP_STORED)
            if len(encoded) <= _most(archive.getinfo(MEMBER)):
                break  # otherwise it is so small that readers would reject it as a zip bomb


def load_trace(path: str | os.PathLike[str]) -> Trace:
    """Return the trace in the file at `path`, as `Trace.save` wrote it. A plain JSON file is read too.

    Raises:
        TraceError: The file is not a trace, is damaged, is too large, or is from a newer version; the
            message names the reason.
        FileNotFoundError: There is no such file; the hint names a file with a similar name.
        OSError: The file cannot be read.
    """
    source = Path(path)
    try:
        opened = source.open("rb")
    except FileNotFoundError:
        raise MissingTraceError(source) from None
    with opened as stream:
        try:
            if stream.read(2) == b"PK":
                return _from_zip(stream)
            stream.seek(0)
            return trace_from_json(_json(_up_to_the_limit(stream)))
        except TraceError as error:
            raise TraceError(f"{source}: {error}") from None


def _up_to_the_limit(stream: BinaryIO) -> bytes:
    """Return all bytes of a stream, or more than the limit; one large read would allocate them at once."""
    content = bytearray()
    while len(content) <= LIMIT and (more := stream.read(SMALL)):
        content += more
    return bytes(content)


def _from_zip(stream: BinaryIO) -> Trace:
    try:
        with zipfile.ZipFile(stream) as archive:
            members = _members(archive)
            trace = trace_from_json(_json(_inflated(archive, members[MEMBER])))
            _read_arrays(archive, members, trace, stream.seek(0, os.SEEK_END))
            return trace
    except (TraceError, MemoryError):
        raise
    except Exception as error:  # zipfile raises a dozen types for damage, also OSError and struct.error
        raise TraceError(f"the zip is damaged ({shortened(str(error))})") from None


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the members of the zip by name. Names are compared and never used as paths."""
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        if info.filename in members:
            raise TraceError(f"the zip holds {describe(info.filename)} twice")
        members[info.filename] = info
    if MEMBER not in members:
        raise TraceError(f"this zip holds no {MEMBER}, so it is not a tapedebug trace")
    return members


def _most(info: zipfile.ZipInfo) -> int:
    """Return the number of bytes that a member may inflate to."""
    return min(LIMIT, max(SMALL, RATIO * info.compress_size))


def _inflated(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise TraceError(
            f"{MEMBER} is packed in a way that traces do not use (zip method {info.compress_type})"
        )
    most = _most(info)
    if info.file_size > most:
        raise TraceError(
            f"{MEMBER} claims to be {info.file_size:,} bytes long, packed into {info.compress_size:,}; "
            f"at most {most:,} are read of that"
        )
    with archive.open(info) as member:
        return member.read(info.file_size + 1)


def _json(content: bytes) -> Any:
    if len(content) > LIMIT:
        raise TraceError(f"more than {LIMIT >> 20} MiB of JSON; a trace is never that large")
    try:
        with gc_paused():
            return json.loads(content.decode("utf-8"), parse_constant=_no_constant)
    except TraceError:
        raise
    except ValueError as error:  # also for a number with thousands of digits
        raise TraceError(f"the JSON is damaged ({error})") from None
    except RecursionError:
        raise TraceError("the JSON is nested too deeply") from None


def _no_constant(name: str) -> NoReturn:
    raise TraceError(f"the JSON is damaged ({name} is no JSON; traces write it as text)")


# -------------------------------------------------------------------------------------- arrays


def _read_arrays(
    archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], trace: Trace, file_size: int
) -> None:
    left = file_size  # members with false offsets could refer to the same bytes of the file many times
    for number, content in enumerate(trace.contents):
        info = members.get(content.member)
        path = f"contents[{number}]"
        if info is None:
            raise TraceError(f"{path}.member: the zip holds no {describe(content.member)}")
        expected = _size_of(content, path)
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != expected:
            raise TraceError(
                f"{path}: {describe(content.member)} is {info.file_size:,} bytes long in the zip; "
                f"{expected:,}, not packed, were expected"
            )
        left -= expected
        if left < 0:
            raise TraceError(f"{path}: arrays overlap in the zip, which is shorter than they are together")
        with archive.open(info) as member:
            values = np.frombuffer(member.read(expected), content.dtype)
        trace.data[content.member] = values.reshape(content.shape)


def _size_of(content: Content, path: str) -> int:
    """Return the size of an array in bytes, from its description, in integers that cannot overflow."""
    if content.dtype not in DTYPES:
        raise TraceError(f"{path}.dtype: {describe(content.dtype)} is none of {', '.join(sorted(DTYPES))}")
    return math.prod(content.shape) * np.dtype(content.dtype).itemsize
