"""Trace files: a zip with one member, ``trace.json``. Never pickle, never an extracted path."""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
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
    """Return the trace in the file at `path`, as `Trace.save` wrote it. A plain JSON file is read too.

    Raises:
        TraceError: The file is no trace, is damaged, is too large, or is from a newer version; the
            message says which.
        OSError: The file can not be read.
    """
    source = Path(path)
    with source.open("rb") as stream:
        content = stream.read(LIMIT + 1)
    try:
        text = _member(content) if content[:2] == b"PK" else _text(content)
        return trace_from_json(json.loads(text))
    except TraceError as error:
        raise TraceError(f"{source}: {error}") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise TraceError(f"{source}: the JSON is damaged ({error})") from None
    except RecursionError:
        raise TraceError(f"{source}: the JSON is nested too deeply") from None


def _member(content: bytes) -> str:
    """The text of the one member that counts. Nothing is extracted; one that claims gigabytes is cut."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if MEMBER not in archive.namelist():
                raise TraceError(f"this zip holds no {MEMBER}, so it is not a tapedebug trace")
            with archive.open(MEMBER) as member:
                inner = member.read(LIMIT + 1)
    except TraceError:
        raise
    except Exception as error:  # zipfile reports damage as any of a dozen types, OSError and struct.error too
        raise TraceError(f"the zip is damaged ({error})") from None
    return _text(inner)


def _text(content: bytes) -> str:
    if len(content) > LIMIT:
        raise TraceError(f"more than {LIMIT >> 20} MiB; a trace is never that large")
    return content.decode("utf-8")
