"""Messages without PyTorch and JAX; importing the package imports neither."""

from __future__ import annotations

import sys

import pytest

import tapedebug as wp
from tests.processes import modules_after


@pytest.mark.parametrize(
    ("library", "action", "caller"),
    [
        ("torch", lambda: wp.torch.function(abs), "tapedebug.torch.function"),
        ("torch", lambda: wp.torch.from_tape(abs), "tapedebug.torch.from_tape"),
        ("jax", lambda: wp.jax.function(abs), "tapedebug.jax.function"),
    ],
)
def test_libraries_that_are_not_installed(library, action, caller, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(wp.TapedebugError) as caught:
        action()
    assert str(caught.value) == (
        f"{caller}: the package '{library}' is not installed\n  = hint: install it: pip install {library}"
    )


def test_their_modules_import_neither():
    assert modules_after("import tapedebug.torch, tapedebug.jax") & {"torch", "jax"} == set()
