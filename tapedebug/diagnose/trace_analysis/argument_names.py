"""Compares names of launch arguments in the caller's source with the kernel's parameter names."""

from __future__ import annotations

import re

from tapedebug._dataclass import dataclass
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.trace_analysis.kernel_source import source_file
from tapedebug.trace import Argument, Launch, Trace
from tapedebug.trace.call_sites import launch_texts

_STEPS = """
new old next now then prev previous last first before after cur current tmp temp buf buffer in out init
initial start final end arr array ptr my the all t
"""
STEPS = frozenset(_STEPS.split())
"""Words that distinguish variables of one kind, such as time steps, without naming the kind."""

_GENERIC = """
a b c d x y z u w i j k m n p src dst dest source target left right one two three second lhs rhs input output
lo hi low high min max lower upper from to row col value val data result res other arg args param parameter
weight scale factor
"""
GENERIC = frozenset(_GENERIC.split())
"""Names without a meaning of their own: `difference(b, a)` is intended."""


@dataclass(frozen=True, slots=True)
class NamedArgument:
    """One argument of a launch as written in the source.

    Attributes:
        param: The index of its parameter in the kernel, with each struct as one parameter.
        name: The kernel's name for it.
        text: The caller's expression; None if it has no name.
        output: True if it is in `outputs`.
        args: The arguments of the trace: several for a struct.
    """

    param: int
    name: str
    text: str | None
    output: bool
    args: list[tuple[int, Argument]]

    @property
    def array(self) -> Argument | None:
        """The argument, if it is a single array."""
        only = self.args[0][1]
        return only if len(self.args) == 1 and only.array is not None and "." not in only.name else None


def named_arguments(trace: Trace, launch: Launch) -> list[NamedArgument]:
    """Return the arguments of a launch as written in its source; empty if that cannot be read."""
    kernel, site = words.kernel_of(trace, launch), launch.call_site
    if kernel is None or site is None:
        return []
    texts = launch_texts(source_file(site.file), site.line, site.column)
    if texts is None:
        return []
    groups: list[list[tuple[int, Argument]]] = []
    before = None
    for number, arg in enumerate(launch.args):
        base, dot, _ = arg.name.partition(".")
        if dot and base == before:
            groups[-1].append((number, arg))
        else:
            groups.append([(number, arg)])
        before = base
    inputs, outputs = texts
    if len(groups) != len(inputs) + len(outputs):
        return []
    return [
        NamedArgument(place, group[0][1].name.partition(".")[0], text, place >= len(inputs), group)
        for place, (group, text) in enumerate(zip(groups, [*inputs, *outputs], strict=True))
    ]


def means(text: str, name: str) -> bool:
    """Return True if a caller's `state.velocities[t]` may correspond to a kernel's `vel`."""
    one, other = meaning(text), meaning(name)
    if not one or not other:
        return False
    short, long = sorted((one, other), key=len)
    return one == other or (len(short) >= 3 and long.startswith(short))


def tells(text: str) -> bool:
    """Return True if a name describes its variable."""
    return meaning(text) not in GENERIC and len(meaning(text)) > 1


def meaning(text: str) -> str:
    """Return the descriptive word of a name: `velocity` of `self.velocity_next[0]`; empty without one."""
    base = re.sub(r"\[.*", "", text).rpartition(".")[2].lower()
    tokens = [re.sub(r"\d+$", "", token) for token in base.split("_")]
    parts = [token for token in tokens if token and token not in STEPS]
    word = max(parts, key=len, default="")
    plural = re.sub(r"ies$", "y", word)
    return plural if plural != word else word.removesuffix("s") if len(word) > 3 else word


def crossed(one: NamedArgument, other: NamedArgument) -> bool:
    """Return True if the descriptive names of two arguments match each other's parameters, as if swapped."""
    if one.text is None or other.text is None:
        return False
    names = {meaning(one.name), meaning(other.name)}
    if len(names) < 2 or names & GENERIC or "" in names or means(one.name, other.name):
        return False
    return (
        means(one.text, other.name)
        and means(other.text, one.name)
        and not means(one.text, one.name)
        and not means(other.text, other.name)
    )
