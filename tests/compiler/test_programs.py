"""Random programs of several launches: values and gradients against plain Python. `make fuzz` tries more."""

from __future__ import annotations

import json
import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler import backend
from tapedebug.compiler.llvm.simd import reductions
from tapedebug.runtime.parallel import partition
from tests.compiler import fuzz, programs
from tests.compiler.program_values import Array, Library, Operations, Unsure, Vector
from tests.compiler.test_generated import FOUND
from tests.sweeps import cases

pytestmark = pytest.mark.filterwarnings("ignore::tapedebug.TapedebugWarning")


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(cases(full=8, sample=5)))
def test_random_programs(seed: int) -> None:
    try:
        programs.check(programs.program(seed))
    except Unsure:
        pytest.skip("a rounding error decides")


@pytest.mark.parametrize("path", sorted(FOUND.glob("program-*.json")), ids=lambda p: p.stem)
def test_programs_that_once_failed(path: Path) -> None:
    """`make fuzz` keeps here what it finds."""
    programs.check(json.loads(path.read_text(encoding="utf-8")))


def test_programs_have_everything() -> None:
    found = [programs.program(seed) for seed in range(0, 6000, 100)]
    steps = [step for one in found for step in one["steps"]]
    assert {step["op"] for step in steps} == {"launch", "copy", "fill", "assign", "clone"}
    ops = [op for step in steps for view in step["views"] for op in view["ops"]]
    assert {op[0] for op in ops} == {"index", "transpose", "reshape", "field", "numbers", "vectors"}
    slices = [one for op in ops if op[0] == "index" for one in op[1] if isinstance(one, list)]
    for step in (-3, -2, -1, 1, 2, 3):
        assert sum(one[2] == step for one in slices) > 5, step
    for key in ("f64", "lanes", "budget", "foreign", "twice"):
        assert 6 < sum(bool(one[key]) for one in found) < 54, key
    assert {one["threads"] for one in found} == {1, 2}
    kernels = {name: one for program in found for name, one in program["kernels"].items()}
    text = "\n".join(one["text"] for one in kernels.values())
    for word in (
        "atomic_add(s",
        "atomic_sub(m",
        "atomic_max(top",
        "b[i].mass",
        "i, j = wp.tid()",
        "wp.cross",
        "a = x if",
        "a = one_of_two_",
        "a, b = b, a",
        "    a = z",
        "a[i]",
        "wp.atomic_add(a, ",
        "held.data[",
        "wp.atomic_add(held.data, ",
    ):
        assert word in text, word
    assert sum(bool(step.get("held")) for step in steps) > 6


def sentinel(patch: pytest.MonkeyPatch) -> None:
    """A sum over lanes is dropped where its place is negative, which was to say that there is none."""
    whole = reductions.Reductions._value

    def value(self: Any, kind: str, text: str) -> Any:
        return whole(self, kind, re.sub(r"^icmp ne i64 (\S+), -1$", r"icmp sge i64 \1, 0", text))

    patch.setattr(reductions, "NOWHERE", "-1")
    patch.setattr(reductions.Reductions, "_value", value)


def stretch(patch: pytest.MonkeyPatch) -> None:
    """Only the adjacent numbers of private copies are added up."""
    whole = partition._Partitioner._part

    def part(self: Any, share: Any) -> Any:
        found = whole(self, share)
        lie = partition.Runs(found.runs.low, found.runs.run, ())
        return partition._Part(found.share, found.before, lie, found.size)

    patch.setattr(partition._Partitioner, "_part", part)


def hunted(fault: Any, first: int, folder: str) -> tuple[int, str]:
    """The first seed from one on that finds a fault, and the program that was kept."""
    fuzz.FOUND, fuzz.SECONDS, wp.config.kernel_cache_dir = Path(folder), 10.0, f"{folder}/cache"
    backend.optimization = 0  # what it hunts is in the code that LLVM gets
    with pytest.MonkeyPatch.context() as patch:
        fault(patch)
        for seed in range(first, first + 20):
            failure = fuzz.tried_program(seed)[1]
            if failure not in ("", fuzz.SKIPPED):
                return seed, fuzz.keep_program(seed, failure)
    raise AssertionError("nothing was found")


@pytest.mark.parametrize("fault, first", [(sentinel, 30), (stretch, 1)])
def test_a_planted_fault_is_found_made_smaller_and_kept(fault: Any, first: int, tmp_path: Path) -> None:
    """In a process of its own, whose compiled code is wrong."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        seed, text = pool.submit(hunted, fault, first, str(tmp_path)).result()
    assert (tmp_path / f"program-{seed}.json").read_text(encoding="utf-8") == text
    kept = json.loads(text)
    assert len(kept["steps"]) < len(programs.program(seed)["steps"])
    assert fuzz.verdict_on(kept) == ""


def test_a_run_says_what_it_tried(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(["--programs", "--count", "3", "--first", "30", "--jobs", "1"]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == "fuzz: programs of seeds 30 to 32"
    assert last.startswith("fuzz: 3 programs in ")


# -- the evaluator ----------------------------------------------------------------------------------------


def test_numbers_know_their_derivatives() -> None:
    """Every operation of the evaluator against differences of itself."""

    def value(x: Any, y: Any) -> Any:
        wp = Library()
        u, v = Vector(x, y, x * 0.5), Vector(y, 1.0 - x, x / y)
        turned = wp.cross(u, v) * wp.tanh(y) - u * 0.3 + (-v)
        much = wp.dot(turned, u) + wp.sqrt(x * x + 2.0) / (1.5 + y) - wp.exp(-x) * (2.0 / y)
        return much + wp.sin(x) * wp.cos(y) + wp.min(x, y) * wp.max(x, y * y) + wp.where(x > y, x, y * 3.0)

    for x, y in np.random.default_rng(0).uniform(0.4, 1.4, (20, 2)):
        of = Operations(close=1e-9)
        a, b = of.number(float(x)), of.number(float(y))
        result = value(a, b)
        found = of.gradient({result.index: 1.0})
        h = 1e-6
        for k, (dx, dy) in enumerate([(h, 0.0), (0.0, h)]):
            sides = [value(of.number(x + s * dx), of.number(y + s * dy)).value for s in (1, -1)]
            assert found[k] == pytest.approx((sides[0] - sides[1]) / (2 * h), rel=1e-6, abs=1e-8)


def test_overwritten_elements_are_other_numbers() -> None:
    of = Operations(close=1e-9)
    cells = np.empty(2, object)
    cells[:] = [of.number(3.0), of.number(5.0)]
    x, y = cells
    view = Array(cells[::-1])
    view[0] = view[0] * view[1]  # the last one: 15
    Library.atomic_add(Array(cells), 0, cells[1] * 2.0)  # 33
    found = of.gradient({cells[0].index: 1.0})
    assert (cells[0].value, cells[1].value) == (33.0, 15.0)
    assert (found[x.index], found[y.index]) == (11.0, 6.0)
    with pytest.raises(Unsure):
        _ = cells[1] > of.number(15.0)
