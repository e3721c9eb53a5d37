"""Tries thousands of random kernels and programs: `python -m tests.compiler.fuzz [--count N] [--first SEED]`.

Each seed is a kernel; by turns it is plain, has threads that see what others wrote, functions with gradients
of their own, or both. Values are compared with plain Python, adjoints with its differences, tangents with the
adjoints; every fourth also in second derivatives, every fiftieth as machine code, every tenth in lanes beside
thread by thread, for each width of vectors, and every tenth in chunks, for several numbers of threads, with
guard bytes around private memory. The arrays of every second ten are reversed, strided, transposed and
offset, between guard bytes. One that fails is made smaller as long as it fails the same way, and kept in
`found/`, where `test_generated.py` picks it up.

With `--operations`, each seed is a chain of operations of the rule table on one scalar type
(`generator_operations.py`), compared with NumPy; every eighth also in second derivatives, every tenth as
machine code. One that fails is printed, cut off after the operation that makes it fail.

With `--programs`, each seed is a program of several launches (`programs.py`), whose values and gradients are
compared with those of plain Python; `test_programs.py` picks up what is found.
"""

from __future__ import annotations

import argparse
import ast
import json
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from tapedebug.compiler import pipeline
from tests.compiler import parallel_comparison, programs
from tests.compiler.generator import program
from tests.compiler.generator_operations import Program
from tests.compiler.harness import laid_out
from tests.compiler.program_values import Unsure
from tests.compiler.simd_comparison import SIZES as SIZES_IN_LANES
from tests.compiler.simd_comparison import WIDTHS, compare, scalar_functions
from tests.compiler.test_generated import FOUND, MODES, IllConditioned, Trial, arguments
from tests.compiler.test_operations import Chain
from tests.runtime.guards import Blocks

SIZES = (6, 9, 12, 15)
LONGEST = 30  # seconds of processor time for one program
SECONDS = 60.0  # to make a failing program smaller
SKIPPED = "ill-conditioned"
OPERATIONS = 8  # of one chain


def how(seed: int) -> dict[str, bool]:
    """The mode of a seed."""
    return {mode: bool(seed >> bit & 1) for bit, mode in enumerate(MODES)}


def is_laid_out(seed: int) -> bool:
    """Return whether the arrays of a seed are reversed, strided, transposed and offset."""
    return seed // 10 % 2 == 1


