"""Generated text to LLVM assembly: its syntax tree is walked once, and instructions are written as strings.

The text is a tiny language: every name has one type, the names that are assigned once are LLVM's registers,
and the others are stack slots that LLVM turns into registers. Operators take operands of one type and compute
in it, so that integers wrap; nothing is converted but by a call that says so.
"""

from __future__ import annotations

import ast
import struct
from collections import Counter

import numpy as np

from tapedebug.compiler.llvm.library import (
    BITS,
    FLOATS,
    INTEGERS,
    Misfit,
    call_of,
    cast,
    in_memory,
    llvm_type,
)

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


def translated(code: str, symbol: str) -> str:
    """LLVM assembly of a generated text: `void symbol(i64 lo, i64 hi, ptr args)` and what it calls.

    Raises:
        TranslationError: The text is none that the emitter writes.
    """
    (function,) = ast.parse(code).body
    assert isinstance(function, ast.FunctionDef)
    return _Translator(symbol).run(function)


class _Translator:
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

    def run(self, function: ast.FunctionDef) -> str:
        nodes = [n.targets[0] for n in ast.walk(function) if isinstance(n, ast.Assign)]
        times = Counter(n.id for n in nodes if isinstance(n, ast.Name))
        self.many = {name for name, number in times.items() if number > 1}
        self._suite(function.body)
        header = f"define void @{self.symbol}(i64 %lo, i64 %hi, ptr %args) nounwind {{\nstart:"
        body = [header, *self.head, *self.lines, "  ret void", "}"]
        return "\n".join([*self.needs, *body]) + "\n"

    # Instructions

    def _fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def _write(self, instruction: str) -> None:
        self.lines.append("  " + instruction)

    def _value(self, kind: str, instruction: str) -> Operand:
        register = self._fresh()
        self.lines.append(f"  {register} = {instruction}")
        return kind, register

    def _begin(self, label: str) -> None:
        """A new block; what ended the one before was written."""
        self.lines.append(f"{label}:")
        self.label = label
        self.open = True

    def _jump(self, label: str) -> None:
        if self.open:
            self._write(f"br label %{label}")
        self.open = False

    def _labels(self, *names: str) -> list[str]:
        self.count += 1
        return [f"{name}{self.count}" for name in names]

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

    # Statements

    def _suite(self, body: list[ast.stmt]) -> None:
        """Statements of one block; the names that are assigned in it mean nothing after it."""
        before = len(self.known)
        for node in body:
            self._statement(node)
        for name in self.known[before:]:
            del self.values[name]
        del self.known[before:]

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign():
                self._assign(node)
            case ast.AugAssign(target=ast.Subscript()):
                place, kind = self._place(node.target)
                old = self._load(place, kind)
                self._store(
                    node, place, kind, self._operator(node, node.op, old, self._expression(node.value))
                )
            case ast.Expr(value=ast.Call()):
                self._expression(node.value)
            case ast.If():
                self._if(node)
            case ast.For():
                self._for(node)
            case ast.While(test=ast.Constant(value=True)):
                self._while(node)
            case ast.Break() if self.exits:
                self._jump(self.exits[-1])
            case ast.Return(value=None):
                self._write("ret void")
                self.open = False
            case ast.Pass():
                pass
            case _:
                raise TranslationError("no such statement", node)

    def _assign(self, node: ast.Assign) -> None:
        (target,) = node.targets
        if isinstance(target, ast.Subscript):
            place, kind = self._place(target)
            self._store(node, place, kind, self._expression(node.value))
            return
        assert isinstance(target, ast.Name)
        if isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "stack_new":
            self._define(target.id, self._stack(target.id))
            return
        value = self._expression(node.value)
        if target.id not in self.many:
            self._define(target.id, value)
            return
        if target.id not in self.slots:
            self.slots[target.id] = value[0], f"%{target.id}.slot"
            self.head.append(f"  %{target.id}.slot = alloca {llvm_type(value[0])}")
        kind, slot = self.slots[target.id]
        if kind != value[0]:
            raise TranslationError(f"`{target.id}` is {kind}; got {value[0]}", node)
        self._write(f"store {llvm_type(kind)} {value[1]}, ptr {slot}")

    def _define(self, name: str, value: Operand) -> None:
        self.values[name] = value
        self.known.append(name)

    def _stack(self, name: str) -> Operand:
        """An empty stack, in the frame of the entry."""
        self.head.append(f"  %{name} = alloca [2 x i64]")
        self._write(f"store [2 x i64] zeroinitializer, ptr %{name}")
        return "*i64", f"%{name}"

    def _if(self, node: ast.If) -> None:
        then, orelse, done = self._labels("then", "else", "done")
        if not node.orelse:
            orelse = done
        self._write(f"br i1 {self._condition(node.test)}, label %{then}, label %{orelse}")
        self._begin(then)
        self._suite(node.body)
        self._jump(done)
        if node.orelse:
            self._begin(orelse)
            self._suite(node.orelse)
            self._jump(done)
        self._begin(done)

    def _while(self, node: ast.While) -> None:
        again, done = self._labels("while", "done")
        self._jump(again)
        self._begin(again)
        self.exits.append(done)
        self._suite(node.body)
        self.exits.pop()
        self._jump(again)
        self._begin(done)

    def _for(self, node: ast.For) -> None:
        """A counting loop, tested at its end: the form that LLVM's loop passes want."""
        assert isinstance(node.target, ast.Name)
        start, stop, step = self._range(node.iter)
        body, done = self._labels("for", "done")
        enters = self._value("b1", f"icmp {'slt' if step > 0 else 'sgt'} i64 {start}, {stop}")[1]
        before = self.label
        self._write(f"br i1 {enters}, label %{body}, label %{done}")
        self._begin(body)
        counter = self._fresh()
        at = len(self.lines)
        outer = self.values.get(node.target.id)
        self.values[node.target.id] = "i64", counter
        self.exits.append(done)
        self._suite(node.body)
        self.exits.pop()
        if outer is None:
            del self.values[node.target.id]
        else:
            self.values[node.target.id] = outer
        following = self._value("i64", f"add nsw i64 {counter}, {step}")[1]
        again = self._value("b1", f"icmp {'slt' if step > 0 else 'sgt'} i64 {following}, {stop}")[1]
        self.lines.insert(at, f"  {counter} = phi i64 [ {start}, %{before} ], [ {following}, %{self.label} ]")
        self._write(f"br i1 {again}, label %{body}, label %{done}")
        self._begin(done)

    def _range(self, node: ast.expr) -> tuple[str, str, int]:
        """Start, stop and step: 1 or -1."""
        if not isinstance(node, ast.Call) or getattr(node.func, "id", "") != "range":
            raise TranslationError("no range", node)
        step = 1
        if len(node.args) == 3:
            if ast.unparse(node.args.pop()) != "-1":
                raise TranslationError("the step is 1 or -1", node)
            step = -1
        values = [self._expression(a) for a in node.args]
        if any(kind != "i64" for kind, _ in values):
            raise TranslationError(f"a range is of i64; got {values}", node)
        *start, stop = (value for _, value in values)
        return (start[0] if start else "0"), stop, step

    # Memory

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

    # Expressions

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
        return self._value(kind, f"load {llvm_type(kind)}, ptr {slot}")

    def _operator(self, node: ast.AST, sign: ast.operator, left: Operand, right: Operand) -> Operand:
        kind, x = left
        other, y = right
        if kind != other or kind not in BITS:
            raise TranslationError(f"operands {kind}, {other}", node)
        word = type(sign)
        if word in ARITHMETIC and kind in FLOATS:
            return self._value(kind, f"f{ARITHMETIC[word]} {llvm_type(kind)} {x}, {y}")
        if word in ARITHMETIC and kind in INTEGERS:
            return self._value(kind, f"{ARITHMETIC[word]} {llvm_type(kind)} {x}, {y}")
        if word is ast.Div and kind in FLOATS:
            return self._value(kind, f"fdiv {llvm_type(kind)} {x}, {y}")
        if word in BITWISE and kind not in FLOATS:
            return self._value(kind, f"{BITWISE[word]} {llvm_type(kind)} {x}, {y}")
        if word in CALLED and kind in INTEGERS:
            return self._call(node, CALLED[word], [left, right])
        raise TranslationError(f"no such operator of {kind}", node)

    def _unary(self, node: ast.UnaryOp) -> Operand:
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return "i64", str(-node.operand.value)  # type: ignore[operator]
        kind, x = self._expression(node.operand)
        match node.op:
            case ast.USub() if kind in FLOATS:
                return self._value(kind, f"fneg {llvm_type(kind)} {x}")
            case ast.USub() if kind in INTEGERS:
                return self._value(kind, f"sub {llvm_type(kind)} 0, {x}")
            case ast.Invert() if kind in INTEGERS:
                return self._value(kind, f"xor {llvm_type(kind)} {x}, -1")
            case ast.Not() if kind == "b1":
                return self._value(kind, f"xor i1 {x}, true")
        raise TranslationError(f"no such operator of {kind}", node)

    def _compare(self, node: ast.AST, sign: ast.cmpop, left: Operand, right: Operand) -> Operand:
        kind, x = left
        if kind != right[0] or kind not in BITS:
            raise TranslationError(f"operands {kind}, {right[0]}", node)
        of_floats, of_integers = COMPARISONS[type(sign)]
        if kind in FLOATS:
            return self._value("b1", f"fcmp {of_floats} {llvm_type(kind)} {x}, {right[1]}")
        if of_integers not in ("eq", "ne"):
            of_integers = ("s" if kind[0] == "i" else "u") + of_integers
        return self._value("b1", f"icmp {of_integers} {llvm_type(kind)} {x}, {right[1]}")

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
