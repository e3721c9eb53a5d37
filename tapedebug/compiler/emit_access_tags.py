"""Emit access tags: each access leaves a tag, and compares those of others where needed."""

from __future__ import annotations

from tapedebug.compiler.access_tags import (
    MANY,
    NEVER,
    PLAIN,
    RACED,
    READ,
    SITE_SHIFT,
    SITES,
    THREAD,
    UNSET,
    WHO,
    WRITTEN,
    AccessKind,
    Site,
)
from tapedebug.compiler.emit_diagnostics import DiagnosticWriter
from tapedebug.compiler.ir import Op
from tapedebug.compiler.passes.cross_thread_deps import at_own_index

KINDS: dict[str, AccessKind] = {"load": "read", "store": "write", "atomic_add": "atomic"}

REPLACING = ("write", "exchange")
"""Accesses that conflict with every write of another thread."""


class AccessTagWriter(DiagnosticWriter):
    """Emits the tags of a tracked variant."""

    def _tag_prologue(self) -> None:
        """The memory of the tags, and the launch's epoch."""
        if self.tagging is None:
            return
        params = sorted({op.data[0] for op in self.function.ops() if op.kind in KINDS})
        for param in params:
            self._line(f"{self._param(param)}_tags = ptr_i64(args, {self.layout.access_tags[param]})")
        self._line(f"epoch = args[{self.layout.epoch}]")
        self._line("raced = False")
        self._line("unset = False")
        # Nodes of the body itself run in every thread, whatever happens.
        self.always = {id(node) for node in self.function.body.ops}
        self.tagged = 0

    def _tag_epilogue(self) -> None:
        if self.tagging is not None:
            found = f"select(raced, {RACED}, 0) + select(unset, {UNSET}, 0)"
            self._line(f"args[{self.layout.epoch}] = {found}")

    def _tag(self, op: Op) -> None:
        """Emit the tag of an access, before the access."""
        tagging = self.tagging
        if tagging is None or op.kind not in KINDS or op.span is None:
            return
        param, component = op.data
        raced, fresh = param in tagging.race_checked, param in tagging.init_checked
        if tagging.report and not (raced or fresh):
            return  # not reported
        kind = KINDS[op.kind]
        if (param, op.span) in tagging.atomic:
            if kind == "read" and not fresh:
                return  # the first half of an atomic that is no sum
            kind = "exchange" if (param, op.span) in tagging.ordered else "atomic"
        bulk = not (raced or fresh) and id(op) in self.always and at_own_index(self.function, op)
        diagnostic = Site(kind, param, component if bulk else None).diagnostic(op.span)
        site = self.diagnostics.setdefault(diagnostic, len(self.diagnostics))
        if bulk:
            return
        self.tagged += 1
        n, memory = self.tagged, f"{self._param(param)}_tags"
        place = self._text(op.args[0]) + (f" + {component}" if component else "")
        self._line(f"s{n} = ({place}) * {tagging.words}")
        constant = (min(site, SITES) << SITE_SHIFT) + (PLAIN if kind in REPLACING else 0)
        mine = f"epoch + {constant} + {self._linear()}"
        if raced or (fresh and kind != "write"):
            self._line(f"w{n} = {memory}[s{n}]")
        if fresh and kind != "write":
            self._write_conflict(f"w{n} == 0", "unset", site, n, f"w{n}", NEVER)
            if op.kind == "load" and kind in ("atomic", "exchange"):
                return  # tagged by its second half
        if raced:
            mine = self._write_comparison(kind, site, n, memory, mine)
        self._line(f"{memory}[s{n}{' + 1' if kind == 'read' else ''}] = {mine}")

    def _write_comparison(self, kind: AccessKind, site: int, n: int, memory: str, mine: str) -> str:
        """Compare with the tags of this launch; gives the new tag."""
        thread = self._linear()
        self._line(f"r{n} = {memory}[s{n} + 1]")
        self._line(f"a{n} = (w{n} >= epoch) & ((w{n} & {WHO}) != {thread})")
        self._line(f"b{n} = (r{n} >= epoch) & ((r{n} & {WHO}) != {thread})")
        if self.tagging is not None and self.tagging.report:
            self._remember(kind, n, memory)
        if kind == "read":
            self._write_conflict(f"a{n}", "raced", site, n, f"w{n}", WRITTEN)
            return f"{mine} + select(b{n}, {MANY}, 0)"
        if kind in REPLACING:
            self._write_conflict(f"a{n}", "raced", site, n, f"w{n}", WRITTEN)
            self._write_conflict(f"b{n}", "raced", site, n, f"r{n}", READ)
            return mine
        self._write_conflict(f"a{n} & ((w{n} & {PLAIN}) != 0)", "raced", site, n, f"w{n}", WRITTEN)
        self._write_conflict(f"b{n}", "raced", site, n, f"r{n}", READ)
        return f"{mine} + select(a{n}, {MANY}, 0) + select(w{n} >= epoch, w{n} & {PLAIN}, 0)"

    def _remember(self, kind: AccessKind, n: int, memory: str) -> None:
        """Save the tags of other threads, so that both sides are reported even if this thread came last."""
        letter, at = ("r", 3) if kind == "read" else ("w", 2)
        met = "b" if kind == "read" else "a"
        self._line(f"if {met}{n} & (({letter}{n} & {THREAD}) != {self._linear()}):")
        with self._suite():
            self._line(f"{memory}[s{n} + {at}] = {letter}{n}")
        for letter, at in (("w", 2), ("r", 3)):
            others = f"({letter}{n} & {THREAD}) != {self._linear()}"
            self._line(f"o{letter}{n} = select({others}, {letter}{n}, {memory}[s{n} + {at}])")

    def _write_conflict(self, condition: str, flag: str, site: int, n: int, tag: str, what: int) -> None:
        """Record a conflict; a variant that reports writes a message for each."""
        assert self.tagging is not None
        if not self.tagging.report:
            self._line(f"{flag} = {flag} | ({condition})")
            return
        self._line(f"if {condition}:")
        with self._suite():
            self._line(f"{flag} = True")
            self._line(f"message = print_message(print_buffer, {site}, {self._linear()}, 3)")
            other = tag if what == NEVER else f"o{tag}"
            for k, value in enumerate((other, f"s{n} // {self.tagging.words}", str(what))):
                self._line(f"put_i64(print_buffer, message{f' + {k}' if k else ''}, {value})")
