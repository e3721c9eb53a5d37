"""Long functions of LLVM assembly that are split: the same numbers, in functions of a bounded length."""

from __future__ import annotations

import functools
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler import backend, objects
from tapedebug.compiler.llvm import machine, outline
from tapedebug.compiler.llvm.chains import blocks_of, targets
from tapedebug.compiler.llvm.instruction_types import UnknownType, size_of, type_of
from tapedebug.compiler.llvm.outline import has_loops, split_long_functions
from tapedebug.compiler.llvm.simd import vectorize
from tests.benchmarks.compile_growth import loops as looping
from tests.benchmarks.compile_times import ARRAYS, body
from tests.compiler.generator import program
from tests.compiler.simd_comparison import results
from tests.compiler.test_generated import arguments, load
from tests.sweeps import cases


def mixed() -> Any:
    """Return a new kernel whose blocks have gathers, masks, choices, integers and calls."""

    @wp.kernel(module="unique")
    def many(x: wp.array(dtype=wp.vec3), k: wp.array(dtype=int), y: wp.array(dtype=wp.vec3)):
        i = wp.tid()
        a = x[i]
        b = x[k[i] % x.shape[0]]
        c = wp.cross(a, b) + a * wp.sin(b[0])
        if c[0] > 0.0:
            c = c * 2.0
        d = wp.where(k[i] > 2, wp.normalize(c + a), b * float(k[i]))
        e = wp.vec3(wp.sqrt(1.0 + d[0] * d[0]), wp.min(d[1], c[1]), wp.abs(d[2]))
        f = wp.cross(e, c) * wp.dot(d, a) + wp.exp(-wp.length_sq(e)) * b
        y[i] = f + e * wp.dot(f, d)

    return many


def branching() -> Any:
    """Return a new kernel with branches and loops within loops, whose values are used after them."""

    @wp.kernel(module="unique")
    def many(x: wp.array(dtype=wp.vec3), k: wp.array(dtype=int), y: wp.array(dtype=wp.vec3)):
        i = wp.tid()
        a = x[i]
        b = wp.vec3(1.0, 0.5, 0.25)
        for _ in range(k[i] % 4):
            b = b + wp.cross(a, b) * 0.1
            if b[0] > 0.5:
                c = wp.sin(b[1]) * a
                if c[2] > 0.0:
                    b = b - c * 0.5
                else:
                    b = b * 0.75
            length = wp.length(b) + 1.0
            while length > 1.0:
                length = length - 0.5
                a = a + b * length * 0.1
            a = a / (wp.length(a) + 1.0)
        for _ in range(3):
            a = a * 0.5 + wp.cross(b, a) * wp.exp(-wp.length_sq(a))
        y[i] = a + b

    return many


def leaving() -> Any:
    """Return a new kernel with nested loops, of vectors and matrices, that are left in several ways."""

    @wp.kernel(module="unique")
    def many(x: wp.array(dtype=wp.vec3), k: wp.array(dtype=int), y: wp.array(dtype=wp.vec3)):
        i = wp.tid()
        a = x[i]
        m = wp.mat33(1.0, 0.5, 0.0, 0.0, 1.0, 0.25, 0.125, 0.0, 1.0)
        if k[i] == 7:
            y[i] = a
            return
        for p in range(k[i] % 5):
            m = m * 0.5 + wp.outer(a, m @ a) * 0.125
            if m[0, 0] > 1.5:
                break
            for q in range(p):
                a = wp.normalize(m @ a) * 0.75
                if a[1] > 0.5:
                    continue
                a = a + wp.vec3(m[q % 3, 0], 0.0, 0.0)
        b = wp.transpose(m) @ a
        while wp.length(b) > 1.0:
            b = b * 0.75
            if b[2] > 2.0:
                y[i] = b
                return
        for q in range(3):
            for p in range(2):
                m = m + wp.outer(b, a) * float(p - q) * 0.1
            b = m @ b * 0.25
        y[i] = a + m @ b

    return many


