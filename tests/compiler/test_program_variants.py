"""Random programs in their other variants: with checked indices, with a strong zero; the same numbers."""

from __future__ import annotations

import ctypes
from struct import Struct
from typing import Any

import numpy as np
import pytest

from tapedebug.compiler.diagnostics import BOUNDS
from tapedebug.compiler.variant import Variant
from tapedebug.runtime.launch.print_buffer import PRINT_BUFFER
from tests.compiler.harness import twin
from tests.compiler.test_generated import THREADS, Trial

CHECKED = frozenset({BOUNDS})


def packed(kernel: Any, args: list[Any], adjoints: dict[int, np.ndarray]) -> ctypes.Array[ctypes.c_char]:
    """The argument slots, with the print buffer's address behind them."""
    slots: list[Any] = [THREADS, 1, 1, 1]
    pointers = []
    for param, value in zip(kernel.params, args, strict=True):
        if not param.is_array:
            slots += np.atleast_1d(value).tolist()
            continue
        ndim = param.type.ndim
        strides = [s // value.itemsize for s in value.strides[:ndim]]
        slots += [value.ctypes.data, *value.shape[:ndim], *strides]
        pointers.append(adjoints[param.index].ctypes.data if param.index in adjoints else 0)
    layout = Struct(f"{kernel.layout.struct.format}Q")
    memory = ctypes.create_string_buffer(layout.size)
    layout.pack_into(memory, 0, *slots, *pointers, PRINT_BUFFER.address)
    return memory


def result(trial: Trial, kind: str, **options: Any) -> list[np.ndarray]:
    """All arrays and adjoints after a run of one variant in plain Python."""
    kernel, args = trial.kernel, twin(trial.args)
    adjoints = {i: s.copy() for i, s in trial.seeds.items()} if kind == "adjoint" else {}
    active = frozenset(adjoints)
    replay = kernel.adjoint_info(active).replay if adjoints else frozenset()
    entry = kernel._interpreted(Variant(kind, active, replay, f64=True, **options))
    with PRINT_BUFFER.lock, np.errstate(all="ignore"):
        PRINT_BUFFER.open()
        entry(0, THREADS, ctypes.addressof(packed(kernel, args, adjoints)))
        assert PRINT_BUFFER.failure() is None
    return [a for a in args if isinstance(a, np.ndarray)] + list(adjoints.values())


@pytest.mark.parametrize("crossing", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_a_checked_program_computes_the_same(seed, crossing):
    trial = Trial.of(seed + 40, crossing=crossing)
    for kind in ("forward", "adjoint"):
        plain, checked = result(trial, kind), result(trial, kind, diagnostics=CHECKED)
        for one, two in zip(plain, checked, strict=True):
            np.testing.assert_array_equal(one, two)
        assert (
            "failure_message(print_buffer" in trial.kernel._text(Variant("forward", diagnostics=CHECKED)).code
        )


@pytest.mark.parametrize("custom", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_strong_zero_changes_no_finite_gradient(seed, custom):
    trial = Trial.of(seed + 60, custom=custom)
    plain, strong = result(trial, "adjoint"), result(trial, "adjoint", strong_zero=True)
    assert all(np.isfinite(a).all() for a in plain)
    for one, two in zip(plain, strong, strict=True):
        np.testing.assert_array_equal(one, two)
