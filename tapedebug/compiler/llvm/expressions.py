"""Translate expressions to LLVM: operators and calls of one type each, and array elements."""

from __future__ import annotations

import ast
import struct

import numpy as np

from tapedebug.compiler.llvm.library import call_of, in_memory, scalar
from tapedebug.lang.lowering import BITS, FLOATS, INTEGERS, Misfit, cast, llvm_type

Operand = tuple[str, str]
"""The type of a value and how LLVM names it."""

PARAMETERS = {"lo": "i64", "hi": "i64", "args": "*i64"}
ARITHMETIC = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}
BITWISE = {ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor"}
CALLED = {ast.FloorDiv: "floor_div", ast.Mod: "c_mod"}
"""Operators of integers that are functions of the library: the text has `%` of natural numbers only."""
COMPARISONS = {
    ast.Eq: ("oeq", "eq"),
    ast.NotEq: ("une", "ne"),
    ast.Lt: ("olt", "lt"),
    ast.LtE: ("ole", "le"),
    ast.Gt: ("ogt", "gt"),
    ast.GtE: ("oge", "ge"),
}
NAMED = {"nan": float("nan"), "inf": float("inf")}


class TranslationError(Exception):
    """The text has something that the translator does not know."""

    def __init__(self, message: str, node: ast.AST | None = None) -> None:
        where = "" if node is None else f"line {getattr(node, 'lineno', '?')}: {ast.unparse(node)}: "
        super().__init__(where + message)


class Expressions:
    """Writes the instructions of expressions."""

    def __init__(self, symbol: str) -> None:
        self.symbol = symbol
        self.lines: list[str] = []
        self.head: list[str] = []
        self.needs: dict[str, None] = {}
        self.values: dict[str, Operand] = {name: (kind, f"%{name}") for name, kind in PARAMETERS.items()}
        self.slots: dict[str, Operand] = {}
        self.many: set[str] = set()
        self.known: list[str] = []
        self.count = 0
        self.label = "start"
        self.exits: list[str] = []
        self.open = True

    def _type(self, kind: str) -> str:
        """The type of a value in LLVM."""
        return llvm_type(kind)

    def _literal(self, kind: str, number: str) -> str:
        """A number as an operand of this type."""
        return number

    def _fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def _write(self, instruction: str) -> None:
        self.lines.append("  " + instruction)

    def _value(self, kind: str, instruction: str) -> Operand:
        register = self._fresh()
        self.lines.append(f"  {register} = {instruction}")
        return kind, register

    def _call(self, node: ast.AST, name: str, operands: list[Operand]) -> Operand:
        try:
            call = call_of(name, tuple(kind for kind, _ in operands))
        except Misfit as error:
            raise TranslationError(str(error), node) from None
        if not call.text:
            return call.result, operands[0][1]
        for need in call.needs:
            self.needs[need] = None
        register = self._fresh()
        self._write(call.text.format(*(value for _, value in operands), r=register))
        return call.result, register

    def _place(self, node: ast.expr) -> tuple[str, str]:
        """The address of an element, and its type."""
        if not isinstance(node, ast.Subscript):
            raise TranslationError("no element of an array", node)
        kind, pointer = self._expression(node.value)
        index, place = self._expression(node.slice)
        if kind[0] != "*" or index != "i64":
            raise TranslationError(f"{kind} is indexed with {index}", node)
        element = kind[1:]
        return self._value(kind, f"getelementptr {llvm_type(element)}, ptr {pointer}, i64 {place}")[
            1
        ], element

    def _load(self, place: str, kind: str) -> Operand:
        return self._value(kind, f"load {llvm_type(kind)}, ptr {place}")

    def _store(self, node: ast.AST, place: str, kind: str, value: Operand) -> None:
        if value[0] == "b1" and in_memory("b1") == kind:
            value = self._cast(value, kind)
        if value[0] != kind:
            raise TranslationError(f"{value[0]} is stored where {kind} is", node)
        self._write(f"store {llvm_type(kind)} {value[1]}, ptr {place}")

    def _expression(self, node: ast.expr) -> Operand:
        match node:
            case ast.Name():
                return self._named(node)
            case ast.Constant(value=bool()):
                return "b1", str(node.value).lower()
            case ast.Constant(value=int()):
                return "i64", str(node.value)
            case ast.Subscript():
                return self._load(*self._place(node))
            case ast.BinOp():
                left, right = self._expression(node.left), self._expression(node.right)
                return self._operator(node, node.op, left, right)
            case ast.UnaryOp():
                return self._unary(node)
            case ast.Compare(ops=[sign], comparators=[other]):
                return self._compare(node, sign, self._expression(node.left), self._expression(other))
            case ast.Call(func=ast.Name(id=name)):
                return self._called(node, name)
        raise TranslationError("no such expression", node)

    def _named(self, node: ast.Name) -> Operand:
        value = self.values.get(node.id)
        if value is not None:
            return value
        if node.id not in self.slots:
            raise TranslationError("the name means nothing here", node)
        kind, slot = self.slots[node.id]
        return self._value(kind, f"load {self._type(kind)}, ptr {slot}")

    def _operator(self, node: ast.AST, sign: ast.operator, left: Operand, right: Operand) -> Operand:
        kind, x = left
        other, y = right
        if kind != other or scalar(kind) not in BITS:
            raise TranslationError(f"operands {kind}, {other}", node)
        word, of = type(sign), scalar(kind)
        if word in ARITHMETIC and of in FLOATS:
            return self._value(kind, f"f{ARITHMETIC[word]} {self._type(kind)} {x}, {y}")
        if word in ARITHMETIC and of in INTEGERS:
            return self._value(kind, f"{ARITHMETIC[word]} {self._type(kind)} {x}, {y}")
        if word is ast.Div and of in FLOATS:
            return self._value(kind, f"fdiv {self._type(kind)} {x}, {y}")
        if word in BITWISE and of not in FLOATS:
            return self._value(kind, f"{BITWISE[word]} {self._type(kind)} {x}, {y}")
        if word in CALLED and of in INTEGERS:
            return self._call(node, CALLED[word], [left, right])
        raise TranslationError(f"no such operator of {kind}", node)

    def _unary(self, node: ast.UnaryOp) -> Operand:
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return "i64", str(-node.operand.value)  # type: ignore[operator]
        return self._unary_of(node, self._expression(node.operand))

    def _unary_of(self, node: ast.UnaryOp, operand: Operand) -> Operand:
        kind, x = operand
        of = scalar(kind)
        match node.op:
            case ast.USub() if of in FLOATS:
                return self._value(kind, f"fneg {self._type(kind)} {x}")
            case ast.USub() if of in INTEGERS:
                return self._value(kind, f"sub {self._type(kind)} {self._literal(kind, '0')}, {x}")
            case ast.Invert() if of in INTEGERS:
                return self._value(kind, f"xor {self._type(kind)} {x}, {self._literal(kind, '-1')}")
            case ast.Not() if of == "b1":
                return self._value(kind, f"xor {self._type(kind)} {x}, {self._literal(kind, 'true')}")
        raise TranslationError(f"no such operator of {kind}", node)

    def _compare(self, node: ast.AST, sign: ast.cmpop, left: Operand, right: Operand) -> Operand:
        kind, x = left
        of = scalar(kind)
        if kind != right[0] or of not in BITS:
            raise TranslationError(f"operands {kind}, {right[0]}", node)
        result = kind.replace(of, "b1")
        of_floats, of_integers = COMPARISONS[type(sign)]
        if of in FLOATS:
            return self._value(result, f"fcmp {of_floats} {self._type(kind)} {x}, {right[1]}")
        if of_integers not in ("eq", "ne"):
            of_integers = ("s" if of[0] == "i" else "u") + of_integers
        return self._value(result, f"icmp {of_integers} {self._type(kind)} {x}, {right[1]}")

    def _condition(self, node: ast.expr) -> str:
        kind, value = self._expression(node)
        if kind != "b1":
            raise TranslationError(f"a condition is b1; got {kind}", node)
        return value

    def _called(self, node: ast.Call, name: str) -> Operand:
        if name in BITS:
            (argument,) = node.args
            value = _literal(argument)
            if value is not None:
                return name, constant(value, name)
            return self._cast(self._expression(argument), name)
        operands = [self._expression(a) for a in node.args]
        if name in ("max", "min"):
            symbol = f"@llvm.s{name}.i64"
            self.needs[f"declare i64 {symbol}(i64, i64)"] = None
            (_, x), (_, y) = operands
            return self._value("i64", f"call i64 {symbol}(i64 {x}, i64 {y})")
        return self._call(node, name, operands)

    def _cast(self, value: Operand, target: str) -> Operand:
        text = cast(value[0], target).text
        if not text:
            return target, value[1]
        register = self._fresh()
        self._write(text.format(value[1], r=register))
        return target, register


def _literal(node: ast.expr) -> float | None:
    """The number that is written there, or None."""
    match node:
        case ast.Constant(value=(int() | float()) as number):
            return number
        case ast.Name() if node.id in NAMED:
            return NAMED[node.id]
        case ast.UnaryOp(op=ast.USub()):
            value = _literal(node.operand)
            return None if value is None else -value
    return None


def constant(value: float, kind: str) -> str:
    """A number as a constant of LLVM: floats by their bits, so that none is rounded twice."""
    if kind == "b1":
        return str(bool(value)).lower()
    if kind in INTEGERS:
        return str(int(value))
    with np.errstate(over="ignore"):
        wide = float(np.float32(value)) if kind == "f32" else float(value)
    return f"0x{struct.unpack('<Q', struct.pack('<d', wide))[0]:016X}"
