"""The linker of plain object code: the same results as LLVM's, and what it leaves to LLVM."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler import linker, objects
from tapedebug.compiler.effects import differentiable
from tapedebug.compiler.llvm.machine import object_code
from tests.processes import PLAIN

pytestmark = pytest.mark.skipif(not PLAIN, reason="LLVM links all object code of this platform")

CALL = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)


def call(address: int | None, value: float) -> float:
    assert address is not None
    return float(CALL(address)(value))


def assembly(body: str, *declarations: str) -> str:
    lines = [*declarations, "define double @entry(double %x) {", *body.strip().splitlines(), "}"]
    return "\n".join(lines) + "\n"


@wp.kernel
def branches(x: wp.array(dtype=wp.vec3), y: wp.array(dtype=wp.vec3), n: int, s: float):
    i = wp.tid()
    v = x[i] * s + wp.vec3(0.1, 0.2, 0.3)
    for _ in range(n):
        if wp.length(v) > 1.5:
            v = wp.normalize(v) * wp.cos(v[0]) - wp.cross(v, x[i]) * 0.125
        else:
            v = v + wp.vec3(wp.sin(v[1]), wp.pow(wp.abs(v[2]), 1.25), wp.atan2(v[0], v[2]))
    y[i] = v


def results() -> tuple[np.ndarray, np.ndarray]:
    values = np.random.default_rng(1).normal(size=(37, 3)).astype(np.float32)
    x = wp.array(values, dtype=wp.vec3, requires_grad=True)
    y = wp.zeros(37, dtype=wp.vec3, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(branches, dim=37, inputs=[x, y, 6, 0.75])
    tape.backward(grads={y: wp.ones(37, dtype=wp.vec3)})
    return y.numpy().copy(), x.grad.numpy().copy()


def test_results_are_those_of_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    plain: list[int | None] = []
    link = linker.linked

    def noted(code: bytes, symbol: str) -> int | None:
        plain.append(link(code, symbol))
        return plain[-1]

    def anew() -> tuple[np.ndarray, np.ndarray]:
        monkeypatch.setattr(objects, "_loaded", {})
        branches.renew()
        return results()

    monkeypatch.setattr(linker, "linked", noted)
    ours = anew()
    assert len(plain) >= 2 and None not in plain
    monkeypatch.setattr(linker, "linked", lambda code, symbol: None)
    theirs = anew()
    assert (
        branches.forward().address not in plain
        and branches.adjoint(differentiable(branches.params)).address not in plain
    )
    for one, other in zip(ours, theirs, strict=True):
        assert np.array_equal(one, other) and np.isfinite(one).all() and np.ptp(one) > 0.1


def test_constants_and_functions_of_the_c_library() -> None:
    code = object_code(
        assembly(
            """
            %sine = call double @sin(double %x)
            %at = fptosi double %x to i64
            %place = getelementptr [3 x double], ptr @table, i64 0, i64 %at
            %constant = load double, ptr %place
            %result = fmul double %sine, %constant
            ret double %result
            """,
            "declare double @sin(double)",
            "@table = internal constant [3 x double] [double 2.0, double 3.0, double 5.5]",
        )
    )
    assert call(linker.linked(code, "entry"), 2.0) == pytest.approx(5.5 * np.sin(2.0), rel=1e-15)


def test_names_that_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "%r = call double @given_by_a_test(double %x)\nret double %r"
    code = object_code(assembly(body, "declare double @given_by_a_test(double)"))
    assert linker.linked(code, "entry") is None
    twice = CALL(lambda x: 2 * x)
    monkeypatch.setattr(linker, "_given", {})
    linker.give("given_by_a_test", ctypes.cast(twice, ctypes.c_void_p).value or 0)
    assert call(linker.linked(code, "entry"), 21.0) == 42.0


@pytest.fixture(scope="module")
def unchanged() -> bytes:
    """The object code of a function that gives back what it is given."""
    return object_code(assembly("ret double %x"))


def permissions(address: int) -> str:
    for line in Path("/proc/self/maps").read_text().splitlines():
        region, how = line.split()[:2]
        start, stop = (int(word, 16) for word in region.split("-"))
        if start <= address < stop:
            return how
    return ""


def test_code_cannot_be_written_to(unchanged: bytes) -> None:
    address = linker.linked(unchanged, "entry")
    assert address is not None and permissions(address) == "r-xp"


@pytest.mark.parametrize(
    ("body", "declaration"),
    [
        ("store double %x, ptr @state\nret double %x", "@state = global double 1.0"),
        ("store double %x, ptr @state\nret double %x", "@state = global double zeroinitializer"),
        ("%r = call double @of_nobody(double %x)\nret double %r", "declare double @of_nobody(double)"),
        (
            "%p = call ptr @llvm.threadlocal.address.p0(ptr @state)\n%r = load double, ptr %p\nret double %r",
            "@state = thread_local global double 1.0\ndeclare ptr @llvm.threadlocal.address.p0(ptr)",
        ),
    ],
    ids=["data", "zeros", "unknown", "of-threads"],
)
def test_what_is_left_to_llvm(body: str, declaration: str) -> None:
    code = object_code(assembly(body, declaration))
    assert linker.linked(code, "entry") is None


def test_no_memory_is_kept_of_what_is_left_to_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    given, taken = [], []
    reserve, system = linker._reserve, linker._system()

    class System:
        def __getattr__(self, name: str) -> Any:
            return getattr(system, name)

        def munmap(self, base: int, size: int) -> None:
            given.append(base)
            system.munmap(base, size)

    monkeypatch.setattr(linker, "_reserve", lambda size: taken.append(reserve(size)) or taken[-1])
    monkeypatch.setattr(linker, "_system", System)
    body = "%r = call double @of_nobody(double %x)\nret double %r"
    code = object_code(assembly(body, "declare double @of_nobody(double)"))
    assert linker.linked(code, "entry") is None
    assert len(taken) == 1 and given == taken


@pytest.mark.parametrize("symbol", ["", "other", "sin"])
def test_a_symbol_that_there_is_not(symbol: str, unchanged: bytes) -> None:
    assert linker.linked(unchanged, symbol) is None


def test_what_is_no_object_file_is_refused(unchanged: bytes) -> None:
    assert call(linker.linked(unchanged, "entry"), 1.5) == 1.5
    assert linker.linked(b"", "entry") is None
    assert linker.linked(unchanged[:100], "entry") is None
    assert linker.linked(unchanged[:-70], "entry") is None
    for place, byte in (
        (4, 1),
        (5, 2),
        (16, 2),
        (18, 183),
        (58, 40),
    ):  # class, order, kind, machine, sections
        other = bytearray(unchanged)
        other[place] = byte
        assert linker.linked(bytes(other), "entry") is None, place
