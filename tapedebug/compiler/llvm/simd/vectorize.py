"""Translate generated text to vector LLVM: consecutive threads in lockstep, one a lane.

LLVM's own vectoriser takes the innermost loop, and gives up on loops over memory that it cannot tell apart,
on vectors of the user's and on functions; here the loop over threads is the one that is vectorised, always.
Where all lanes take a branch it is a branch; where only some do, the others are masked. A loop runs until the
last lane has left it. Each lane computes what its thread computes, in the same order; only sums over lanes
are added in another.

Whether threads may run in lockstep is for `passes.memory_regions` to say.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable

from tapedebug._syntax import parsed
from tapedebug.compiler.generated_source import SimdLoop
from tapedebug.compiler.llvm.expressions import Operand, TranslationError
from tapedebug.compiler.llvm.instruction_types import ALIGNED_STACK
from tapedebug.compiler.llvm.simd.gathered_indices import NotWorthIt, plain
from tapedebug.compiler.llvm.simd.loop_names import LoopNames
from tapedebug.compiler.llvm.simd.vector_memory import AHEAD as AHEAD
from tapedebug.compiler.llvm.simd.vector_memory import FETCHED, VectorMemory
from tapedebug.compiler.llvm.simd.vector_values import WIDEST, LinearValue

TWICE = 700
"""Statements up to which a loop's body is written twice: for all lanes, and for the last threads or those
that run one after the other."""
SHORT = 40
"""Statements up to which a block of threads is two of the widest vectors."""
SCATTERED = 70
"""Instructions that a kernel has to have for each addition that is made for one lane after the other, or to
elements far apart: with fewer it is as fast, or faster, thread by thread."""
LONG = 100
"""Instructions of a block of threads from which what the next ones access is fetched ahead."""
CALLED = 100
"""Instructions of a vector function, about, called or inline."""
FLAT = 6
"""Statements up to which a branch without memory is computed for all lanes."""


def vectorize(code: str | ast.Module, symbol: str, lanes: SimdLoop) -> str:
    """LLVM assembly of a generated text whose innermost loop over threads is in lanes.

    Args:
        code: The text.
        symbol: The name of the function.
        lanes: Which loop that is, and how it is compiled.

    Raises:
        TranslationError: The text has something that has no form in lanes.
    """
    (function,) = (parsed(code) if isinstance(code, str) else code).body
    assert isinstance(function, ast.FunctionDef)
    names = LoopNames(function, lanes)
    try:
        return _widest(function, symbol, names, lanes)
    except NotWorthIt:
        if not names.scattering or names.statements > TWICE:
            raise
    leaving = _Vectorizer(symbol, names, lanes.bits, math=lanes.math, leaves=True)
    needs, left = plain(function, leaving.plain)
    leaving.needs.update(dict.fromkeys(needs))
    return leaving.run(function) + left


def _widest(function: ast.FunctionDef, symbol: str, names: LoopNames, lanes: SimdLoop) -> str:
    """Vectors two by two, where there is room: what comes once for each block comes half as often.

    The widest ones only where one function is computed inline, whose branch then comes half as often: of two
    functions, vectors two by two take 4 % more time.
    """
    one = _Vectorizer(symbol, names, lanes.bits, math=lanes.math)
    text = "" if lanes.bits < WIDEST else one.run(function)
    if lanes.bits < WIDEST or (len(one.inline) == 1 and not one.crowded and _is_short(names)):
        two = _Vectorizer(symbol, names, 2 * lanes.bits, math=lanes.math)
        twice = two.run(function)
        if not two.crowded:
            return twice
    return text or one.run(function)


def _is_short(names: LoopNames) -> bool:
    return not names.loops and names.statements <= SHORT


class _Vectorizer(VectorMemory):
    """Writes the blocks of a function."""

    attributes = f"nounwind {ALIGNED_STACK}"

    def __init__(self, symbol: str, names: LoopNames, bits: int, *, math: bool, leaves: bool = False) -> None:
        super().__init__(symbol, names, bits, math=math, leaves=leaves)
        self.set: dict[str, None] = {}
        """Variables that the block of threads has set so far."""
        self._outermost = False
        """True between statements that are in no branch or loop of the block of threads."""

    # Statements

    def _suite(self, body: list[ast.stmt]) -> None:
        same = dict(self.same)
        super()._suite(body)
        if self._inside:
            self._flush_and_forget()
        self.same = same

    def _statement(self, node: ast.stmt) -> None:
        if not self._inside:
            super()._statement(node)
        elif not self._outermost:
            self._lanes_statement(node)
        else:
            at, before = len(self.lines), len(self.set)
            self._outermost = False
            self._lanes_statement(node)
            self._outermost = True
            if not isinstance(node, ast.Assign):
                # Branches and loops may not be entered. Zeros at the start of the function would do as well,
                # but LLVM's time for a variable grows with the distance to them.
                self.lines[at:at] = self._zeros(itertools.islice(self.set, before, None))

    def _zeros(self, names: Iterable[str]) -> list[str]:
        """Return the lines that set variables to zero."""
        slots = (self.slots[name] for name in names)
        return [f"  store {self._type(kind)} zeroinitializer, ptr {slot}" for kind, slot in slots]

    def _lanes_statement(self, node: ast.stmt) -> None:
        match node:
            case ast.AugAssign(target=ast.Subscript() as target, op=ast.Add()):
                self._store_element(node, target, self._expression(node.value), adds=True)
            case ast.AugAssign() | ast.Return():
                raise TranslationError("not in lanes", node)
            case ast.If():
                self._flush_and_forget()
                super()._statement(node)
            case ast.For() | ast.While():
                self._flush_and_forget()
                self.loops += 1
                super()._statement(node)
                self.loops -= 1
                self.changed = True
            case _:
                super()._statement(node)

    def _assign(self, node: ast.Assign) -> None:
        (target,) = node.targets
        if not self._inside:
            super()._assign(node)
        elif isinstance(target, ast.Subscript):
            self._store_element(node, target, self._expression(node.value), adds=False)
        else:
            assert isinstance(target, ast.Name)
            self._set(node, target.id, self._expression(node.value))

    def _set(self, node: ast.Assign, name: str, value: Operand) -> None:
        """Give a name its value: in all lanes the first time, then in those that run."""
        if name not in self.many:
            self._define(name, value)
            return
        if name in self.names.varying:
            value = "~" + value[0].lstrip("~"), self._broadcast(value)
        elif value[0][0] == "~":
            raise TranslationError(f"`{name}` differs between lanes", node)
        if name not in self.slots:
            self.slots[name] = value[0], f"%{name}.slot"
            self.head.append(f"  %{name}.slot = alloca {self._type(value[0])}")
        self.set[name] = None
        kind, slot = self.slots[name]
        if kind != value[0]:
            raise TranslationError(f"`{name}` is {kind}; got {value[0]}", node)
        register, of = value[1], self._type(kind)
        if kind[0] == "~" and self.mask is not None and self.names.first[name] is not node:
            old = self._value("", f"load {of}, ptr {slot}")[1]
            text = f"select {self._all_lanes()} {self.mask}, {of} {register}, {of} {old}"
            register = self._value("", text)[1]
        self._write(f"store {of} {register}, ptr {slot}")

    # Threads

    def _for(self, node: ast.For) -> None:
        assert isinstance(node.target, ast.Name)
        if node.target.id == self.names.loop:
            self._inside = True
            self._threads(node)
            self._inside = False
        elif self._inside and self.names.differs(node.iter):
            self._as_long_as_the_last(node)
        else:
            super()._for(node)

    def _threads(self, node: ast.For) -> None:
        """The loop over threads: blocks of as many as there are lanes, and what is left at the end."""
        start, stop, step = self._range(node.iter)
        if step != 1:
            raise TranslationError("not in lanes", node)
        width = self.width
        span = self._value("i64", f"sub i64 {start}, {stop}")[1]
        count = self._value("i64", f"sub i64 0, {span}")[1]
        count = self._value("i64", f"call i64 @llvm.smax.i64(i64 {count}, i64 0)")[1]
        leaves = self.leaves
        if leaves and (start, stop) != ("%lo", "%hi"):
            raise NotWorthIt("not worth it in lanes", node)
        twice = leaves or self.names.statements <= TWICE
        rounded = count if twice else self._value("i64", f"add i64 {count}, {width - 1}")[1]
        whole = self._value("i64", f"and i64 {rounded}, -{width}")[1]
        end = self._value("i64", f"add i64 {start}, {whole}")[1]
        body, done, tail, after = self._labels("block", "blocks", "rest", "threads")
        some = self._value("b1", f"icmp slt i64 {start}, {end}")[1]
        before = self.label
        self._write(f"br i1 {some}, label %{body}, label %{done}")
        self._begin(body)
        first = self._fresh()
        at = len(self.lines)
        self._block(node, first, None if twice else stop)
        if not self._is_long(at):
            self.lines[at:] = [line for line in self.lines[at:] if not line.endswith(FETCHED)]
        worth = self.names.loops or self.scattered * SCATTERED <= len(self.lines) - at
        if not worth or (leaves and not self.left):
            raise NotWorthIt("not worth it in lanes", node)
        following = self._after_block(first, end)
        again = self._value("b1", f"icmp slt i64 {following}, {end}")[1]
        self.lines.insert(at, f"  {first} = phi i64 [ {start}, %{before} ], [ {following}, %{self.label} ]")
        self._write(f"br i1 {again}, label %{body}, label %{done}")
        self._begin(done)
        if not twice:
            return
        left = self._value("b1", f"icmp slt i64 {end}, {stop}")[1]
        self._write(f"br i1 {left}, label %{tail}, label %{after}")
        self._begin(tail)
        if leaves:
            self._run_plain(end, stop)
        else:
            self._block(node, end, stop)
        self._jump(after)
        self._begin(after)

    def _is_long(self, at: int) -> bool:
        """True if a block of threads has more instructions than a processor's reorder window."""
        instructions = sum(not line.endswith(FETCHED) for line in self.lines[at:])
        return instructions + (self.called + len(self.inline)) * CALLED > LONG

    def _block(self, node: ast.For, first: str, stop: str | None) -> None:
        """A block of threads, from the first one; those from `stop` on do not run."""
        of = self._type("~i64")
        numbers = ", ".join(f"i64 {lane}" for lane in range(self.width))
        threads = self._value("~i64", f"add {of} {self._broadcast(('i64', first))}, <{numbers}>")
        self.linear_values[threads[1]] = LinearValue(first, 1, None, self.names.loop, rises=True)
        if stop is not None:
            limit = self._broadcast(("i64", stop))
            self.mask = self._value("~b1", f"icmp slt {of} {threads[1]}, {limit}")[1]
        self.values[self.names.loop] = threads
        self.changed = False
        self.set.clear()
        self._outermost = True
        self._suite(node.body)
        self._outermost = False
        del self.values[self.names.loop]
        self.mask = None

    # Branches

    def _if(self, node: ast.If) -> None:
        condition = self._expression(node.test)
        if self._inside and isinstance(node.body[-1], ast.Return):
            self._end_where(node, condition)
            return
        if not self._inside or condition[0] == "b1":
            self._branch(node, condition[1])
            return
        outer, no, at = self.mask, "", len(self.lines)
        if node.orelse:
            no = self._value(
                "~b1", f"xor {self._all_lanes()} {condition[1]}, {self._literal('~b1', 'true')}"
            )[1]
        if _is_flat(node):
            self._under(self._both(outer, condition[1]), node.body)
            if node.orelse:
                self._under(self._both(outer, no), node.orelse)
        elif outer is None:
            self._three_ways(node, condition[1], no)
        else:
            self._where(condition[1], node.body)
            if node.orelse:
                self._where(no, node.orelse)
        self.mask = outer
        # Variables of a branch that no lane takes must not keep values of another block of threads.
        self.lines[at:at] = self._zeros(sorted(self.names.born(node) & self.slots.keys()))

    def _end_where(self, node: ast.If, condition: Operand) -> None:
        """End the function where a condition holds in any lane that runs."""
        leaves, stays = self._labels("leave", "stay")
        some = self._any(self._broadcast(condition))
        self._write(f"br i1 {some}, label %{leaves}, label %{stays}")
        self._begin(leaves)
        self._inside = False
        for statement in node.body:
            super()._statement(statement)
        self._inside = True
        self._begin(stays)

    def _under(self, mask: str | None, body: list[ast.stmt]) -> None:
        self.mask = mask
        self._suite(body)

    def _where(self, condition: str, body: list[ast.stmt]) -> None:
        """Statements for the lanes that are in a mask, if there are any."""
        outer = self.mask
        mask = self._both(outer, condition)
        self._either(self._any(condition), lambda: self._under(mask, body), lambda: None)
        self.mask = outer

    def _three_ways(self, node: ast.If, condition: str, no: str) -> None:
        """A branch where all lanes run: all take it, none does, or some."""

        def mixed() -> None:
            self._where(condition, node.body)
            if node.orelse:
                self._where(no, node.orelse)

        def some_or_none() -> None:
            self._either(lambda: self._any(condition), mixed, lambda: self._under(None, node.orelse))

        self._either(
            lambda: self._every(condition),
            lambda: self._under(None, node.body),
            some_or_none if node.orelse else mixed,
            self.facts.sure(self.facts.of.get(condition), holds=True),
        )

    # Loops

    def _while(self, node: ast.While) -> None:
        if not self._inside:
            super()._while(node)
            return
        test = next(i for i, inner in enumerate(node.body) if _leaves(inner))
        leaving = node.body[test]
        assert isinstance(leaving, ast.If)
        if not self.names.differs(leaving.test):
            super()._while(node)
            return
        outer, same = self.mask, dict(self.same)
        of = self._all_lanes()
        slot = f"{self._fresh()}.run"
        self.head.append(f"  {slot} = alloca {of}")
        self._write(f"store {of} {self._lanes()}, ptr {slot}")
        again, on, done = self._labels("while", "on", "done")
        self._jump(again)
        self._begin(again)
        self.mask = self._value("~b1", f"load {of}, ptr {slot}")[1]
        before = len(self.known)
        for statement in node.body[:test]:
            self._statement(statement)
        self._flush_and_forget()
        stays = self._stays(leaving)
        self.mask = self._both(self.mask, stays)
        self._write(f"store {of} {self.mask}, ptr {slot}")
        some = self._value("b1", f"icmp ne i{self.width} {self._bits(self.mask)}, 0")[1]
        self._write(f"br i1 {some}, label %{on}, label %{done}")
        self._begin(on)
        for statement in node.body[test + 1 :]:
            self._statement(statement)
        self._flush_and_forget()
        for name in self.known[before:]:
            del self.values[name]
        del self.known[before:]
        self._jump(again)
        self._begin(done)
        self.mask, self.same = outer, same

    def _stays(self, leaving: ast.If) -> str:
        """The lanes that do not leave a loop."""
        if isinstance(leaving.test, ast.UnaryOp) and isinstance(leaving.test.op, ast.Not):
            return self._broadcast(self._expression(leaving.test.operand))
        condition = self._broadcast(self._expression(leaving.test))
        return self._value("~b1", f"xor {self._all_lanes()} {condition}, {self._literal('~b1', 'true')}")[1]

    def _as_long_as_the_last(self, node: ast.For) -> None:
        """A counting loop of which lanes run different numbers of iterations: until the last is through."""
        assert isinstance(node.target, ast.Name) and isinstance(node.iter, ast.Call)
        arguments = [self._expression(argument) for argument in node.iter.args]
        back = len(arguments) == 3
        # `range(count)` or `range(count - 1, -1, -1)`
        if not back and len(arguments) != 1:
            raise TranslationError("not in lanes", node)
        of = self._type("~i64")
        outer, number = self.mask, self._broadcast(arguments[0])
        if back:
            number = self._value("~i64", f"add {of} {number}, {self._literal('~i64', '1')}")[1]
        most = self._most(("~i64", number))
        body, done = self._labels("for", "done")
        last = self._value("i64", f"sub i64 {most}, 1")[1]
        enters = self._value("b1", f"icmp sgt i64 {most}, 0")[1]
        before = self.label
        self._write(f"br i1 {enters}, label %{body}, label %{done}")
        self._begin(body)
        counter, at = self._fresh(), len(self.lines)
        runs = self._value("~b1", f"icmp sgt {of} {number}, {self._broadcast(('i64', counter))}")[1]
        self.mask = self._both(outer, runs)
        self.values[node.target.id] = "i64", counter
        self._suite(node.body)
        del self.values[node.target.id]
        self.mask = outer
        following = self._value("i64", f"add nsw i64 {counter}, {-1 if back else 1}")[1]
        limit = f"icmp sge i64 {following}, 0" if back else f"icmp slt i64 {following}, {most}"
        again = self._value("b1", limit)[1]
        start = last if back else "0"
        self.lines.insert(at, f"  {counter} = phi i64 [ {start}, %{before} ], [ {following}, %{self.label} ]")
        self._write(f"br i1 {again}, label %{body}, label %{done}")
        self._begin(done)


def _leaves(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and any(isinstance(inner, ast.Break) for inner in node.body)


def _is_flat(node: ast.If) -> bool:
    """True if a branch is short, without memory accesses and expensive calls."""
    body = [*node.body, *node.orelse]
    return len(body) <= FLAT and all(
        isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and not any(
            isinstance(inner, ast.Subscript)
            or (
                isinstance(inner, ast.Call)
                and not getattr(inner.func, "id", "").startswith(("to_", "f32", "f64", "i32"))
            )
            for inner in ast.walk(statement.value)
        )
        for statement in body
    )
