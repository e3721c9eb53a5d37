"""A small problem in a loop, for tests of what happens between passes: weights that fit squares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import tapedebug as wp

N = 8


@wp.kernel
def drag(w: wp.array(dtype=float), x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = w[i] * x[i] * x[i]


@wp.kernel
def misfit(y: wp.array(dtype=float), t: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (y[i] - t[i]) * (y[i] - t[i]))


@wp.kernel
def descend(w: wp.array(dtype=float), slope: wp.array(dtype=float), rate: float):
    i = wp.tid()
    w[i] = w[i] - rate * slope[i]


@wp.kernel
def noise(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = 0.1 * float(i)


class Fit:
    """Weights `w` and what they need; `record()` gives a tape and its loss."""

    def __init__(self, mode: str = "preserve") -> None:
        self.mode = mode
        self.w = wp.array(np.full(N, 0.5), dtype=float, requires_grad=True)
        self.x = wp.array(np.linspace(1.0, 2.0, N), dtype=float)
        self.t = wp.array(np.linspace(1.0, 2.0, N), dtype=float)

    def record(self) -> tuple[Any, Any]:
        y = wp.zeros(N, dtype=float, requires_grad=True)
        loss = wp.zeros(1, dtype=float, requires_grad=True)
        w, x, t = self.w, self.x, self.t
        with wp.Tape(on_overwrite=self.mode) as tape:
            wp.launch(drag, dim=N, inputs=[w, x], outputs=[y])
            wp.launch(misfit, dim=N, inputs=[y, t], outputs=[loss])
        return tape, loss


def found(subject: Any, rule: str, **options: Any) -> list[Any]:
    """The findings of a rule."""
    return [item for item in wp.diagnose(subject, **options).findings if item.rule == rule]


def alarms(subject: Any, **options: Any) -> list[Any]:
    """Return the findings that a user would have to look at."""
    return [item for item in wp.diagnose(subject, **options).findings if item.severity != "info"]


def line_of(text: str, path: str, occurrence: int = 0) -> int:
    """The line of a file that holds `text`, counted from 1; lines that look for one do not count."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    numbers = [n for n, line in enumerate(lines, start=1) if text in line and "line_of(" not in line]
    return numbers[occurrence]