def found(
    make: Any,
    length: int,
    part: int,
    monkeypatch: pytest.MonkeyPatch,
    *,
    lanes: bool = True,
    loops: int = 10**9,
    args: list[Any] | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """Return the results of a kernel, and the modules that were split; before optimization with `loops`."""
    split: list[str] = []

    def kept(assembly: str) -> str | None:
        made = split_long_functions(assembly)
        split.extend([made] if made is not None and "@entry" in made else [])
        return made

    with monkeypatch.context() as patched:
        patched.setattr(machine, "UNROLLED", 0)
        patched.setattr(outline, "LOOPS", loops)
        patched.setattr(outline, "LONG", length)
        patched.setattr(outline, "PART", part)
        patched.setattr(outline, "split_long_functions", kept)
        patched.setattr(backend, "cached", lambda key: None)
        patched.setattr(objects, "write", lambda *given: None)
        patched.setattr(objects, "_loaded", {})
        found = results(make(), 37, args or _arguments(), f64=True, lanes=lanes, replay=frozenset())
    return found, split


def _arguments() -> list[Any]:
    rng = np.random.default_rng(2)
    return [rng.normal(size=(37, 3)), rng.integers(0, 30, 37).astype(np.int32), np.zeros((37, 3))]


@pytest.mark.parametrize("lanes", [True, False])
@pytest.mark.parametrize("make", [mixed, branching, leaving])
def test_split_code_gives_the_same_numbers(make: Any, lanes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, none = found(make, 10**9, 400, monkeypatch, lanes=lanes)
    assert not none
    after, split = found(make, 40, 23, monkeypatch, lanes=lanes)
    assert len(split) == 3
    before, split = found(make, 40, 23, monkeypatch, lanes=lanes, loops=1)
    assert len(split) > 3
    assert whole.keys() == before.keys() == after.keys() == {"forward", "adjoint", "tangent"}
    for kind, arrays in whole.items():
        for one, *others in zip(arrays, before[kind], after[kind], strict=True):
            for other in others:
                np.testing.assert_array_equal(one, other, err_msg=kind)


@pytest.mark.parametrize("seed", range(cases(full=40, sample=2)))
def test_long_random_kernels_give_the_same_numbers(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    source = program(seed, 90, crossing=seed % 2 == 1)
    args = arguments(np.random.default_rng(seed), 37)
    for lanes in (False, True):
        give = functools.partial(found, lambda: load(source), monkeypatch=monkeypatch, lanes=lanes, args=args)
        whole, none = give(10**9, 400)
        parts, split = give(60, 30, loops=1)
        assert split and not none
        for kind, arrays in whole.items():
            for one, other in zip(arrays, parts[kind], strict=True):
                np.testing.assert_array_equal(one, other, err_msg=kind)


def test_bodies_of_loops_are_split_within_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    _, split = found(branching, 40, 23, monkeypatch)
    assert all("%td0.1.frame = alloca" in each for each in split)


KERNEL = """import tapedebug as wp

@wp.kernel
def kernel({arrays}, s: float):
    i = wp.tid()
{body}
"""
ALL = frozenset(range(3))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("forward", {"lanes": True}),
        ("adjoint", {"active": ALL}),
        ("adjoint", {"active": ALL, "lanes": True}),
        ("tangent", {"active": ALL, "lanes": True, "f64": True}),
    ],
)
def test_functions_do_not_grow_with_a_kernel(
    kind: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three times the statements with branches are three times as many functions, none of them longer."""
    monkeypatch.setattr(outline, "LONG", 300)
    monkeypatch.setattr(outline, "PART", 60)
    monkeypatch.setattr(vectorize, "TWICE", 0)  # else a short kernel has its statements twice
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))
    counts = []
    for lines in (40, 120):
        lengths: list[int] = []

        def kept(assembly: str, lengths: list[int] = lengths) -> str | None:
            made = split_long_functions(assembly)
            lengths += lengths_of(assembly if made is None else made)
            return made

        monkeypatch.setattr(outline, "split_long_functions", kept)
        path = tmp_path / f"kernel_{lines}.py"
        path.write_text(KERNEL.format(arrays=ARRAYS, body=body(lines)), encoding="utf-8")
        getattr(runpy.run_path(str(path))["kernel"], kind)(**options)
        counts.append((len(lengths), max(lengths), sum(lengths)))
    (few, short, small), (many, long, large) = counts
    assert 2.4 < many / few < 3.6
    assert long < 1.6 * short
    assert large / small < 3.6


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("forward", {}),
        ("forward", {"lanes": True}),
        ("adjoint", {"active": ALL}),
        ("adjoint", {"active": ALL, "lanes": True}),
        ("tangent", {"active": ALL, "f64": True}),
    ],
)
def test_functions_that_are_optimized_do_not_grow_with_loops(
    kind: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three times the loops are three times as many functions, with no more lines or loops in any of them."""
    monkeypatch.setattr(machine, "UNROLLED", 0)
    monkeypatch.setattr(outline, "LONG", 300)
    monkeypatch.setattr(outline, "PART", 200)
    monkeypatch.setattr(vectorize, "TWICE", 0)
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))
    seen: list[str] = []
    monkeypatch.setattr(machine, "_optimize", lambda module, **options: seen.append(str(module)))
    counts = []
    for loops in (20, 60):
        path = tmp_path / f"kernel_{loops}.py"
        path.write_text(KERNEL.format(arrays=ARRAYS, body=looping(loops)), encoding="utf-8")
        getattr(runpy.run_path(str(path))["kernel"], kind)(**options)
        functions = re.findall(r"(?ms)^define .*?^}", seen.pop())
        counts.append((len(functions), max(map(len, functions)), max(map(loops_of, functions))))
    (few, short, least), (many, long, most) = counts
    assert 2.4 < many / few < 3.6
    assert long < 1.6 * short
    assert most <= least < 20


def loops_of(function: str) -> int:
    """Return the number of branches of a function that lead backward."""
    chain = function.split("\n")
    blocks = blocks_of(chain)
    starts = {block.name: block.start for block in blocks}
    return sum(starts[to] <= block.start for block in blocks for to in targets(chain, block))


