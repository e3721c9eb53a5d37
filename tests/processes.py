"""Fresh interpreters for tests: what a process imports can only be seen in a process of its own."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLAIN = sys.platform == "linux" and platform.machine() == "x86_64"
"""True if processes link object code of the cache without LLVM."""


def run_python(code: str, *arguments: str, cache: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run `code` in a new interpreter; `cache` replaces the user's kernel cache."""
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(p for p in (str(ROOT), environment.get("PYTHONPATH")) if p)
    if cache is not None:
        environment["TAPEDEBUG_CACHE_DIR"] = str(cache)
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def modules_after(code: str, *arguments: str, cache: Path | None = None) -> set[str]:
    """The top-level modules that a new interpreter holds after `code`."""
    done = run_python(
        code + "\nimport sys, json\nprint('modules:' + json.dumps(sorted(sys.modules)))",
        *arguments,
        cache=cache,
    )
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    return {name.partition(".")[0] for name in json.loads(last.removeprefix("modules:"))}
