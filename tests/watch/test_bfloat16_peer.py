"""Arrays of bfloat16 in a watched program of Warp: mirrored, checked in float64, their gradients read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapedebug

wp: Any = pytest.importorskip("warp")
pytest.importorskip("ml_dtypes")
if not hasattr(wp, "bfloat16"):
    pytest.skip("Warp has bfloat16 from 1.13 on", allow_module_level=True)
pytestmark = pytest.mark.peer


@wp.kernel
def halved_square(x: wp.array(dtype=wp.bfloat16), y: wp.array(dtype=wp.bfloat16)):
    i = wp.tid()
    y[i] = x[i] * x[i] * wp.bfloat16(0.5)


@wp.kernel
def total(y: wp.array(dtype=wp.bfloat16), loss: wp.array(dtype=wp.float32)):
    wp.atomic_add(loss, 0, wp.float32(y[wp.tid()]))


def test_a_watched_tape_with_bfloat16_agrees() -> None:
    values = np.linspace(1, 2, 6, dtype=np.float32)
    with tapedebug.watch_warp() as session:
        x = wp.array(values, dtype=wp.bfloat16, requires_grad=True, device="cpu")
        y = wp.zeros(6, dtype=wp.bfloat16, requires_grad=True, device="cpu")
        loss = wp.zeros(1, dtype=float, requires_grad=True, device="cpu")
        with wp.Tape() as tape:
            wp.launch(halved_square, 6, inputs=[x, y], device="cpu")
            wp.launch(total, 6, inputs=[y, loss], device="cpu")
        tape.backward(loss)
    found = tapedebug.diagnose(session.tapes)
    assert found.verdict == "AGREE"
    assert "2 mirrored" in str(found)
    np.testing.assert_allclose(x.grad.numpy().astype(float), values, rtol=1e-2)
