"""The base classes of rules and their findings: each rule is one class in `rules`, listed in `registry`.

A rule has a code, a title and the worst severity of its findings. Its `check` searches for one kind of bug,
and yields each finding once it is known: an interrupt, a time limit or an error keeps those before it.
A rule also declares the findings of other rules that it explains, and the change of a private copy of the
tape that removes the bug, so that bugs behind it become visible.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import field, fields
from typing import ClassVar

from tapedebug._dataclass import dataclass
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.timings import Cost
from tapedebug.trace import Finding
from tapedebug.trace.model import Severity

EVIDENCE = {"json": False, "evidence": ""}
"""Metadata of a field of a `RuleFinding` that `Finding.evidence` exports, under this key or its name."""


@dataclass(slots=True, kw_only=True, repr=False)
class RuleFinding(Finding):
    """A finding whose evidence other rules read as attributes, never by the keys of `evidence`.

    A rule with further evidence defines a subclass in its own file. Attributes that are not None are
    exported as evidence.

    Attributes:
        inputs: Labels of the inputs whose gradient the finding is about.
        detached: The gradient was cut on purpose, with `requires_grad=False`.
        harmless: The finding has no effect on the gradient, as measured.
    """

    inputs: list[str] | None = field(default=None, metadata=EVIDENCE)
    detached: bool | None = field(default=None, metadata=EVIDENCE)
    harmless: bool | None = field(default=None, metadata=EVIDENCE)

    def __post_init__(self) -> None:
        """Export the attributes as evidence, those of the subclass first."""
        own = [item for item in fields(self) if "evidence" in item.metadata]
        own.sort(key=lambda item: item.name in RuleFinding.__slots__)
        values = {item.metadata["evidence"] or item.name: _exported(getattr(self, item.name)) for item in own}
        self.evidence = {key: value for key, value in values.items() if value is not None} | self.evidence


def _exported(value: object) -> object:
    """Return a value as evidence has it: JSON knows lists, and no tuples."""
    return [_exported(item) for item in value] if isinstance(value, list | tuple) else value


def inputs_of(finding: Finding) -> list[str]:
    """Return the labels of the inputs whose gradient a finding is about; empty if it names none."""
    return finding.inputs or [] if isinstance(finding, RuleFinding) else []


def is_detached(finding: Finding) -> bool:
    """True if a finding is about a gradient that was cut on purpose."""
    return isinstance(finding, RuleFinding) and bool(finding.detached)


@dataclass(frozen=True, slots=True)
class Repair:
    """A change of a private copy of the tape that removes a bug.

    Attributes:
        requires_grad: Arrays between the inputs and the loss get a gradient.
        stop: Launches from this one on are left out.
        finite: Non-finite numbers are replaced.
        revive: Launches that pass on an artificial adjoint, although their derivative is 0.
    """

    requires_grad: bool = False
    stop: int | None = None
    finite: bool = False
    revive: tuple[int, ...] = ()

    @property
    def records_again(self) -> bool:
        """True if the repair needs a new recording, not only a replay of the tape with other numbers."""
        return self.requires_grad or self.stop is not None


class Rule(ABC):
    """One kind of bug.

    Attributes:
        code: The rule's id: `Finding.rule`, the name of its file (with underscores) and of its page.
        title: One line for tables and SARIF, without a full stop.
        severity: The worst severity that its findings can have.
        explains: Codes of findings that this rule may explain: they become an `info`.
        unmasks: Codes of bugs that this one hides most often: `repair` makes them visible.
        warp_only: It applies only to programs that were written for Warp (`as_warp`).
        outside_pass: Its errors are about gradients before or after a reverse pass, which the end-to-end
            check of the pass cannot see.
        last_resort: It runs only if no other rule has found an error, and not after a repair.
    """

    code: ClassVar[str]
    title: ClassVar[str]
    severity: ClassVar[Severity]
    explains: ClassVar[tuple[str, ...]] = ()
    unmasks: ClassVar[tuple[str, ...]] = ()
    warp_only: ClassVar[bool] = False
    outside_pass: ClassVar[bool] = False
    last_resort: ClassVar[bool] = False

    def explain(self, cause: Finding, finding: Finding) -> str:
        """Return the sentence that attributes `finding` to `cause`; empty if the cause does not explain it.

        Args:
            cause: A finding of this rule.
            finding: A finding of one of the rules in `explains`.
        """
        return ""

    @abstractmethod
    def cost(self, context: RuleContext) -> Cost:
        """Return the estimated cost of the rule on a tape, before it runs.

        It does not include experiments that several rules share, which are steps of their own. A rule whose
        cost depends on their results looks at them here.
        """

    def repair(self, finding: Finding) -> Repair | None:
        """Return the change of the tape that removes the bug of a finding; None if it hides no others."""
        return None


class TapeRule(Rule):
    """A rule that examines one tape."""

    @abstractmethod
    def check(self, context: RuleContext) -> Iterator[Finding]:
        """Yield the findings about a tape, each before the experiments of the next."""


class CrossTapeRule(Rule):
    """A rule that examines all tapes of a program together.

    Attributes:
        several_tapes: It applies only to programs with more than one tape.
    """

    several_tapes: ClassVar[bool] = False

    @abstractmethod
    def check(self, contexts: Sequence[RuleContext]) -> Iterator[tuple[RuleContext, Finding]]:
        """Yield the findings, each with the tape on which it is shown.

        Args:
            contexts: The tapes, in the order of recording.
        """
