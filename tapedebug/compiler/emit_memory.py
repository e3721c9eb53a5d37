"""Emit memory accesses: element addresses, loads, stores, and values that loops keep for the reverse."""

from __future__ import annotations

from tapedebug.compiler.builder import is_free
from tapedebug.compiler.emit_writer import Writer
from tapedebug.compiler.ir import ADJOINT, ADJOINT_DOT, DOT, MEMORY, Op, Value
from tapedebug.lang import types as t
from tapedebug.lang.rules import RULES


class MemoryWriter(Writer):
    """Emits the operations on arrays and on the stacks."""

    def _touched(self) -> dict[str, str]:
        """The pointers that the body uses, and how each is read from the slots."""
        pointers: dict[str, str] = {}
        for op in self.function.ops():
            if op.kind in MEMORY:
                param = op.data[0]
                code = self._stored(t.scalar_of(self.function.params[param].type))
                pointers[self._pointer(op)] = f"ptr_{code}(args, {self._side(op)[1][param]})"
        return dict(sorted(pointers.items()))

    def _side(self, op: Op) -> tuple[str, tuple[int | None, ...]]:
        """Return the suffix of the memory that an operation accesses, and the slots of its pointers."""
        if op.kind in ADJOINT:
            return "adj", self.layout.adjoints
        if op.kind in DOT:
            return "dot", self.layout.dots
        if op.kind in ADJOINT_DOT:
            return "adjdot", self.layout.adjoint_dots
        return "v", self.layout.values

    def _pointer(self, op: Op) -> str:
        return f"{self._param(op.data[0])}_{self._side(op)[0]}"

    def _offset(self, op: Op) -> str:
        param = op.data[0]
        name, size = self._param(param), t.components(self.function.params[param].type)
        indices = [self._index(a, f"{name}_n{axis}") for axis, a in enumerate(op.args)]
        if self.strided:
            return " + ".join(f"{index} * {name}_s{axis}" for axis, index in enumerate(indices))
        place = indices[0]
        for axis, index in enumerate(indices[1:], start=1):
            place = f"({place} * {name}_n{axis} + {index})"
        return f"{place} * {size}" if size > 1 else place

    def _index(self, value: Value, length: str) -> str:
        text = self._text(value)
        return f"inside({text}, {length})" if self._at_risk(value) else text

    def _at_risk(self, value: Value) -> bool:
        """True if an index must be guarded: it is not made of threads, arguments and loop counters alone."""
        if not self.guarded or is_free(value) or value in self.counters:
            return False
        return value.op is None or value.op.kind not in RULES or any(map(self._at_risk, value.op.args))

    def _memory(self, op: Op) -> None:
        component = op.data[1]
        place = self._text(op.args[0]) + (f" + {component}" if component else "")
        target = f"{self._pointer(op)}[{place}]"
        match op.kind.partition("_")[0]:
            case "load":
                assert op.result is not None
                self._line(f"{self._name_of(op)} = {self._read(target, op.result.type)}")
            case "store":
                self._line(f"{target} = {self._bits(self._text(op.args[1]), op.args[1].type)}")
            case "add" if self._short(op.args[1].type) is not None:
                kind = op.args[1].type
                total = f"{self._read(target, kind)} + {self._text(op.args[1])}"
                self._line(f"{target} = {self._bits(total, kind)}")
            case "add":
                self._line(f"{target} += {self._text(op.args[1])}")
            case "atomic":
                self._atomic(op, target)

    def _read(self, target: str, kind: type[t.Scalar]) -> str:
        """The value of what memory holds: a truth value is a byte there, a float of 16 bits an integer."""
        if kind is t.bool:
            return f"to_b1({target})"
        short = self._short(kind)
        return target if short is None else f"{short.value}({target})"

    def _bits(self, text: str, kind: type[t.Scalar]) -> str:
        """Return the text of a value as memory stores it."""
        short = self._short(kind)
        return text if short is None else f"{short.bits}({text})"

    def _atomic(self, op: Op, target: str) -> None:
        """Threads of one entry run in order, so that a plain addition is atomic."""
        value, kind = self._text(op.args[1]), op.args[1].type
        if op.result not in self.used and self._short(kind) is None:
            self._line(f"{target} += {value}")
            return
        before = self._read(target, kind)
        if op.result in self.used:
            self._line(f"{self._name_of(op)} = {before}")
            before = self._name_of(op)
        total = f"{before} + {value}"
        self._line(f"{target} = {self._bits(self._wrapped(total, kind), kind)}")

    def _wrapped(self, text: str, kind: type[t.Scalar]) -> str:
        """The text, its value in the integer's own width."""
        return f"{kind.code}({text})" if kind in t.INTEGERS and kind is not t.int64 else text

    def _kept_slots(self) -> dict[int, dict[int, int]]:
        """For each tag, the places of the slots that are still saved: dead code removal drops the others."""
        slots: dict[int, dict[int, int]] = {}
        for op in self.function.ops():
            if op.kind == "save":
                tag, slot = op.data
                slots.setdefault(tag, {}).setdefault(slot, len(slots.get(tag, {})))
        return slots

    def _keeping(self, op: Op) -> None:
        if op.kind == "log_push":
            code = self._code(op.args[1].type)
            self._line(f"stack_ensure(value_log, {self._text(op.args[0])} + 1)")
            self._line(f"put_{code}(value_log, {self._text(op.args[0])}, {self._text(op.args[1])})")
            return
        if op.kind == "log_load":
            assert op.result is not None
            code = self._code(op.result.type)
            self._line(f"{self._name(op.result)} = get_{code}(value_log, {self._text(op.args[0])})")
            return
        tag = op.data[0]
        places = self.slots.get(tag, {})
        base, width = f"base{tag}", len(places)
        match op.kind:
            case "reserve":
                self._line(f"{base} = top")
                if op.args:
                    self._line(f"stack_ensure(stack, {base} + {self._text(op.args[0])} * {width})")
                    self.counted.add(tag)
            case "save":
                place = f"{base} + {self._text(op.args[0])} * {width} + {places[op.data[1]]}"
                if tag not in self.counted:
                    self._line(f"stack_ensure(stack, {place} + 1)")
                code = self._code(op.args[1].type)
                self._line(f"put_{code}(stack, {place}, {self._text(op.args[1])})")
            case "commit":
                self._line(f"top = {base} + {self._text(op.args[0])} * {width}")
            case "restore":
                assert op.result is not None
                place = f"{base} + {self._text(op.args[0])} * {width} + {places[op.data[1]]}"
                self._line(f"{self._name(op.result)} = get_{self._code(op.result.type)}(stack, {place})")
            case "release":
                self._line(f"top = {base}")
