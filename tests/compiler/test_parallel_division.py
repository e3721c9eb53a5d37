"""Reach of threads beyond their own row, sharing between chunks, work of a thread; each both ways."""

from __future__ import annotations

from typing import Any

import pytest

import tapedebug as wp
from tapedebug.compiler import pipeline
from tapedebug.compiler.parallel_info import NEAR, OWN, READ, SUM, Division, Share, evaluated
from tapedebug.compiler.passes.parallel_division import UNKNOWN, divided
from tests.compiler.test_generated import load

SIZE, N, R = 100, 90, 7
NUMBERS = {("size", 0): SIZE, ("size", 1): 30, ("argument", 2): N, ("argument", 3): R, ("extent", 0): 120}

PROGRAM = """import tapedebug as wp

@wp.kernel
def program(
    u: wp.array(dtype=float), out: wp.array(dtype=float), n: int, r: int, which: wp.array(dtype=int)
):
    i = wp.tid()
    {before}
    out[i] = u[{index}] * 2.0
"""
ROWS = """import tapedebug as wp

@wp.kernel
def program(u: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    out[i, j] = u[{index}] * 2.0
"""


def look(kind: str, a: int, b: int) -> int:
    return NUMBERS[kind, a]


def adjoint(kernel: Any) -> Division:
    active = pipeline.differentiable(kernel.params)
    return divided(pipeline.adjoint(kernel._lowered, active, frozenset())[0])


def share(division: Division, side: str, param: int) -> Share:
    assert division.shares is not None
    return next(s for s in division.shares if s.place == (side, param))


def reach(source: str) -> tuple[int, int] | str:
    """Return how far from its own row a thread adds, or how chunks share the arrays that it adds to."""
    found = share(adjoint(load(source)), "adjoint", 0)
    if found.how != NEAR:
        return found.how
    lows, highs = zip(*found.reach, strict=True)
    return min(evaluated(low, look) for low in lows), max(evaluated(high, look) for high in highs)


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("i", OWN),
        ("i + 1", (1, 1)),
        ("i - 3", (-3, -3)),
        ("i + r", (R, R)),
        ("i - r + 2", (2 - R, 2 - R)),
        ("i + (n - r) - n", (-R, -R)),
        ("i + u.shape[0]", (120, 120)),
        ("i + 2 * r", (2 * R, 2 * R)),
        ("wp.max(i - 2, 0)", (-2, 0)),
        ("wp.max(0, i - 2)", (-2, 0)),
        ("wp.max(i - 2, 5)", (-2, 5)),
        ("wp.min(i + 2, n - 1)", (N - SIZE, 2)),  # the last thread reads ten rows before its own
        ("wp.min(i + 2, u.shape[0] - 1)", (2, 2)),
        ("wp.clamp(i - 4, 0, n - 1)", (N - SIZE, 0)),
        ("wp.where(i > 3, i + 1, i - 1)", (-1, 1)),
        ("2 * i", SUM),
        ("n - i", SUM),
        ("i + i", SUM),
        ("i / 2", SUM),
        ("i % 4", SUM),
        ("which[i]", SUM),
        ("i + which[i]", SUM),
        ("3", SUM),
        ("n - 1", SUM),
        ("-1", SUM),
    ],
)
def test_reach_of_an_index(index, expected):
    assert reach(PROGRAM.format(before="pass", index=index)) == expected


@pytest.mark.parametrize(
    ("loop", "index", "expected"),
    [
        ("range(r)", "i + k", (0, R - 1)),
        ("range(-r, r + 1)", "i + k", (-R, R)),
        ("range(r, 0, -1)", "i + k", (1, R)),
        ("range(0, 20, 3)", "i + k", (0, 18)),
        ("range(which[i])", "i + k", SUM),
        ("range(i)", "i + k", SUM),
        ("range(r)", "k", SUM),
    ],
)
def test_reach_of_an_index_in_a_loop(loop, index, expected):
    source = PROGRAM.format(
        before=f"s = float(0.0)\n    for k in {loop}:\n        s += u[{index}]", index="i"
    )
    source = source.replace("u[i] * 2.0", "s")
    assert reach(source) == expected


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("i, j", OWN),
        ("i, j + 1", OWN),
        ("i, 0", OWN),
        ("j, i", OWN),  # its rows are columns
        ("i - 1, j", (-1, -1)),
        ("j, i + 2", (2, 2)),
        ("j, j", SUM),
        ("0, j", SUM),
    ],
)
def test_rows_are_those_of_the_first_axis(index, expected):
    assert reach(ROWS.format(index=index)) == expected


