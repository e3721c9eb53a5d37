"""`config.interpreted`: kernels and their adjoints as plain Python, where breakpoints work."""

from __future__ import annotations

import bdb
import linecache
import sys

import numpy as np
import pytest

import tapedebug as wp


@wp.func
def damped(a: float, b: float):
    return wp.sin(a) * b


@wp.kernel
def chain(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    total = float(0.0)
    for k in range(n):
        r = damped(x[i], float(k + 1))
        if r > 0.5:
            breakpoint()
            total += r * r
    y[i] = total


def line_of(text):
    with open(__file__) as file:
        return next(number for number, line in enumerate(file, 1) if line.strip() == text)


def program(values=(0.3, 1.1)):
    x = wp.array(values, dtype=float, requires_grad=True)
    y = wp.zeros(len(values), dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(chain, len(values), [x, y, 3])
    tape.backward(grads={y: wp.ones(len(values), dtype=float)})
    return y.numpy().copy(), x.grad.numpy().copy()


def test_plain_python_gives_the_same_numbers(monkeypatch):
    compiled = program()
    monkeypatch.setattr(wp.config, "interpreted", True)
    monkeypatch.setattr("sys.breakpointhook", lambda: None)
    plain = program()
    for one, two in zip(compiled, plain, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-6)


def test_breakpoint_stops_forward_and_on_the_way_back_with_adjoints_to_look_at(monkeypatch):
    seen = []

    def hook():
        frame = sys._getframe(1)
        file, line, local = frame.f_code.co_filename, frame.f_lineno, frame.f_locals
        adjoint = {name: float(v) for name, v in local.items() if name.startswith("adj_total")}
        seen.append((file, int(local["t"]), adjoint, linecache.getline(file, line).strip()))

    assert "breakpoint" not in chain.source() + chain.source("adjoint").replace(": breakpoint()", "")
    monkeypatch.setattr(wp.config, "interpreted", True)
    monkeypatch.setattr("sys.breakpointhook", hook)
    program()
    forward = [stop for stop in seen if stop[0] == "<forward of chain>"]
    adjoint = [stop for stop in seen if stop[0] == "<adjoint of chain>"]
    assert len(forward) + len(adjoint) == len(seen)
    # r is sin(0.3)·k = 0.3, 0.59, 0.89 in thread 0, and sin(1.1)·k = 0.89, … in thread 1.
    assert [stop[1] for stop in forward] == [0, 0, 1, 1, 1]
    assert [stop[1] for stop in adjoint] == [0, 0, 1, 1, 1]
    assert all(not stop[2] for stop in forward)
    assert all(1.0 in stop[2].values() for stop in adjoint)
    note = f"# {line_of('breakpoint()')}: breakpoint()"
    assert all(stop[3].startswith("breakpoint()") and stop[3].endswith(note) for stop in seen)


class Debugger(bdb.Bdb):
    """Notes the variables at one line of one file."""

    def __init__(self, file, line):
        super().__init__()
        self.wanted = (file, line)
        self.stops = []
        self.set_break(file, line)

    def canonic(self, filename):
        return filename

    def user_line(self, frame):
        if (frame.f_code.co_filename, frame.f_lineno) == self.wanted:
            self.stops.append(dict(frame.f_locals))
        self.set_continue()


def test_a_debugger_stops_at_a_line_of_the_adjoint_and_shows_its_variables(monkeypatch):
    monkeypatch.setattr(wp.config, "interpreted", True)
    monkeypatch.setattr("sys.breakpointhook", lambda: None)
    program()
    source = chain.source("adjoint").splitlines()[2:]  # without the heading; else it is what runs
    file = "<adjoint of chain>"
    assert [line.rstrip("\n") for line in linecache.getlines(file)] == source
    (number,) = [n for n, line in enumerate(source, 1) if "x_adj[" in line and "+=" in line][:1]
    debugger = Debugger(file, number)
    debugger.runcall(program)
    assert len(debugger.stops) >= 3
    last = debugger.stops[-1]
    assert {"t", "x_adj", "y_adj"} <= last.keys()
    assert any(name.startswith("adj_") and isinstance(value, np.float32) for name, value in last.items())


def test_interpreted_of_a_kernel_is_called_like_compiled_code():
    entry = chain.interpreted("adjoint", frozenset({0, 1}))
    assert entry is chain.interpreted("adjoint", frozenset({0, 1}))
    assert entry.filename.startswith("<adjoint of chain")
    note = f"# {line_of('y[i] = total')}: y[i] = total\n"
    assert any(line.endswith(note) for line in linecache.getlines(entry.filename))


def test_at_a_breakpoint_other_kernels_can_be_launched(monkeypatch, capsys):
    @wp.kernel
    def shout(n: int):
        print("inside", n)

    @wp.kernel
    def stops(x: wp.array(dtype=float)):
        i = wp.tid()
        print("before", i)
        breakpoint()
        assert x[i] > 0.0

    monkeypatch.setattr(wp.config, "interpreted", True)
    monkeypatch.setattr("sys.breakpointhook", lambda: wp.launch(shout, 1, [7]))
    wp.launch(stops, 1, [wp.ones(1, dtype=float)])
    assert "inside 7" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["forward", "adjoint", "tangent"])
def test_every_line_of_the_source_names_the_line_it_came_from(kind):
    lines = chain.source(kind).splitlines()
    assert lines[0].startswith(f"# {kind} of chain ({__file__}:")
    body = [line for line in lines if "=" in line and "args" not in line and "range" not in line]
    with open(__file__) as file:
        own = file.read().splitlines()
    assert body
    for line in body:
        _, found, note = line.partition("# ")
        if not found:
            assert line.split()[0] in {"top", "base0"} or "stack" in line, line
            continue
        number, _, text = note.partition(": ")
        assert own[int(number) - 1].strip() == text
