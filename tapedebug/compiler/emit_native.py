"""Emit calls of native functions: fill a frame, call, read the results."""

from __future__ import annotations

from tapedebug.compiler.emit_memory import MemoryWriter
from tapedebug.compiler.ir import NATIVE, Op
from tapedebug.compiler.native.function import NativeCall
from tapedebug.compiler.native.unit import Word
from tapedebug.lang import types as t


class NativeWriter(MemoryWriter):
    """Emits calls of native functions."""

    def _calls(self) -> list[NativeCall]:
        calls = (op.data[0] for op in self.function.ops() if op.kind in NATIVE)
        return [call for call in calls if not call.by_value]

    def _native_stacks(self) -> dict[str, str]:
        """The stacks that calls need, and what makes each ready."""
        calls = self._calls()
        if not calls:
            return {}
        size = max(len(call.words) for call in calls)
        needed = {"frame": f"stack_ensure(frame, {size})"}
        for param in self._without_adjoint():
            name, axes = self._param(param), self.function.params[param].type.ndim
            lengths = " * ".join(f"{name}_n{axis}" for axis in range(axes))
            size = t.components(self.function.params[param].type)
            needed[f"{name}_none"] = f"stack_zeros({name}_none, {lengths} * {size})"
        return needed

    def _without_adjoint(self) -> list[int]:
        """Arrays without a gradient whose adjoints a snippet names: zeros stand for them, and are dropped."""
        found: set[int] = set()
        for call in self._calls():
            named = {call.params[w.name] for w in call.words if w.kind == "array_adjoint"}
            found |= named - call.active
        return sorted(found)

    def _addresses(self) -> dict[str, str]:
        """The addresses of arrays that calls are given, and how each is read from the slots."""
        found: dict[str, str] = {}
        for call in self._calls():
            for word in call.words:
                if word.kind not in ("array", "array_adjoint"):
                    continue
                param = call.params[word.name]
                adjoint = word.kind == "array_adjoint"
                if not adjoint or param in call.active:
                    slot = self.layout.adjoints[param] if adjoint else self.layout.values[param]
                    found[self._address(call, word)] = f"args[{slot}]"
        return dict(sorted(found.items()))

    def _address(self, call: NativeCall, word: Word) -> str:
        name = self._param(call.params[word.name])
        if word.kind == "array":
            return f"{name}_at"
        active = call.params[word.name] in call.active
        return f"{name}_adj_at" if active else f"stack_address({name}_none)"

    def _native(self, op: Op) -> None:
        if op.kind == "native_result":
            self._native_result(op)
            return
        call: NativeCall = op.data[0]
        if call.by_value:
            return
        given = iter(op.args)
        for place, word in enumerate(call.words):
            if word.kind in ("result", "status"):
                continue
            value = next(given)
            if word.scalar is not None:
                self._line(f"put_{self._code(word.scalar)}(frame, {place}, {self._text(value)})")
                continue
            scalar = t.scalar_of(self.function.params[call.params[word.name]].type)
            size = 8 if self._code(scalar) == "f64" else t.bits_of(scalar) // 8
            offset = self._text(value)
            moved = "" if offset == "0" else f" + {offset} * {size}"
            self._line(f"put_i64(frame, {place}, {self._address(call, word)}{moved})")
        self._line(f"{call.native.symbol(call.variant, f64=self.f64)}(frame)")

    def _native_result(self, op: Op) -> None:
        assert op.result is not None
        call: NativeCall = op.data[0]
        place: int = op.data[1]
        if not call.by_value:
            self._line(f"{self._name_of(op)} = get_{self._code(op.result.type)}(frame, {place})")
            return
        token = op.args[0].op
        assert token is not None
        symbol = call.native.value_symbol(call.variant, place, f64=self.f64)
        self._line(f"{self._name_of(op)} = {symbol}({', '.join(map(self._text, token.args))})")
