"""Fixtures of the compiler's tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tapedebug as wp
from tests.compiler.simd_comparison import WIDTHS, set_width

_compiled: dict[tuple[wp.Kernel, int], dict[Any, Any]] = {}
"""Code of the kernels of modules, by the width of vectors."""


@pytest.fixture(params=WIDTHS)
def bits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Set the width of vectors for all kernels of the module: each is compiled for each width."""
    set_width(monkeypatch, request.param)
    kernels = [value for value in vars(request.module).values() if isinstance(value, wp.Kernel)]
    for kernel in kernels:
        kernel.renew()
        kernel._entries = _compiled.setdefault((kernel, request.param), {})
    yield request.param
    for kernel in kernels:
        kernel.renew()
