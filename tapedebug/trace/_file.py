"""Trace files: a zip with one member, ``trace.json``. Never pickle, never an extracted path."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from tapedebug.trace._json import TraceError, trace_from_json

if TYPE_CHECKING:
    from tapedebug.trace.model import Trace

MEMBER = "trace.json"
# A zip of a few kilobytes can claim gigabytes. 100,000 launches of the net take about 90 MB as text.
LIMIT = 1 << 30


def save_trace(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write `trace` to `path`. The file appears complete or not at all.

    Raises:
        OSError: The file can not be written.
    """
    target = Path(path)
    text = json.dumps(trace.to_json(), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(MEMBER, text)
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp made it private; a saved trace is an ordinary file
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def load_trace(path: str | os.PathLike[str]) -> Trace:
    """Return the trace in the file at `path`, as [`Trace.save`][] wrote it. A plain JSON file is read too.

    Raises:
        TraceError: The file is no trace, is damaged, is too large, or is from a newer version; the message says which.
        OSError: The file can not be read.
    """
    source = Path(path)
    with source.open("rb") as stream:
        start = stream.read(4)
    try:
        text = _read_member(source) if start[:2] == b"PK" else _read_plain(source)
        data = json.loads(text)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise TraceError(f"{source}: the zip is damaged ({error})") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise TraceError(f"{source}: the JSON is damaged ({error})") from None
    except RecursionError:
        raise TraceError(f"{source}: the JSON is nested too deeply") from None
    try:
        return trace_from_json(data)
    except TraceError as error:
        raise TraceError(f"{source}: {error}") from None


def _read_member(source: Path) -> str:
    with zipfile.ZipFile(source) as archive:
        if MEMBER not in archive.namelist():
            raise TraceError(f"{source}: this zip holds no {MEMBER}, so it is not a tapedebug trace")
        with archive.open(MEMBER) as member:
            content = member.read(LIMIT + 1)
    return _checked(source, content)


def _read_plain(source: Path) -> str:
    with source.open("rb") as stream:
        content = stream.read(LIMIT + 1)
    return _checked(source, content)


def _checked(source: Path, content: bytes) -> str:
    if len(content) > LIMIT:
        raise TraceError(f"{source}: more than {LIMIT >> 20} MiB of JSON; a trace is never that large")
    return content.decode("utf-8")
