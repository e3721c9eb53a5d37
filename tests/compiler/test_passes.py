"""Passes that verify the IR and remove dead code."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._source import Span
from tapedebug.compiler import pipeline
from tapedebug.compiler.builder import Builder
from tapedebug.compiler.ir import Block, For, Function, If, Op, Param, Value, While, walk
from tapedebug.compiler.passes.dce import remove_dead_code
from tapedebug.compiler.passes.verify import InvalidIR, verify
from tapedebug.lang import types as t
from tests.compiler.harness import run
from tests.compiler.test_needed_values import spring

SPAN = Span("file.py", 1, 0, 1, 4, "k", "text")
X, Y = 0, 1
PARAMS = (Param("x", t.ArrayType(t.float32), X), Param("y", t.ArrayType(t.float32), Y))


class Sketch:
    """A function under construction: y[i] = x[i], to be broken or filled with dead code."""

    def __init__(self) -> None:
        self.b = Builder()
        self.b.span = SPAN
        self.place = self.b.offset(X, (self.b.thread(0),))
        self.x = self.b.load(X, 0, self.place, t.float32)

    def number(self, value: float, kind: type[t.Scalar] = t.float32) -> Value:
        return self.b.constant(value, kind)

    def finish(self) -> Function:
        return Function("k", PARAMS, self.b.root, 1)


def broken(sketch: Sketch) -> str:
    with pytest.raises(InvalidIR) as info:
        verify(sketch.finish())
    return str(info.value).split(": ")[1]


def test_verify_accepts_what_is_well_formed():
    s = Sketch()
    s.b.store(Y, 0, s.place, s.b.apply("mul", s.x, s.x))
    function = s.finish()
    assert verify(function) is function


def test_verify_finds_a_value_used_before_it_is_defined():
    s = Sketch()
    s.b.store(Y, 0, s.place, Value(t.float32))
    assert broken(s) == "a value is used before it is defined"


def test_verify_finds_a_value_that_leaves_its_block():
    s = Sketch()
    with s.b.block() as inner:
        inside = s.b.apply("mul", s.x, s.x)
    s.b.append(If(s.b.apply("gt", s.x, s.number(0)), inner, Block(), [], SPAN))
    s.b.store(Y, 0, s.place, inside)
    assert broken(s) == "a value is used before it is defined"


def test_verify_finds_a_value_assigned_twice():
    s = Sketch()
    s.b.append(s.x.op)
    assert broken(s) == "a value is assigned twice"


def branches(count: int) -> Function:
    """Return a function with so many branches, each of which computes a value and is followed by another."""
    s = Sketch()
    for _ in range(count):
        with s.b.block() as inner:
            s.b.apply("mul", s.x, s.x)
        s.b.append(If(s.b.apply("gt", s.x, s.number(0)), inner, Block(), [], SPAN))
        s.b.store(Y, 0, s.place, s.b.apply("add", s.b.load(X, 0, s.place, t.float32), s.x))
    return s.finish()


def test_verify_takes_as_many_steps_as_a_function_has_values(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0

    class Counted(set[Value]):
        def __init__(self, values: Iterable[Value] = ()) -> None:
            super().__init__()
            self.update(values)

        def update(self, *groups: Iterable[Value]) -> None:
            nonlocal steps
            for group in map(list, groups):
                steps += len(group)
                super().update(group)

        def add(self, value: Value) -> None:
            self.update([value])

    monkeypatch.setattr("tapedebug.compiler.passes.verify.set", Counted, raising=False)
    taken = []
    for count in (20, 40, 80):
        steps = 0
        verify(branches(count))
        taken.append(steps)
    assert taken[0] > 20
    assert taken[2] - taken[1] == 2 * (taken[1] - taken[0])


@pytest.mark.parametrize(
    ("yields", "message"),
    [
        ([], "yielded types do not fit"),
        (["int"], "yielded types do not fit"),
        (["unknown"], "a block yields an unknown value"),
    ],
)
def test_verify_finds_wrong_yields(yields, message):
    s = Sketch()
    made = {"int": s.number(1, t.int32), "unknown": Value(t.float32)}
    result = Value(t.float32)
    test = s.b.apply("gt", s.x, s.number(0))
    s.b.append(If(test, Block([], [made[y] for y in yields]), Block([], [s.x]), [result], SPAN))
    assert broken(s) == message


def test_verify_finds_a_condition_that_is_no_bool():
    s = Sketch()
    s.b.append(If(s.x, Block(), Block(), [], SPAN))
    assert broken(s) == "a condition is not bool"


def test_verify_finds_wrong_loops():
    s = Sketch()
    s.b.append(For(s.number(3, t.int32), Value(t.int64), [], [], Block(), [], SPAN))
    assert broken(s) == "a count is not int64"
    s = Sketch()
    s.b.append(While([], [], Block([], [s.x]), Block(), [], SPAN))
    assert broken(s) == "a test is not bool"
    s = Sketch()
    carried, result = Value(t.float32), Value(t.float32)
    loop = For(
        s.number(3, t.int64),
        Value(t.int64),
        [s.number(1, t.int32)],
        [carried],
        Block([], [carried]),
        [result],
        SPAN,
    )
    s.b.append(loop)
    assert broken(s) == "yielded types do not fit"


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (("frobnicate", (), t.float32, ()), "unknown operation 'frobnicate'"),
        (("mul", ("x", "x"), t.float64, ()), "a rule's result has the wrong type"),
        (("load", ("place",), t.float64, (X, 0)), "an element has the wrong type"),
        (("load", ("x",), t.float32, (X, 0)), "an offset is not int64"),
        (("store", ("place", "i"), None, (Y, 0)), "an element has the wrong type"),
    ],
)
def test_verify_finds_wrong_operations(op, message):
    s = Sketch()
    named = {"x": s.x, "place": s.place, "i": s.number(1, t.int32)}
    kind, args, result, data = op
    s.b.append(Op(kind, tuple(named[a] for a in args), Value(result) if result else None, SPAN, data))
    assert broken(s) == message


def test_verify_finds_an_operation_without_a_place_in_the_source():
    s = Sketch()
    s.b.append(Op("neg", (s.x,), Value(t.float32), None))
    assert broken(s) == "an operation has no span"


# Dead code -------------------------------------------------------------------------------------------------


def kinds(function: Function) -> list[str]:
    return [n.kind if isinstance(n, Op) else type(n).__name__ for n in walk(function.body)]


def test_dead_operations_go_and_effects_stay():
    s = Sketch()
    s.b.apply("sin", s.x)
    s.b.store(Y, 0, s.place, s.x)
    s.b.load(Y, 0, s.place, t.float32)
    assert kinds(remove_dead_code(s.finish())) == ["offset", "load", "store"]


def test_a_branch_keeps_only_the_results_that_are_used():
    s = Sketch()
    used, unused = Value(t.float32), Value(t.float32)
    with s.b.block() as then:
        then.yields = [s.b.apply("sin", s.x), s.b.apply("cos", s.x)]
    s.b.append(If(s.b.apply("gt", s.x, s.number(0)), then, Block([], [s.x, s.x]), [used, unused], SPAN))
    s.b.store(Y, 0, s.place, used)
    function = verify(remove_dead_code(s.finish()))
    assert kinds(function) == ["offset", "load", "gt", "If", "sin", "store"]


def test_a_loop_loses_carried_values_that_only_feed_themselves():
    s = Sketch()
    carried, results = [Value(t.float32), Value(t.float32)], [Value(t.float32), Value(t.float32)]
    with s.b.block() as body:
        body.yields = [s.b.apply("mul", carried[0], s.x), s.b.apply("sin", carried[1])]
    s.b.append(For(s.number(3, t.int64), Value(t.int64), [s.x, s.x], carried, body, results, SPAN))
    s.b.store(Y, 0, s.place, results[0])
    function = verify(remove_dead_code(s.finish()))
    assert kinds(function) == ["offset", "load", "For", "mul", "store"]
    (loop,) = (n for n in walk(function.body) if isinstance(n, For))
    assert (loop.carried, loop.results) == ([carried[0]], [results[0]])


def test_a_loop_without_effect_goes():
    s = Sketch()
    carried, result = Value(t.float32), Value(t.float32)
    s.b.append(
        For(s.number(3, t.int64), Value(t.int64), [s.x], [carried], Block([], [carried]), [result], SPAN)
    )
    assert kinds(remove_dead_code(s.finish())) == []


@pytest.mark.parametrize("restored", [True, False])
def test_a_save_lives_only_with_its_restore(restored):
    s = Sketch()
    zero = s.number(0, t.int64)
    s.b.effect("reserve", (zero,), (5,))
    s.b.effect("save", (zero, s.x), (5, 0))
    s.b.effect("save", (zero, s.x), (5, 1))
    s.b.effect("commit", (zero,), (5,))
    value = s.b.emit("restore", (zero,), t.float32, (5, 1))
    s.b.effect("release", (), (5,))
    s.b.store(Y, 0, s.place, value if restored else s.x)
    found = kinds(remove_dead_code(s.finish()))
    kept = ["offset", "load", "reserve", "save", "commit", "restore", "release", "store"]
    assert found == (kept if restored else ["offset", "load", "store"])


def test_dead_code_removal_is_idempotent():
    body = adjoint_body(spring, {0, 2})
    assert kinds(remove_dead_code(Function("k", spring.params, body, 1))) == [
        n.kind if isinstance(n, Op) else type(n).__name__ for n in walk(body)
    ]


def adjoint_body(kernel, active):
    return pipeline.adjoint(kernel._lowered, frozenset(active), frozenset())[0].body


# Simplification --------------------------------------------------------------------------------------------


@wp.kernel
def simple(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    a = x[i] * 1.0 / 1.0
    b = a**2.0 + (-1.0) * a**1.0
    c = b if 2 > 1 else wp.sin(b)
    if COUNT == 3:
        c = wp.cos(c)
    y[i * 1 + 0] = wp.where(True, c, a)


COUNT = 2


def test_what_is_exact_is_simplified():
    generated = " ".join(line.split("  #")[0] for line in simple.source().splitlines()[1:])
    assert [w for w in ("m_pow", "m_sin", "m_cos", "select", " / ", "if ") if w in generated] == []
    assert "m_pow" not in simple.source("adjoint")


@wp.kernel
def not_simple(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = (x[i] + 0.0) * 0.0 - (x[i] - x[i])


def test_what_is_not_exact_stays():
    """0 · x is not 0 where x is infinite, and -0 + 0 is not -0."""
    x, y = np.array([np.inf, -0.0, 1.0], np.float32), np.zeros(3, np.float32)
    run(not_simple, 3, [x, y])
    assert np.isnan(y[0]) and y[1:].tolist() == [0.0, 0.0]


@wp.kernel
def upright(x: wp.array(dtype=wp.transform), y: wp.array(dtype=float)):
    i = wp.tid()
    p = wp.transform_get_translation(x[i])
    up = wp.quat_rotate(wp.transform_get_rotation(x[i]), wp.vec3(0.0, 1.0, 0.0))
    y[i] = wp.length_sq(p) + 1.0 - up.y


def test_nothing_is_added_to_what_has_no_gradient():
    adjoint = upright.source("adjoint")
    assert "x_adj[" in adjoint
    assert "+= f32(0.0)" not in adjoint