def test_an_axis_that_all_accesses_have():
    both = ROWS.format(index="i, j").replace("* 2.0", "* u[j, i]")
    assert reach(both) == SUM
    same = ROWS.format(index="i, j").replace("* 2.0", "* u[i + 1, i]")
    assert reach(same) == (0, 1)


def test_an_index_that_may_wrap():
    assert share(adjoint(load(PROGRAM.format(before="pass", index="i - 1"))), "adjoint", 0).wraps
    assert not share(adjoint(load(PROGRAM.format(before="pass", index="i + 1"))), "adjoint", 0).wraps


def test_the_rows_that_are_added_to():
    found = share(adjoint(load(PROGRAM.format(before="pass", index="n - 1"))), "adjoint", 0)
    assert [(evaluated(a, look), evaluated(b, look)) for a, b in found.window] == [(N - 1, N - 1)]
    assert share(adjoint(load(PROGRAM.format(before="pass", index="which[i]"))), "adjoint", 0).window == ()


def forward(body: str) -> Division:
    source = PROGRAM.format(before=body, index="i").replace("u[i] * 2.0", "u[i]")
    return divided(load(source)._lowered.function)


@pytest.mark.parametrize(
    ("body", "cut"),
    [
        ("pass", True),
        ("wp.atomic_add(out, 0, 1.0)", False),  # also stored to, elsewhere
        ("wp.atomic_max(u, 0, 1.0)", False),
        ("u[n - 1 - i] = 1.0", False),
        ("which[i] = 3", True),
    ],
)
def test_what_can_be_cut(body, cut):
    assert (forward(body).shares is not None) is cut


def test_what_speaks_or_runs_backwards_is_not_cut():
    @wp.kernel
    def prefix(y: wp.array(dtype=float)):
        i = wp.tid()
        if i > 0:
            y[i] = y[i] * y[i - 1]

    assert adjoint(prefix).shares is None


def test_halves_are_not_added_up_in_copies():
    @wp.kernel
    def halves(x: wp.array(dtype=wp.float16), y: wp.array(dtype=wp.float16)):
        i = wp.tid()
        wp.atomic_add(y, 0, x[i])

    assert divided(halves._lowered.function).shares is None
    assert share(adjoint(halves), "adjoint", 0).how == OWN


@pytest.mark.parametrize(
    ("body", "work"),
    [
        ("pass", 1),
        ("for k in range(n):\n        out[i] = out[i] + u[k]", 1 + N),
        (
            "for k in range(n):\n        for l in range(r):\n            out[i] = out[i] + u[l]",
            1 + N * (1 + R),
        ),
        ("for k in range(which[i]):\n        out[i] = out[i] + u[k]", 1 + UNKNOWN),
        ("while out[i] < 1.0:\n        out[i] = out[i] + u[i]", 1 + UNKNOWN),
        ("if n > 3:\n        for k in range(n):\n            out[i] = out[i] + u[k]", 1 + N),
    ],
)
def test_how_much_a_thread_does(body, work):
    assert evaluated(forward(body).work, look) == work


def test_bounds_beyond_32_bits_are_refused():
    assert evaluated(("mul", 46340, 46340), look) == 46340**2
    with pytest.raises(OverflowError):
        evaluated(("sub", ("mul", 46341, 46341), 5_000_000), look)


def test_what_is_only_read():
    assert share(forward("pass"), "value", 0).how == READ


@pytest.mark.parametrize(
    ("index", "along"), [("i, j - 1", (OWN, NEAR)), ("i + 1, j", (NEAR, OWN)), ("j, 0", (SUM, OWN))]
)
def test_shares_along_each_axis_of_threads(index: str, along: tuple[str, str]) -> None:
    division = adjoint(load(ROWS.replace("{index}", index)))
    for axis, how in enumerate(along):
        shares = division.along(axis)
        assert shares is not None
        assert next(s.how for s in shares if s.place == ("adjoint", 0)) == how
