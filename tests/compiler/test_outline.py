"""Long blocks of LLVM assembly that are split into functions: the same numbers, to the last bit."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler import backend, objects
from tapedebug.compiler.llvm import outline
from tapedebug.compiler.llvm.outline import Unsplittable, _size, _type_of, split_long_blocks
from tests.compiler.simd_comparison import results


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


def found(length: int, part: int, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], int]:
    """Return the results of the kernel in lanes, and the number of modules that were split."""
    split: list[bool] = []

    def counted(assembly: str) -> str | None:
        made = split_long_blocks(assembly)
        split.extend([True] * (made is not None))
        return made

    with monkeypatch.context() as patched:
        patched.setattr(outline, "LONG", length)
        patched.setattr(outline, "PART", part)
        patched.setattr(outline, "split_long_blocks", counted)
        patched.setattr(backend, "cached", lambda key: None)
        patched.setattr(objects, "write", lambda *given: None)
        patched.setattr(objects, "_loaded", {})
        rng = np.random.default_rng(2)
        args = [rng.normal(size=(37, 3)), rng.integers(0, 30, 37).astype(np.int32), np.zeros((37, 3))]
        found = results(mixed(), 37, args, f64=True, lanes=True, replay=frozenset())
    return found, len(split)


def test_split_code_gives_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, none = found(10**9, 400, monkeypatch)
    assert none == 0
    parts, count = found(40, 23, monkeypatch)
    assert count == 3
    assert whole.keys() == parts.keys() == {"forward", "adjoint", "tangent"}
    for kind, arrays in whole.items():
        for one, other in zip(arrays, parts[kind], strict=True):
            np.testing.assert_array_equal(one, other, err_msg=kind)


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
}


@pytest.mark.parametrize("text", TYPES)
def test_types_of_instructions(text: str) -> None:
    assert _type_of(text) == TYPES[text]


@pytest.mark.parametrize("text", ["extractvalue { i32, i1 } %a, 0", "landingpad { ptr, i32 }", "fence"])
def test_unknown_instructions_are_not_moved(text: str) -> None:
    with pytest.raises(Unsplittable):
        _type_of(text)


def test_places_are_powers_of_two() -> None:
    kinds = ["i1", "<8 x i1>", "float", "<3 x float>", "<8 x double>", "ptr", "<8 x ptr>", "i64"]
    assert [_size(kind) for kind in kinds] == [1, 1, 4, 16, 64, 8, 64, 8]


def test_what_cannot_be_split_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outline, "LONG", 8)
    monkeypatch.setattr(outline, "PART", 4)
    chain = [f"  %v{n + 1} = fadd double %v{n}, 1.0" for n in range(20)]
    make = functools.partial(module_of, chain)
    assert split_long_blocks(make()) is not None
    assert split_long_blocks(make(more='attributes #0 = { "target-cpu"="x" }')) is None
    assert split_long_blocks(make(within="  %s = alloca double, align 8")) is None
    assert split_long_blocks(make(within="  %s = fadd double %elsewhere, 1.0")) is None
    monkeypatch.setattr(outline, "FRAME", 8)
    assert split_long_blocks(make()) is None
    assert split_long_blocks(module_of(chain[:5])) is None


def module_of(chain: list[str], within: str = "  %s = fadd double %v0, 2.0", more: str = "") -> str:
    last = len(chain)
    lines = ["define double @f(double %v0) {", "start:", *chain[:3], within, *chain[3:]]
    return "\n".join([*lines, f"  ret double %v{last}", "}", "", more])
