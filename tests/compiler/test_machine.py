"""LLVM's passes, and what they make of our assembly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler.llvm import machine, outline


class Module:
    """A module that LLVM has or has not broken."""

    functions = global_variables = ()

    def __init__(self, broken: bool) -> None:
        self.broken = broken

    def verify(self) -> None:
        if self.broken:
            raise RuntimeError("Instruction does not dominate all uses!")


def test_a_module_that_the_vectorizer_breaks_is_optimized_again(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[bool] = []

    def optimize(module: Module, *, loops: bool, components: bool, unrolled: bool, level: int = 3) -> None:
        passes.append(components)
        module.broken = components

    monkeypatch.setattr(machine, "_linked", lambda assembly: Module(False))
    monkeypatch.setattr(machine, "_optimize", optimize)
    made: Any = machine._optimized(("",), loops=True, components=True)
    assert passes == [True, False] and not made.broken


mat23 = wp.types.matrix((2, 3), float)
mat32 = wp.types.matrix((3, 2), float)


@wp.kernel
def products(
    a: wp.array[mat23],
    b: wp.array[mat32],
    c: wp.array[wp.mat44],
    ab: wp.array[wp.mat22],
    ba: wp.array[wp.mat33],
    cc: wp.array[wp.mat44],
):
    i = wp.tid()
    ab[i] = a[i] @ b[i]
    ba[i] = b[i] @ a[i]
    cc[i] = c[i] @ c[i]


def test_adjoint_of_matrix_products_of_several_shapes() -> None:
    """LLVM 22.1 ended the process: it vectorized this adjoint into an invalid module."""
    rng = np.random.default_rng(5)
    a, b, c = (rng.standard_normal((1, *shape)) for shape in ((2, 3), (3, 2), (4, 4)))
    arrays = [
        wp.array(values, dtype=kind, requires_grad=True)
        for values, kind in ((a, mat23), (b, mat32), (c, wp.mat44))
    ]
    outs = [wp.zeros(1, dtype=kind, requires_grad=True) for kind in (wp.mat22, wp.mat33, wp.mat44)]
    with wp.Tape() as tape:
        wp.launch(products, 1, [*arrays, *outs])
    tape.backward(
        grads={
            out: wp.array(np.eye(n)[None], dtype=out.dtype) for out, n in zip(outs, (2, 3, 4), strict=True)
        }
    )
    for array, transposed in zip(arrays, (b, a, c), strict=True):
        np.testing.assert_allclose(array.grad.numpy(), 2 * transposed.transpose(0, 2, 1), rtol=1e-5)


LOOP = """define void @f(ptr %y, i64 %n) nounwind {
start:
  br label %again
again:
  %k = phi i64 [ 0, %start ], [ %next, %again ]
  %place = getelementptr double, ptr %y, i64 %k
  %old = load double, ptr %place
  %root = call double @llvm.sqrt.f64(double %old)
  store double %root, ptr %place
  %next = add nsw i64 %k, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %again, label %done
done:
  ret void
}
declare double @llvm.sqrt.f64(double)
"""


@pytest.mark.parametrize(("loops", "vectorised"), [(7, True), (8, False)])
def test_components_of_kernels_with_many_loops_are_not_vectorised(
    loops: int, vectorised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLVM's search for them takes a tenth of a second for each loop."""
    asked = []
    monkeypatch.setattr(machine, "_optimize", lambda module, **options: asked.append(options["components"]))
    blocks = [
        f"loop{n}:\n  br i1 %go, label %loop{n}, label %end{n}\nend{n}:\n  br label %loop{n + 1}"
        for n in range(loops)
    ]
    body = "\n".join(
        ["define void @f(i1 %go) {", "  br label %loop0", *blocks, f"loop{loops}:", "  ret void"]
    )
    machine.object_code(body + "\n}\n")
    assert asked == [vectorised]


@pytest.mark.parametrize(("longer", "level"), [(0, 3), (1, 1)])
def test_machine_code_of_long_functions_is_scheduled_once(
    longer: int, level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLVM schedules again after it has allocated registers, from level 2 on."""
    levels = []
    original = machine.target_machine

    def target(level: int = machine.FULL) -> Any:
        levels.append(level)
        return original(level)

    monkeypatch.setattr(machine, "target_machine", target)
    machine.object_code(LOOP + "\n" * (outline.LONG + longer - LOOP.count("\n")))
    assert levels[-1] == level and set(levels[:-1]) == {3}


def test_loops_of_long_kernels_are_not_unrolled() -> None:
    def count(lines: int) -> int:
        return len(machine.object_code(LOOP + "\n" * (lines - LOOP.count("\n")), vectorise=False))

    short, long = count(machine.UNROLLED), count(machine.UNROLLED + 1)
    assert short > 1.1 * long
