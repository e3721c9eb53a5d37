"""Emit Python text from IR: assignments, `if`, `while`, `for`, subscripts, known calls.

The text is what Numba compiles and what `kernel.source()` shows; each line remembers the user's line it
came from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tapedebug._dataclass import dataclass
from tapedebug.compiler.access_tags import AccessTagging
from tapedebug.compiler.access_trace import TraceInfo
from tapedebug.compiler.emit_native import NativeWriter
from tapedebug.compiler.emit_trace import TraceWriter
from tapedebug.compiler.generated_source import GeneratedSource, NameFacts
from tapedebug.compiler.ir import (
    DIAGNOSTICS,
    MEMORY,
    NATIVE,
    Block,
    For,
    Function,
    If,
    Op,
    Value,
    While,
    blocks_of,
    operands,
    walk,
)
from tapedebug.compiler.layout import Layout
from tapedebug.compiler.passes.uniformity import Uniformity, clash, indices_of_additions, invariant, moves_of
from tapedebug.lang import types as t
from tapedebug.lang.lowering import SHORT_FLOATS
from tapedebug.lang.rules import RULES

GRID = 1.3
"""A rounded twin holds float32 numbers divided by this: it errs as much as float32, but elsewhere."""


def emit(
    function: Function,
    layout: Layout,
    *,
    f64: bool = False,
    strided: bool = False,
    guarded: bool = False,
    checked: bool = False,
    tagging: AccessTagging | None = None,
    rounded: bool = False,
    tracing: TraceInfo | None = None,
    facts: bool = False,
) -> GeneratedSource:
    """The text of a function.

    Args:
        function: The IR to print.
        layout: The slots of its arguments.
        f64: Whether float32 becomes float64 throughout: the twin that checks refer to.
        strided: Whether arrays may have any strides; else they are C-contiguous.
        guarded: Whether an index that depends on values in memory is held inside its array: what memory holds
            may not be what it held when the kernel ran. The first element stands for those outside.
        checked: Whether an index outside its array ends the launch, before anything is read or written there.
        tagging: How accesses are tracked; None for not at all.
        rounded: Whether each result of a twin is rounded to a multiple of float32 numbers.
        tracing: The sites of the function's `trace` operations; None if it has none.
        facts: Whether to say what is known of its values where threads run in lockstep, by their names.
    """
    emitter = _Emitter(
        function,
        layout,
        f64,
        strided,
        guarded and not checked,
        checked,
        tagging,
        rounded=f64 and rounded,
        tracing=tracing,
    )
    text = emitter.run()
    return replace(text, facts=emitter.facts()) if facts else text


@dataclass
class _Emitter(NativeWriter, TraceWriter):
    rounded: bool = False

    def run(self) -> GeneratedSource:
        function = self.function
        self.used = {v for block in function.blocks for v in block.yields}
        for node in (n for block in function.blocks for n in walk(block)):
            self.used.update(operands(node))
            for block in blocks_of(node):
                self.used.update(block.yields)
        self.slots = self._kept_slots()
        nodes = (n for block in function.blocks for n in walk(block))
        self.counters = {n.index for n in nodes if isinstance(n, For)}
        stacks = {
            "stack": any(op.kind == "reserve" for op in function.ops()),
            "value_log": any(op.kind == "log_push" for op in function.ops()),
            "starts": function.prelude is not None,
        }
        self.stacks = [*(name for name, has in stacks.items() if has), *self._native_stacks()]
        self._line("def entry(lo, hi, args):")
        self.indent = 1
        self._prologue()
        if function.prelude is not None:
            self._prelude(function.prelude)
        with self._suite(self._thread_loops(backwards=function.backwards)):
            if function.prelude is not None:
                self._line(f"place = get_i64(starts, {self._linear()} - lo)")
            if "stack" in self.stacks:
                self._line("top = 0")
            self._block(function.body)
        self.span = None
        self._tag_epilogue()
        self._trace_epilogue()
        for name in self.stacks:
            self._line(f"stack_free({name})")
        return GeneratedSource(tuple(self.lines), tuple(self.diagnostics))

    def _prelude(self, prelude: Block) -> None:
        """All threads forward, in order; each finds its part of the log again by where it began."""
        self._line("place = 0")
        self._line("stack_ensure(starts, hi - lo)")
        with self._suite(self._thread_loops(backwards=False)):
            self._line(f"put_i64(starts, {self._linear()} - lo, place)")
            self._block(prelude)
            self.span = None
            self._line(f"place = {self._text(prelude.yields[0])}")

    def facts(self) -> NameFacts:
        """Facts about the names in the text, if threads run in lockstep."""
        found = Uniformity(self.function)
        varying = {name for value, name in self.names.items() if found.differs(value)}
        varying |= {self._copy(value) for value in found.copies} | {f"base{tag}" for tag in found.bases}
        varying |= {"top"} if found.top else set()
        same = {value for value in invariant(self.function) if not self._is_guarded(value)}
        return NameFacts(
            tuple(sorted(varying)),
            self._listed(same),
            tuple(sorted(self._sizes())),
            self._listed(indices_of_additions(self.function)),
        )

    def _listed(self, values: set[Value]) -> tuple[str, ...]:
        return tuple(sorted(name for value, name in self.names.items() if value in values))

    def _is_guarded(self, value: Value) -> bool:
        op = value.op
        return op is not None and op.kind == "offset" and any(map(self._at_risk, op.args))

    def _sizes(self) -> Iterator[tuple[str, int]]:
        """The places that are a multiple of a number of components."""
        for op in self.function.ops():
            if op.kind == "offset" and not self.strided:
                size = t.components(self.function.params[op.data[0]].type)
                if size > 1:
                    yield self._name_of(op), size

    # The frame around the body

    def _prologue(self) -> None:
        free = {v for v in self.used if v.op is not None}
        arguments = sorted({(v.op.data, v.type.code) for v in free if v.op and v.op.kind == "argument"})
        for (param, component), code in arguments:
            slot = self.layout.values[param] + component
            read = f"arg_f64(args, {slot})" if code == "f64" else f"args[{slot}]"
            self._line(f"{self._param(param)}_a{component} = {read}")
        extents = {v.op.data for v in free if v.op and v.op.kind == "extent"}
        touched = self._touched() | self._addresses()
        extents |= {(p, a) for p in self._without_adjoint() for a in range(self.function.params[p].type.ndim)}
        for op in self.function.ops():
            if op.kind == "offset":
                param = op.data[0]
                axes = range(len(op.args))
                if self.strided:
                    for axis in axes:
                        touched[f"{self._param(param)}_s{axis}"] = f"args[{self.layout.stride(param, axis)}]"
                else:
                    extents |= {(param, axis) for axis in axes[1:]}
                extents |= {(param, axis) for axis in axes if self.checked or self._at_risk(op.args[axis])}
        for param, axis in sorted(extents):
            self._line(f"{self._param(param)}_n{axis} = args[{self.layout.shape(param, axis)}]")
        for name, read in touched.items():
            self._line(f"{name} = {read}")
        for axis in range(1, self.function.axes):
            self._line(f"d{axis} = args[{axis}]")
        for name in self.stacks:
            self._line(f"{name} = stack_new()")
        for made in self._native_stacks().values():
            self._line(made)
        if self._uses_print_buffer():
            self._line(f"print_buffer = print_buffer_at(args, {self.layout.print_buffer})")
        self._tag_prologue()
        self._trace_prologue()

    def _thread_loops(self, *, backwards: bool) -> int:
        """The loops over threads; innermost the last axis, so that its index needs no division."""

        def over(low: str, high: str) -> str:
            return f"range({high} - 1, {low} - 1, -1)" if backwards else f"range({low}, {high})"

        axes = self.function.axes
        if axes == 1:
            self._line(f"for t in {over('lo', 'hi')}:")
            return 1
        last = axes - 1
        self._line(f"for row in {over(f'lo // d{last}', f'(hi + d{last} - 1) // d{last}')}:")
        self.indent += 1
        left = "row"
        for axis in range(last - 1, 0, -1):
            self._line(f"t{axis} = {left} % d{axis}")
            self._line(f"left{axis} = {left} // d{axis}")
            left = f"left{axis}"
        self._line(f"t0 = {left}")
        self._line(f"first = row * d{last}")
        self._line(f"for t{last} in {over('max(lo - first, 0)', f'min(hi - first, d{last})')}:")
        self.indent -= 1
        return 2

    # Nodes

    def _block(self, block: Block) -> None:
        for node in block.ops:
            self.span = node.span
            match node:
                case Op():
                    self._op(node)
                case If():
                    self._if(node)
                case For():
                    self._for(node)
                case While():
                    self._while(node)

    def _if(self, node: If) -> None:
        self._line(f"if {self._text(node.condition)}:")
        for position, inner in enumerate((node.then, node.orelse)):
            if position and not inner.ops and not node.results:
                continue
            if position:
                self._line("else:")
            with self._suite():
                self._block(inner)
                self.span = node.span
                for result, value in zip(node.results, inner.yields, strict=True):
                    self._line(f"{self._name(result)} = {self._text(value)}")

    def _enter(self, node: For | While) -> None:
        for carried, result, init in zip(node.carried, node.results, node.inits, strict=True):
            self._line(f"{self._name(carried)} = {self._text(init)}")
            # After the loop the variable holds the result.
            self.names[result] = self._name(carried)

    def _advance(self, node: For | While) -> None:
        """Assign the carried variables together: none may be read after it was changed."""
        self.span = node.span
        pairs = moves_of(node)
        moves = [(self._name(carried), self._text(value)) for carried, value in pairs]
        if clash(pairs):
            copies = [self._copy(carried) for carried, _ in pairs]
            for copy, (_, source) in zip(copies, moves, strict=True):
                self._line(f"{copy} = {source}")
            moves = [(target, copy) for copy, (target, _) in zip(copies, moves, strict=True)]
        for target, source in moves:
            self._line(f"{target} = {source}")

    def _copy(self, carried: Value) -> str:
        """Return the name of the next value of a variable; names of the user's end with a number."""
        return f"{self._name(carried)}_next"

    def _for(self, node: For) -> None:
        self._enter(node)
        count = self._text(node.count)
        bounds = f"{count} - 1, -1, -1" if node.reverse else count
        self._line(f"for {self._name(node.index)} in range({bounds}):")
        with self._suite():
            self._block(node.body)
            self._advance(node)

    def _while(self, node: While) -> None:
        self._enter(node)
        self._line("while True:")
        with self._suite():
            self._block(node.test)
            self._line(f"if not {self._text(node.test.yields[0])}:")
            self._line("    break")
            self._block(node.body)
            self._advance(node)

    # Operations

    def _op(self, op: Op) -> None:
        if op.kind in RULES:
            self._rule(op)
        elif op.kind in NATIVE or op.kind == "native_result":
            self._native(op)
        elif op.kind in DIAGNOSTICS:
            self._diagnostic(op)
        elif op.kind == "offset":
            if self.checked:
                self._check(op)
            self._line(f"{self._name_of(op)} = {self._offset(op)}")
        elif op.kind == "inside":
            self._inside(op)
        elif op.kind == "trace":
            self._trace(op)
        elif op.kind in MEMORY:
            self._tag(op)
            self._memory(op)
        else:
            self._keeping(op)

    def _rule(self, op: Op) -> None:
        assert op.result is not None
        kind = op.kind
        if kind in ("to_f16", "to_bf16", "to_f32") and self.f64:
            # An argument was rounded where the kernel ran; the twin computes with that value.
            of_argument = op.args[0].op is not None and op.args[0].op.kind == "argument"
            text = (
                f"f64({kind}({self._text(op.args[0])}))"
                if of_argument
                else f"to_f64({self._text(op.args[0])})"
            )
        elif kind.endswith("_of_bits"):
            text = self._of_bits(op.args[0], op.result.type)
        else:
            if self.f64 and kind.endswith("_f32"):
                kind = kind.removesuffix("f32") + "f64"
            text = RULES[kind].text.format(*(self._text(a) for a in op.args))
        rule = RULES[kind]
        if rule.is_operator:
            text = self._wrapped(text, op.result.type)
        short = self._short(op.result.type)
        if short is not None and not rule.exact:
            text = f"{short.round}({text})"
        if self.rounded and op.result.type is t.float32 and not rule.exact:
            text = f"f64(to_f32(({text}) * f64({GRID}))) * f64({1 / GRID})"
        self._line(f"{self._name(op.result)} = {text}")

    def _of_bits(self, value: Value, target: type[t.Scalar]) -> str:
        """The number of another type that has the bits of a value: those that it has in memory."""
        text = self._text(value)
        if value.type in SHORT_FLOATS:
            text = f"{SHORT_FLOATS[value.type].bits}({text})"
        elif value.type is t.float32 and self.f64:
            text = f"to_f32({text})"
        short = SHORT_FLOATS.get(target)
        text = f"{target.code}_of_bits({text})" if short is None else f"{short.value}(u16_of_bits({text}))"
        return f"f64({text})" if self.f64 and (short is not None or target is t.float32) else text
