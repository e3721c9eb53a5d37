"""Arrays of Warp that share the memory of their gradients, and the types of parameters among variables."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import tapedebug as td

pytestmark = pytest.mark.peer
wp = pytest.importorskip("warp")
programs = pytest.importorskip("tests.watch.programs")


@wp.kernel
def product(a: wp.array(dtype=float), b: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = a[i] * b[i]


def asked(*values):
    return wp.array(values, dtype=float, requires_grad=True)


def diagnosed(run):
    with td.watch_warp() as session:
        run()
    assert session.not_covered == []
    (tape,) = session.tapes
    found = td.diagnose(tape, progress=False)
    return found.verdict, [item for item in found.findings if item.severity != "info"]


def two_factors(share):
    a, b, y, loss = asked(1.0, 2.0), asked(4.0, 5.0), asked(0.0, 0.0), asked(0.0)
    share(a, b)
    with wp.Tape() as tape:
        wp.launch(product, 2, [a, b], [y])
        wp.launch(programs.total, 2, [y], [loss])
    tape.backward(loss)


def one_gradient(a, b):
    b.grad = a.grad


def a_part_of_it(a, b):
    both = wp.zeros(3, dtype=float)
    a.grad = both[:2]
    b.grad = both[1:]


@pytest.mark.parametrize("share", [one_gradient, a_part_of_it])
def test_two_inputs_with_one_gradient_are_named_with_the_line_that_made_it(share):
    verdict, (finding,) = diagnosed(lambda: two_factors(share))
    _, first = inspect.getsourcelines(share)
    line = first + len(inspect.getsource(share).rstrip().splitlines()) - 1
    assert (verdict, finding.rule, finding.call_site.line) == ("WRONG", "wrong-adjoint", line)
    assert "the gradients of a and b are the same memory since" in finding.message
    assert finding.fix == "give a and b gradients of their own"


def test_gradients_that_are_parts_of_one_array_are_their_own():
    def parts(a, b):
        both = wp.zeros(4, dtype=float)
        a.grad, b.grad = both[:2], both[2:]

    assert diagnosed(lambda: two_factors(parts)) == ("AGREE", [])


def test_views_share_the_gradient_of_their_array():
    def run():
        x, y, loss = asked(1.0, 2.0, 3.0), asked(0.0, 0.0, 0.0), asked(0.0)
        with wp.Tape() as tape:
            wp.launch(programs.square, 2, [x[:2]], [y[:2]])
            wp.launch(programs.square, 2, [x[1:]], [y[1:]])
            wp.launch(programs.total, 3, [y], [loss])
        tape.backward(loss)

    verdict, loud = diagnosed(run)
    assert not any("same memory" in item.message for item in loud), (verdict, loud)


def test_types_of_parameters_among_the_variables_are_no_arrays():
    def run():
        kind = wp.array(dtype=Any)
        x, y, loss = asked(1.0, 2.0), asked(0.0, 0.0), asked(0.0)
        with wp.Tape() as tape:
            wp.launch(programs.square, 2, [x], [y])
            wp.launch(programs.total, 2, [y], [loss])
        tape.backward(loss)
        assert kind.dtype is Any

    assert diagnosed(run) == ("AGREE", [])
