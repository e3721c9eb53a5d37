"""Every rule has a lowering for each target, for all types that it takes; and the test can fail.

Targets are plain Python, LLVM thread by thread and in lanes, and Numba, which embeds LLVM's instructions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tapedebug.compiler import numba_library, pipeline
from tapedebug.compiler.ir import Block, Function, Op, Param, Value
from tapedebug.compiler.layout import Layout
from tapedebug.compiler.llvm.expressions import TranslationError
from tapedebug.compiler.llvm.simd.vectorize import vectorize
from tapedebug.compiler.llvm.translate import translated
from tapedebug.lang import lowering
from tapedebug.lang import types as t
from tapedebug.lang.lowering import FUNCTIONS, Instructions, fitting, in_python
from tapedebug.lang.rules import NOT_DIFFERENTIABLE, RULES, Rule, RuleError
from tapedebug.lang.rules.table import floats, numbers, rule


def operands_of(unit: Rule) -> Iterator[tuple[Any, ...]]:
    """The types of operands that a rule takes: all alike, or a condition first."""
    for kind, first in itertools.product(t.SCALARS, (None, t.bool)):
        kinds = (kind,) * unit.arity if first is None else (first, *(kind,) * (unit.arity - 1))
        try:
            unit.result(kinds)
        except RuleError:
            continue
        yield kinds


def function(unit: Rule, kinds: tuple[Any, ...]) -> Function:
    """A kernel in IR: each thread applies the rule to its elements of arrays, and stores the result."""
    types = [*kinds, unit.result(kinds)]
    params = tuple(Param(f"x{k}", t.ArrayType(kind, 1), k) for k, kind in enumerate(types))
    body = Block()

    def add(kind: str, args: tuple[Value, ...], result: Any = None, *data: Any) -> Value:
        value = Value(result or t.int64)
        op = Op(kind, args, None if kind == "store" else value, None, data)
        value.op = op
        if kind != "thread":
            body.ops.append(op)
        return value

    thread = add("thread", (), t.int64, 0)
    places = [add("offset", (thread,), t.int64, k) for k in range(len(types))]
    values = [add("load", (places[k],), kind, k, 0) for k, kind in enumerate(kinds)]
    result = add(unit.name, tuple(values), types[-1])
    add("store", (places[-1], result), None, len(kinds), 0)
    return Function(unit.name, params, body, 1)


def missing(unit: Rule) -> list[str]:
    """The targets that have no lowering of a rule, with the types of operands."""
    found = [f"{unit.name}: no types" for _ in range(not any(operands_of(unit)))]
    for kinds in operands_of(unit):
        of = f"{unit.name}({', '.join(map(t.type_name, kinds))})"
        text = pipeline.text(made := function(unit, kinds), Layout(made.params), lanes=True)
        assert text.lanes is not None
        names = [name for name in unit.calls if name not in in_python()]
        found += [f"Python: {of}: {name}" for name in names]
        found += [f"Numba: {of}: {name}" for name in unit.calls if name not in numba_library.NAMESPACE]
        for target, translate in (
            ("LLVM", lambda code=text.code: translated(code, "entry")),
            ("lanes", lambda text=text: vectorize(text.code, "entry", text.lanes)),
        ):
            try:
                translate()
            except TranslationError as error:
                found.append(f"{target}: {of}: {error}")
    return found


@pytest.mark.parametrize("name", RULES)
def test_every_target_has_a_lowering(name: str) -> None:
    assert missing(RULES[name]) == []


def test_it_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULES, "twice", Rule("twice", "", floats, "m_twice({0})", NOT_DIFFERENTIABLE))
    targets = [line.partition(":")[0] for line in missing(RULES["twice"])]
    assert targets == ["Python", "Numba", "LLVM", "lanes"] * len(t.FLOATS)

    def single(x: str) -> Instructions:
        fitting(x == "f32", x)
        return Instructions(x, "{r} = fadd float {0}, {0}")

    monkeypatch.setitem(FUNCTIONS, "m_twice", lowering.Function("m_twice", lambda x: x + x, single))
    found = [line for line in missing(RULES["twice"]) if line.startswith(("LLVM", "lanes"))]
    assert [line.partition("): ")[0] for line in found] == ["LLVM: twice(float64", "lanes: twice(float64"]


def test_a_rule_without_lowering_is_refused() -> None:
    with pytest.raises(ValueError, match=r"rule 'twice' calls 'm_twice', which has no lowering"):
        rule("twice", "", result=numbers, lowering="m_twice({0})", partials=NOT_DIFFERENTIABLE)
    assert "twice" not in RULES
