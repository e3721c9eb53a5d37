"""Masked loads and stores of vector code, in the syntax of each version of LLVM."""

from __future__ import annotations

import re
from dataclasses import replace

import llvmlite.binding as llvm
import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler.llvm.machine import llvm_version
from tapedebug.compiler.llvm.simd import vector_values, vectorize
from tapedebug.compiler.llvm.simd.masked_access import MaskedAccess
from tapedebug.compiler.pipeline import differentiable
from tapedebug.compiler.variant import Variant
from tests.compiler.simd_comparison import compare, is_in_lanes, scalar_functions

OLD, NEW = 21, 22
"""The last major version of LLVM that takes the alignment as an argument, and the first that does not."""

ACCESSES = {
    "load": lambda access: access.load("%p", "%m"),
    "store": lambda access: access.store("%v", "%p", "%m"),
    "gather": lambda access: access.gather("%q", "%m"),
    "scatter": lambda access: access.scatter("%v", "%q", "%m"),
}

TEXTS = {
    ("load", OLD): "call <8 x float> @llvm.masked.load.v8f32.p0"
    "(ptr %p, i32 4, <8 x i1> %m, <8 x float> zeroinitializer)",
    ("load", NEW): "call <8 x float> @llvm.masked.load.v8f32.p0"
    "(ptr align 4 %p, <8 x i1> %m, <8 x float> zeroinitializer)",
    ("store", OLD): "call void @llvm.masked.store.v8f32.p0(<8 x float> %v, ptr %p, i32 4, <8 x i1> %m)",
    ("store", NEW): "call void @llvm.masked.store.v8f32.p0(<8 x float> %v, ptr align 4 %p, <8 x i1> %m)",
    ("gather", OLD): "call <8 x float> @llvm.masked.gather.v8f32.v8p0"
    "(<8 x ptr> %q, i32 4, <8 x i1> %m, <8 x float> zeroinitializer)",
    ("gather", NEW): "call <8 x float> @llvm.masked.gather.v8f32.v8p0"
    "(<8 x ptr> align 4 %q, <8 x i1> %m, <8 x float> zeroinitializer)",
    ("scatter", OLD): "call void @llvm.masked.scatter.v8f32.v8p0"
    "(<8 x float> %v, <8 x ptr> %q, i32 4, <8 x i1> %m)",
    ("scatter", NEW): "call void @llvm.masked.scatter.v8f32.v8p0"
    "(<8 x float> %v, <8 x ptr> align 4 %q, <8 x i1> %m)",
}


@pytest.mark.parametrize(("name", "version"), TEXTS)
def test_the_alignment_is_where_each_version_takes_it(name: str, version: int) -> None:
    assert ACCESSES[name](MaskedAccess("f32", 8, version)) == TEXTS[name, version]


@pytest.mark.parametrize("name", ACCESSES)
@pytest.mark.parametrize("kind", ["f32", "f64", "i16", "i64", "u8"])
def test_the_installed_llvm_parses_it(name: str, kind: str) -> None:
    access = MaskedAccess(kind, 8, llvm_version())
    call = ACCESSES[name](access)
    result = "%r = " if name in ("load", "gather") else ""
    taken = f"ptr %p, <8 x ptr> %q, {access.type} %v, <8 x i1> %m"
    llvm.parse_assembly(f"define void @f({taken}) {{\n  {result}{call}\n  ret void\n}}").verify()


@wp.kernel
def branches(
    x: wp.array(dtype=float),
    which: wp.array(dtype=int),
    count: wp.array(dtype=int),
    y: wp.array(dtype=float),
    total: wp.array(dtype=float),
):
    i = wp.tid()
    a = x[i]
    if a > 0.8:
        a = a * x[which[i]]
    for k in range(count[i]):
        a = a * 0.9 + x[k] * a
    if a > 0.5:
        wp.atomic_add(total, which[i], a)
    else:
        y[i] = a * a


def branching_arguments(n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    x, which = rng.uniform(0.2, 1.4, n), rng.integers(0, n, n).astype(np.int32)
    return [x, which, rng.integers(0, 4, n).astype(np.int32), np.zeros(n), np.zeros(n)]


def test_threads_that_branch_run_in_lanes_with_the_same_numbers() -> None:
    assert is_in_lanes(branches) and is_in_lanes(branches, "adjoint")
    with scalar_functions():
        compare(branches, 75, branching_arguments(75), exact=False)


@wp.kernel
def scattered(x: wp.array(dtype=float), which: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    if x[i] > 0.8:
        y[which[i]] = x[i]


@pytest.mark.parametrize("version", [OLD, NEW])
def test_a_kernel_is_written_for_one_version(monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    monkeypatch.setattr(vector_values, "llvm_version", lambda: version)
    active = differentiable(branches.params)
    adjoint = Variant("adjoint", active, branches.adjoint_info(active).replay, lanes=True)
    forward = Variant("forward", lanes=True)
    found = set()
    for kernel, variant in ((branches, forward), (branches, adjoint), (scattered, forward)):
        source = kernel._text(variant)
        assembly = vectorize.vectorize(source.code, "entry", replace(source.lanes, bits=256))
        for call in re.findall(r"call .*@llvm\.masked\..*", assembly):
            found.add(re.search(r"masked\.(\w+)", call)[1])
            assert bool(re.search(r"ptr>? align \d", call)) == (version == NEW), call
            assert bool(re.search(r"i32 \d+, <\d+ x i1>", call)) == (version == OLD), call
    assert found == set(ACCESSES)
