"""Rules of numbers of every type: arithmetic, comparison, selection, tests, signs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from tapedebug.lang import types as t
from tapedebug.lang.lowering import (
    FLOATS,
    INTEGERS,
    Instructions,
    fitting,
    function,
    intrinsic_call,
    llvm_type,
    number,
)
from tapedebug.lang.rules.table import (
    NOT_DIFFERENTIABLE,
    Select,
    comparison,
    floats,
    numbers,
    numpy_fold,
    rule,
    same_type,
    truth,
)

# Arithmetic ------------------------------------------------------------------------------------------------

rule(
    "add",
    "Sum.",
    result=numbers,
    lowering="{0} + {1}",
    partials=(lambda x, y, r: 1.0, lambda x, y, r: 1.0),
    fold=numpy_fold(operator.add),
    natural=True,
)
rule(
    "sub",
    "Difference.",
    result=numbers,
    lowering="{0} - {1}",
    partials=(lambda x, y, r: 1.0, lambda x, y, r: -1.0),
    fold=numpy_fold(operator.sub),
)
rule(
    "mul",
    "Product.",
    result=numbers,
    lowering="{0} * {1}",
    partials=(lambda x, y, r: y, lambda x, y, r: x),
    fold=numpy_fold(operator.mul),
    natural=True,
)
rule(
    "div",
    "Quotient of floats (IEEE: x / 0 is infinite).",
    result=floats,
    lowering="{0} / {1}",
    partials=(lambda x, y, r: 1.0 / y, lambda x, y, r: -(r / y)),
    natural=True,
)
rule(
    "neg",
    "Negation.",
    result=numbers,
    lowering="-{0}",
    partials=(lambda x, r: -1.0,),
    fold=numpy_fold(operator.neg),
    exact=True,
    odd=True,
)
# Comparison, logic, selection ------------------------------------------------------------------------------

for _name, _sign, _word, _fold in (
    ("lt", "<", "less", operator.lt),
    ("le", "<=", "less or equal", operator.le),
    ("gt", ">", "greater", operator.gt),
    ("ge", ">=", "greater or equal", operator.ge),
    ("eq", "==", "equal", operator.eq),
    ("ne", "!=", "not equal", operator.ne),
):
    rule(
        _name,
        f"Whether the first is {_word} (the second).",
        result=comparison,
        lowering=f"{{0}} {_sign} {{1}}",
        partials=NOT_DIFFERENTIABLE,
        fold=numpy_fold(_fold),
    )
rule("and", "Both hold.", result=truth, lowering="{0} & {1}", partials=NOT_DIFFERENTIABLE)
rule("or", "At least one holds.", result=truth, lowering="{0} | {1}", partials=NOT_DIFFERENTIABLE)
rule("not", "Does not hold.", result=truth, lowering="not {0}", partials=NOT_DIFFERENTIABLE)


def _where(operands: Sequence[Any]) -> Any:
    condition, yes, no = operands
    truth([condition])
    return same_type([yes, no])


def _select(condition: str, yes: str, no: str) -> Instructions:
    """`yes` where the condition holds, else `no`; no branch."""
    fitting(condition == "b1" and yes == no, condition, yes, no)
    kind = llvm_type(yes)
    return Instructions(yes, f"{{r}} = select i1 {{0}}, {kind} {{1}}, {kind} {{2}}")


SELECT = function("select", lambda condition, yes, no: yes if condition else no, _select)
rule(
    "where",
    "The second value where the first holds, else the third; both are computed.",
    result=_where,
    lowering=SELECT,
    partials=(
        None,
        lambda c, x, y, r: Select(c),
        lambda c, x, y, r: Select(c.apply("not")),
    ),
    exact=True,
)

# Tests and signs -------------------------------------------------------------------------------------------

rule(
    "isnan",
    "Whether the value is not a number.",
    result=lambda o: floats(o) and t.bool,
    lowering="{0} != {0}",
    partials=NOT_DIFFERENTIABLE,
)
rule(
    "isinf",
    "Whether the value is infinite.",
    result=lambda o: floats(o) and t.bool,
    lowering="({0} == {0}) & (({0} - {0}) != ({0} - {0}))",
    partials=NOT_DIFFERENTIABLE,
)
rule(
    "isfinite",
    "Whether the value is neither infinite nor NaN.",
    result=lambda o: floats(o) and t.bool,
    lowering="({0} - {0}) == ({0} - {0})",
    partials=NOT_DIFFERENTIABLE,
)


def _abs(x: str) -> Instructions:
    if x in FLOATS:
        return intrinsic_call("fabs", x)
    fitting(x in INTEGERS, x)
    if x[0] == "u":
        return Instructions(x, "")
    kind = llvm_type(x)
    return Instructions(
        x,
        f"{{r}}.below = icmp slt {kind} {{0}}, 0\n{{r}}.minus = sub {kind} 0, {{0}}\n"
        f"{{r}} = select i1 {{r}}.below, {kind} {{r}}.minus, {kind} {{0}}",
    )


def _signum(at_zero: int) -> Callable[..., Instructions]:
    """-1 or 1 by the sign, and what is agreed at 0."""

    def sign(x: str) -> Instructions:
        fitting(x in FLOATS or x in INTEGERS, x)
        kind, minus, one, zero = llvm_type(x), number(-1, x), number(1, x), number(0, x)
        compare = "fcmp o" if x in FLOATS else "icmp u" if x[0] == "u" else "icmp s"
        return Instructions(
            x,
            f"{{r}}.below = {compare}lt {kind} {{0}}, {zero}\n"
            f"{{r}}.above = {compare}gt {kind} {{0}}, {zero}\n"
            f"{{r}}.rest = select i1 {{r}}.above, {kind} {one}, {kind} {number(at_zero, x)}\n"
            f"{{r}} = select i1 {{r}}.below, {kind} {minus}, {kind} {{r}}.rest",
        )

    return sign


rule(
    "abs",
    "Absolute value; its derivative at 0 is 0.",
    result=numbers,
    lowering=function("m_abs", abs, _abs),
    partials=(lambda x, r: x.apply("sign0"),),
    exact=True,
)
rule(
    "sign0",
    "-1, 0 or 1 by the sign.",
    result=numbers,
    lowering=function("m_sign0", lambda x: type(x)(int(x > 0) - int(x < 0)), _signum(0)),
    partials=NOT_DIFFERENTIABLE,
    exact=True,
)
rule(
    "sign",
    "-1 of a negative number, else 1.",
    result=numbers,
    lowering=function("m_sign", lambda x: type(x)(-1 if x < 0 else 1), _signum(1)),
    partials=NOT_DIFFERENTIABLE,
    exact=True,
)

# For derivatives only --------------------------------------------------------------------------------------

rule(
    "stop_gradient",
    "The same number, as a constant: no derivative passes.",
    result=same_type,
    lowering="{0}",
    partials=NOT_DIFFERENTIABLE,
    exact=True,
)


def _first(operands: Sequence[Any]) -> Any:
    for operand in operands:
        floats([operand])
    return operands[0]


rule(
    "differentiated_as",
    "The first number, with the mean of the derivatives of the others: for functions that are smooth where "
    "the way to compute them is not.",
    result=_first,
    lowering="{0}",
    partials=(None, lambda x, y, z, r: 0.5, lambda x, y, z, r: 0.5),
    beside=2,
)
