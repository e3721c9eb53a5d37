"""Translate generated text to LLVM assembly in one walk over its syntax tree.

The text is a tiny language: every name has one type, the names that are assigned once are LLVM's registers,
and the others are stack slots that LLVM turns into registers. Operators take operands of one type and compute
in it, so that integers wrap; nothing is converted but by a call that says so.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from tapedebug._syntax import parsed
from tapedebug.compiler.llvm.expressions import Expressions, Operand, TranslationError
from tapedebug.lang.lowering import llvm_type


def translated(code: str | ast.Module, symbol: str) -> str:
    """LLVM assembly of a generated text: `void symbol(i64 lo, i64 hi, ptr args)` and what it calls.

    Raises:
        TranslationError: The text is none that the emitter writes.
    """
    (function,) = (parsed(code) if isinstance(code, str) else code).body
    assert isinstance(function, ast.FunctionDef)
    return Translator(symbol).run(function)


class Translator(Expressions):
    """Writes the blocks of a function.

    Attributes:
        attributes: The attributes of the function.
    """

    attributes = "nounwind"

    def run(self, function: ast.FunctionDef) -> str:
        """LLVM assembly of a function of generated text."""
        times = Counter(_assigned(function.body))
        self.many = {name for name, number in times.items() if number > 1}
        self._suite(function.body)
        self._end()
        header = f"define void @{self.symbol}(i64 %lo, i64 %hi, ptr %args) {self.attributes} {{\nstart:"
        body = [header, *self.head, *self.lines, "  ret void", "}"]
        return "\n".join([*self.needs, *body]) + "\n"

    def _end(self) -> None:
        """Write the end of the function, after the last statement."""

    # Blocks

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
        self._branch(node, self._condition(node.test))

    def _branch(self, node: ast.If, condition: str) -> None:
        """A branch on a condition that is known."""
        then, orelse, done = self._labels("then", "else", "done")
        self._write(f"br i1 {condition}, label %{then}, label %{orelse if node.orelse else done}")
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
            if ast.unparse(node.args[2]) != "-1":
                raise TranslationError("the step is 1 or -1", node)
            step = -1
        values = [self._expression(a) for a in node.args[:2]]
        if any(kind != "i64" for kind, _ in values):
            raise TranslationError(f"a range is of i64; got {values}", node)
        *start, stop = (value for _, value in values)
        return (start[0] if start else "0"), stop, step


def _assigned(body: list[ast.stmt]) -> Iterator[str]:
    """The names that statements assign, once for each assignment."""
    for node in body:
        if isinstance(node, ast.Assign):
            (target,) = node.targets
            if isinstance(target, ast.Name):
                yield target.id
        else:
            yield from _assigned(getattr(node, "body", []))
            yield from _assigned(getattr(node, "orelse", []))