def test_kernels_with_few_loops_are_optimized_whole() -> None:
    loop = "define void @f() {{\n{}\n}}"
    blocks = "a{0}:\n  br i1 %c, label %a{0}, label %b{0}\nb{0}:\n  br label %c{0}\nc{0}:"
    body = [blocks.format(n) for n in range(outline.LOOPS)]
    assert has_loops(loop.format("\n".join(body)), outline.LOOPS)
    assert not has_loops(loop.format("\n".join(body[1:])), outline.LOOPS)
    halves = "\n".join(loop.format("\n".join(body[n:][:9])) for n in (0, 5))
    assert not has_loops(halves, outline.LOOPS)


def lengths_of(assembly: str) -> list[int]:
    """Return the number of lines of each function of a module."""
    return [text.count("\n") for text in re.findall(r"(?ms)^define .*?^}", assembly)]


TYPES = {
    "fmul fast <8 x double> %a, %b": "<8 x double>",
    "fneg float %a": "float",
    "icmp slt <4 x i32> %a, %b": "<4 x i1>",
    "icmp samesign ult i64 %a, %b": "i1",
    "fcmp ogt double %a, %b": "i1",
    "zext nneg <8 x i32> %a to <8 x i64>": "<8 x i64>",
    "load <8 x float>, ptr %p, align 4": "<8 x float>",
    "select <8 x i1> %m, <8 x double> %a, <8 x double> zeroinitializer": "<8 x double>",
    "extractelement <8 x float> %a, i64 0": "float",
    "insertelement <8 x float> poison, float %a, i64 0": "<8 x float>",
    "shufflevector <4 x float> %a, <4 x float> %b, <8 x i32> <i32 0, i32 1>": "<8 x float>",
    "getelementptr inbounds nuw i8, ptr %p, i64 16": "ptr",
    "getelementptr double, ptr %p, <8 x i64> %i": "<8 x ptr>",
    "tail call fastcc noundef <8 x double> @f(<8 x double> %a)": "<8 x double>",
    "call i32 @g()": "i32",
    "tail call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %a, i64 8)": "{ i64, i1 }",
    "extractvalue { i64, i1 } %a, 1": "i1",
    "insertvalue { i64, <8 x float> } %a, i64 %b, 0": "{ i64, <8 x float> }",
    "alloca [2 x i64], align 8": "ptr",
}


@pytest.mark.parametrize("text", TYPES)
def test_types_of_instructions(text: str) -> None:
    assert type_of(text) == TYPES[text]


@pytest.mark.parametrize("text", ["landingpad { ptr, i32 }", "fence"])
def test_unknown_instructions_are_not_moved(text: str) -> None:
    with pytest.raises(UnknownType):
        type_of(text)


def test_places_are_powers_of_two() -> None:
    kinds = ["i1", "<8 x i1>", "float", "<3 x float>", "<8 x double>", "ptr", "<8 x ptr>", "i64"]
    kinds += ["{ i64, i1 }", "{ i1, <16 x float>, i1 }"]
    assert [size_of(kind) for kind in kinds] == [1, 1, 4, 16, 64, 8, 64, 8, 16, 256]


def test_what_cannot_be_split_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outline, "LONG", 8)
    monkeypatch.setattr(outline, "PART", 4)
    chain = [f"  %v{n + 1} = fadd double %v{n}, 1.0" for n in range(20)]
    make = functools.partial(module_of, chain)
    assert split_long_functions(make()) is not None
    assert split_long_functions(make(more='attributes #0 = { "alloc-family"="malloc" }')) is not None
    assert split_long_functions(make(more='attributes #0 = { "target-cpu"="x" }', marks=" #0")) is None
    unknown = ["  %w = cmpxchg ptr null, i32 0, i32 1 monotonic monotonic"]
    assert (
        split_long_functions(module_of([*unknown, *chain, "  %x = extractvalue { i32, i1 } %w, 0"])) is None
    )
    assert split_long_functions(make().replace("  ret ", "  resume ")) is None
    assert split_long_functions(module_of(chain[:5])) is None
    monkeypatch.setattr(outline, "FRAME", 7)
    assert split_long_functions(make()) is None


def test_memory_of_a_function_stays_in_its_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outline, "LONG", 8)
    monkeypatch.setattr(outline, "PART", 4)
    chain = [f"  %v{n + 1} = fadd double %v{n}, 1.0" for n in range(20)]
    split = split_long_functions(module_of(chain, within="  %s = alloca double, align 8"))
    assert split is not None
    *parts, whole = re.findall(r"(?ms)^define .*?^}", split)
    assert "%s = alloca" in whole
    assert not any("alloca" in part for part in parts)


def module_of(
    chain: list[str], within: str = "  %s = fadd double %v0, 2.0", more: str = "", marks: str = ""
) -> str:
    last = len(chain)
    lines = [f"define double @f(double %v0){marks} {{", "start:", *chain[:3], within, *chain[3:]]
    return "\n".join([*lines, f"  ret double %v{last}", "}", "", more])
