"""Dead code elimination, down to single carried values of loops.

A `save` lives only if its `restore` does; so a loop whose reverse needs no intermediate value keeps none.
"""

from __future__ import annotations

from dataclasses import replace

from tapedebug.compiler.ir import (
    EFFECTS,
    KEEPING,
    Block,
    Custom,
    For,
    Function,
    If,
    Node,
    Op,
    Value,
    While,
    blocks_of,
    operands,
)


def remove_dead_code(function: Function) -> Function:
    """Return the function without operations that have no effect and whose results are unused."""
    body = _Liveness(function.body).swept(function.body)
    prelude = function.prelude
    if prelude is not None:
        prelude = _Liveness(prelude).swept(prelude)
    return replace(function, body=body, prelude=prelude)


class _Liveness:
    def __init__(self, body: Block) -> None:
        self.live: set[Value] = set()
        self.nodes: set[int] = set()
        self.kept: set[tuple[int, int]] = set()
        self.producers: dict[Value, tuple[Node, int | None]] = {}
        self.parents: dict[int, Node | None] = {}
        self.savers: dict[tuple[int, int], list[Op]] = {}
        self.keepers: dict[int, list[Op]] = {}
        self.pending: list[Value] = []
        roots: list[Op] = []
        self._index(body, None, roots)
        for op in roots:
            self._mark_node(op)
        for value in body.yields:
            self._need(value)
        self._drain()

    def _index(self, block: Block, parent: Node | None, roots: list[Op]) -> None:
        for node in block.ops:
            self.parents[id(node)] = parent
            match node:
                case Op():
                    if node.result is not None:
                        self.producers[node.result] = (node, None)
                    if node.kind in EFFECTS:
                        roots.append(node)
                    elif node.kind == "save":
                        self.savers.setdefault(node.data, []).append(node)
                    elif node.kind in KEEPING and node.kind != "restore":
                        self.keepers.setdefault(node.data[0], []).append(node)
                case If():
                    for k, result in enumerate(node.results):
                        self.producers[result] = (node, k)
                    self._index(node.then, node, roots)
                    self._index(node.orelse, node, roots)
                case For() | While():
                    for k, (result, carried) in enumerate(zip(node.results, node.carried, strict=True)):
                        self.producers[result] = self.producers[carried] = (node, k)
                    if isinstance(node, For):
                        self.producers[node.index] = (node, None)
                    else:
                        self._index(node.test, node, roots)
                    self._index(node.body, node, roots)
                case Custom():
                    for inner in blocks_of(node):
                        self._index(inner, node, roots)

    def _need(self, value: Value) -> None:
        if value not in self.live:
            self.live.add(value)
            self.pending.append(value)

    def _drain(self) -> None:
        while self.pending:
            value = self.pending.pop()
            produced = self.producers.get(value)
            if produced is None:  # a constant, an argument, the thread's index
                continue
            node, place = produced
            self._mark_node(node)
            if place is None:
                continue
            match node:
                case If():
                    self._need(node.then.yields[place])
                    self._need(node.orelse.yields[place])
                case For() | While():
                    self._need(node.inits[place])
                    self._need(node.body.yields[place])
                    # A carried value is one thing: its value inside and after the loop live together.
                    self._need(node.carried[place])

    def _mark_node(self, node: Node) -> None:
        if id(node) in self.nodes:
            return
        self.nodes.add(id(node))
        parent = self.parents[id(node)]
        if parent is not None:
            self._mark_node(parent)
        match node:
            case If():
                self._need(node.condition)
            case For():
                self._need(node.count)
            case While():
                self._need(node.test.yields[0])
            case Custom():
                for value in (*node.inputs, *(v for inner in blocks_of(node) for v in inner.yields)):
                    self._need(value)
            case Op():
                for argument in operands(node):
                    self._need(argument)
                if node.kind == "restore":
                    self._keep(node)

    def _keep(self, restore: Op) -> None:
        for op in self.savers.get(restore.data, []):
            self._mark_node(op)
        for op in self.keepers.get(restore.data[0], []):
            self._mark_node(op)

    def swept(self, block: Block) -> Block:
        """The block with live nodes only."""
        return Block([self._sweep(n) for n in block.ops if id(n) in self.nodes], list(block.yields))

    def _sweep(self, node: Node) -> Node:
        match node:
            case If():
                keep = [k for k, r in enumerate(node.results) if r in self.live]
                then, orelse = self.swept(node.then), self.swept(node.orelse)
                then.yields = [then.yields[k] for k in keep]
                orelse.yields = [orelse.yields[k] for k in keep]
                return replace(node, then=then, orelse=orelse, results=[node.results[k] for k in keep])
            case For() | While():
                keep = [
                    k for k, c in enumerate(node.carried) if c in self.live or node.results[k] in self.live
                ]
                body = self.swept(node.body)
                body.yields = [body.yields[k] for k in keep]
                changed = replace(
                    node,
                    body=body,
                    inits=[node.inits[k] for k in keep],
                    carried=[node.carried[k] for k in keep],
                    results=[node.results[k] for k in keep],
                )
                if isinstance(changed, While):
                    changed.test = self.swept(changed.test)
                return changed
            case Custom():
                replay, gradient = (b and self.swept(b) for b in (node.replay, node.gradient))
                return replace(node, body=self.swept(node.body), replay=replay, gradient=gradient)
        return node
