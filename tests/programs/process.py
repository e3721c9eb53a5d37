"""Runs of programs in processes of their own, and their results as stored data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "build" / "programs" / "kernels"
"""The compiled kernels of Warp: if other programs empty the cache that they share, its compiler ends a program."""
OBJECTS = ROOT / "build" / "programs" / "objects"
"""The compiled kernels of tapedebug, without a limit of their size: other programs do not replace them."""
TIMEOUT = 900.0
"""Seconds after which a program is stopped."""


def result_of(module: str, words: Sequence[str], options: Sequence[str] = ()) -> dict[str, Any]:
    """Run `python -m MODULE WORDS RESULT OPTIONS` in a folder of its own.

    Returns:
        What it writes to the file RESULT as JSON, or the reason for none, by the key `failed`.
    """
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "",
        "WARP_CACHE_PATH": str(KERNELS),
        "TAPEDEBUG_CACHE_DIR": str(OBJECTS),
        "TAPEDEBUG_CACHE_SIZE": "0",
    }
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "result.json")
        try:
            done = subprocess.run(
                [sys.executable, "-m", module, *words, str(result), *options],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"stopped after {TIMEOUT:.0f} s"}
        if done.returncode or not result.exists():
            return {"failed": (done.stderr.strip().splitlines() or ["no result"])[-1]}
        return stored(result)


def stored(path: Path) -> dict[str, Any]:
    """Return the data in a file; empty if there is none."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def store(path: Path, data: Mapping[str, Any]) -> None:
    """Write data to a file, in an order that does not depend on that of the measurements."""
    path.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", encoding="utf-8")
