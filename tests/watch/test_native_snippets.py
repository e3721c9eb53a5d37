"""Reads and writes of native snippets, from their text; Warp is not needed."""

from __future__ import annotations

import pytest

from tapedebug.watch.native_snippets import NativeFunction


@pytest.mark.parametrize(
    ("forward", "adjoint", "expected"),
    [
        ("y[i] = x[i] * x[i];", "", {"x": "r", "y": "w"}),
        ("y[i] = x[i];", "adj_x[i] += adj_y[i];", {"x": "r", "y": "w"}),
        ("y[i] = exp(x[i]);", "adj_x[i] += y[i] * adj_y[i];", {"x": "r", "y": "wl"}),
        ("y[i] = 1.0f;", "adj_x[i] += x[i] * adj_y[i];", {"x": "r", "y": "w"}),
        ("y[idx[i]] += x[i];", "", {"x": "r", "y": "rwl"}),
        ("y[x[i]]++;", "", {"x": "r", "y": "rwl"}),
        ("if (y[i] == x[i]) { y[i] = 2; }", "", {"x": "r", "y": "rw"}),
        ("float* p = y.data; p[i] = x[i];", "", {"x": "r", "y": "rwl"}),
        ("atomic_add(&y[i], x[i]);", "", {"x": "r", "y": "rwl"}),
        ("store(y, i, x[i]);", "", {"x": "r", "y": "rwl"}),
        ("y[i][0] = x[i];", "", {"x": "r", "y": "rwl"}),
        ("// y[i] is read\ny[i] = /* y[i] */ x[i];", "", {"x": "r", "y": "w"}),
        ('printf("%f y[0]", x[i]); y [ i ] = 2;', "", {"x": "r", "y": "w"}),
        ("if (0.5f>x[i]) y[i] = n>>x[i];", "", {"x": "r", "y": "w"}),
        ("float& last = y[i]; last = x[i];", "", {"x": "r", "y": "rwl"}),
        ("auto &&last = y[i]; last = x[i];", "", {"x": "r", "y": "rwl"}),
        ("const float& first = x[i]; y[i] = first;", "", {"x": "r", "y": "w"}),
        ("std::swap(y[i], y[j]); y[j] += x[i];", "", {"x": "r", "y": "rwl"}),
        ("p->x[i] = 1; y[i] = 2;", "", {"x": "", "y": "w"}),
        ("my[i] = 1; s.y[i] = 2; yy[i] = x[i];", "", {"x": "r", "y": ""}),
    ],
)
def test_uses_of_a_snippet(forward, adjoint, expected):
    function = NativeFunction(["x", "y"], [forward], adjoint)
    found = {name: function.uses(name) for name in function.params}
    letters = {
        name: "".join(k for k, on in zip("rwl", (u.reads, u.writes, u.left), strict=True) if on)
        for name, u in found.items()
    }
    assert letters == expected