def source_of(seed: int) -> str:
    """The program of a seed."""
    return program(seed, SIZES[seed // 4 % 4], crossing=how(seed)["crossing"])


def verdict(seed: int, source: str) -> str:
    """Nothing where a program is right, else how it fails in one line."""
    try:
        with warnings.catch_warnings(), limited(), laid_out(seed) if is_laid_out(seed) else nullcontext():
            warnings.simplefilter("ignore")
            trial = Trial(source, seed, **how(seed))
            trial.check(interpreted=seed % 50 != 0)
            if seed // 16 % 4 == 0:
                trial.second()
            if seed % 10 == 0:
                both_ways(trial.kernel, seed)
            if seed % 10 == 5:
                in_chunks(trial.kernel, seed)
    except IllConditioned:
        return SKIPPED
    except Exception as error:  # whatever a random program brings to light
        text = " ".join(str(error).split()) or repr(error)
        return f"{type(error).__name__}: {text[:300]}"
    return ""


def both_ways(kernel: Any, seed: int) -> None:
    """Run a kernel in lanes, and thread by thread."""
    n = SIZES_IN_LANES[seed // 30 % len(SIZES_IN_LANES)]
    width = patch.object(pipeline, "vector_bits", lambda: WIDTHS[seed // 10 % len(WIDTHS)])
    with tempfile.TemporaryDirectory() as cache, scalar_functions(Path(cache)), width:
        for runs in (False, True):
            compare(kernel, n, arguments(np.random.default_rng(seed), n, runs=runs), exact=False)


def in_chunks(kernel: Any, seed: int) -> None:
    """Run a kernel in chunks on several threads, and thread by thread."""
    n = 256 + seed % 200
    with parallel_comparison.always_cut(), Blocks():
        parallel_comparison.compare(kernel, n, arguments(np.random.default_rng(seed), n), seed)


@contextmanager
def limited() -> Iterator[None]:
    """A program that loses the statement which ends a loop is stopped."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"it took more than {LONGEST} s of processor time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def tried(seed: int) -> tuple[int, str]:
    """A seed and the verdict on its program."""
    return seed, verdict(seed, source_of(seed))


def smaller(seed: int, source: str, failure: str) -> str:
    """The program without the statements that the failure does not need."""
    kind, end = failure.partition(":")[0], time.monotonic() + SECONDS
    again = True
    while again:
        again = False
        for number in range(len(_statements(ast.parse(source)))):
            candidate = _without(source, number) if time.monotonic() < end else None
            if candidate and verdict(seed, candidate).partition(":")[0] == kind:
                source, again = candidate, True
                break
    return source


def _statements(tree: ast.Module) -> list[tuple[list[ast.stmt], int]]:
    """Every statement inside a function, outer ones first: the list that it stands in, and where."""
    found = []
    for node in ast.walk(tree):
        for name in ("body", "orelse"):
            body = getattr(node, name, None)
            if isinstance(body, list) and not isinstance(node, ast.Module):
                found += [(body, k) for k in range(len(body))]
    return found


def _without(source: str, number: int) -> str | None:
    tree = ast.parse(source)
    body, place = _statements(tree)[number]
    if isinstance(body[place], ast.Pass):
        return None
    body[place : place + 1] = [] if len(body) > 1 else [ast.Pass()]
    return ast.unparse(tree) + "\n"


def keep(seed: int, failure: str) -> str:
    """Keep a failing program as a case; gives its text."""
    source = smaller(seed, source_of(seed), failure)
    words = [mode for mode, on in how(seed).items() if on]
    text = f"# seed {seed} {' '.join(words)}\n{source}"
    FOUND.mkdir(exist_ok=True)
    (FOUND / f"{'-'.join([str(seed), *words])}.txt").write_text(text, encoding="utf-8")
    return text


def tried_program(seed: int) -> tuple[int, str]:
    """A seed and the verdict on its program of launches."""
    return seed, verdict_on(programs.program(seed))


def verdict_on(program: Any) -> str:
    """Nothing where a program of launches is right, else how it fails in one line."""
    try:
        with warnings.catch_warnings(), limited():
            warnings.simplefilter("ignore")
            programs.check(program)
    except Unsure:
        return SKIPPED
    except Exception as error:  # whatever a random program brings to light
        text = " ".join(str(error).split()) or repr(error)
        return f"{type(error).__name__}: {text[:300]}"
    return ""


def tried_operations(seed: int, size: int = OPERATIONS) -> tuple[int, str]:
    """A seed and the verdict on its chain of operations."""
    try:
        with warnings.catch_warnings(), limited(), laid_out(seed) if is_laid_out(seed) else nullcontext():
            warnings.simplefilter("ignore")
            chain = Chain(seed, size)
            chain.check(interpreted=True)
            if seed % 8 == 0:
                chain.second()
            if seed % 10 == 0:
                chain.compiled()
    except IllConditioned:
        return seed, SKIPPED
    except Exception as error:  # whatever a random program brings to light
        text = " ".join(str(error).split()) or repr(error)
        return seed, f"{type(error).__name__}: {text[:300]}"
    return seed, ""


def shortest_operations(seed: int, failure: str) -> str:
    """The shortest beginning of a chain that fails in the same way."""
    kind = failure.partition(":")[0]
    sizes = range(1, OPERATIONS)
    size = next((n for n in sizes if tried_operations(seed, n)[1].startswith(kind)), OPERATIONS)
    return f"# python -m tests.compiler.generator_operations {seed} {size}\n{Program(seed, size).text}"


def keep_program(seed: int, failure: str) -> str:
    """Keep a failing program of launches as a case, without what it does not need; gives its text."""
    program, kind, end = programs.program(seed), failure.partition(":")[0], time.monotonic() + SECONDS
    again = True
    while again and time.monotonic() < end:
        again = False
        for candidate in programs.smaller(program):
            if verdict_on(candidate).partition(":")[0] == kind:
                program, again = candidate, True
                break
    text = json.dumps(program, indent=1) + "\n"
    FOUND.mkdir(exist_ok=True)
    (FOUND / f"program-{seed}.json").write_text(text, encoding="utf-8")
    return text


def main(arguments: Any = None) -> int:
    """Try kernels or programs; gives 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, help="how many: 5,000, or 1,000 programs")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--programs", action="store_true", help="programs of several launches")
    chosen.add_argument("--operations", action="store_true", help="chains of all operations")
    options = parser.parse_args(arguments)
    if options.count is None:
        options.count = 1000 if options.programs or options.operations else 5000
    attempt, kept, what = tried, keep, "kernels"
    if options.programs:
        attempt, kept, what = tried_program, keep_program, "programs"
    if options.operations:
        attempt, kept, what = tried_operations, shortest_operations, "chains of operations"
    seeds = range(options.first, options.first + options.count)
    print(f"fuzz: {what} of seeds {seeds.start} to {seeds.stop - 1}", flush=True)
    counts: Counter[str] = Counter()
    begin = shown = time.monotonic()
    with ProcessPoolExecutor(options.jobs) as pool:
        for seed, failure in pool.map(attempt, seeds, chunksize=8):
            counts[failure if failure in ("", SKIPPED) else "wrong"] += 1
            if failure not in ("", SKIPPED):
                mode = f" {how(seed)}" if attempt is tried else ""
                print(f"=== seed {seed}{mode}: {failure}", flush=True)
                print(kept(seed, failure), flush=True)
            if time.monotonic() - shown > 10:
                shown = time.monotonic()
                print(f"fuzz: {counts.total()} of {options.count}, {counts['wrong']} wrong", flush=True)
    print(
        f"fuzz: {counts.total()} {what} in {time.monotonic() - begin:.0f} s: {counts['wrong']} wrong, "
        f"{counts[SKIPPED]} {SKIPPED}"
    )
    return int(counts["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
