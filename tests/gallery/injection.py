"""A 1 % error put into the derivative of one operation, by one operand, in the adjoint or in the tangent."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import GradcheckResult, gradcheck
from tapedebug.compiler import analysis_cache
from tapedebug.compiler.passes import adjoint, tangent
from tapedebug.lang import types as t
from tapedebug.lang.rules import COMPOSITES, RULES, Expr, Quantity, Rule, Select
from tests.lang import cases
from tests.lang.cases import Case

ERROR = 0.01
TOLERANCES = {"atol": 1e-4, "rtol": 1e-3}
"""A tenth of the error: at the default `rtol=1e-2`, an error of 1 % is what was allowed."""
NARROW = {"to_bf16": 2.0**-8}
"""The relative tolerance of operations whose adjoint is rounded by more than a tenth of the error."""
SAMPLES = 6
FOLDER = tempfile.TemporaryDirectory(prefix="tapedebug-injection-")
NUMBERS = itertools.count()


@dataclass(frozen=True)
class Subject:
    """One operation on one kind of operands."""

    table: str
    case: Case

    @property
    def name(self) -> str:
        """The operation."""
        return self.case.name

    @property
    def is_rule(self) -> bool:
        """True if it is a rule on scalars, not a composite of rules."""
        return self.table == "rules"

    @property
    def entry(self) -> Any:
        """Its entry in the table."""
        return RULES[self.name] if self.is_rule else COMPOSITES[self.name]

    @property
    def scalar(self) -> Any:
        """The type of its numbers: a conversion to the type that they have is none."""
        return t.float64 if self.name == "to_f32" else t.float32

    @property
    def tolerances(self) -> dict[str, float]:
        """The tolerances of its check."""
        own = {"rtol": NARROW[self.name]} if TOLERANCES and self.name in NARROW else {}
        return {**TOLERANCES, **own}

    @property
    def length(self) -> int:
        """The length of its vectors."""
        return 3 if 3 in self.case.lengths else self.case.lengths[0]

    def __str__(self) -> str:
        return f"{self.name}-{self.case.kinds or 's' * len(self.case.domains)}"


def subjects() -> list[Subject]:
    """Every operation that the checker of the rule table knows, with each kind of operands once."""
    found: dict[str, Subject] = {}
    for table, listed in cases.TABLES.items():
        for case in listed:
            subject = Subject(table, case)
            found.setdefault(f"{subject} {case.spelling}", subject)
    return list(found.values())


SUBJECTS = subjects()
FLAT = [subject for subject in SUBJECTS if not subject.entry.differentiable]
SMOOTH = [subject for subject in SUBJECTS if subject.entry.differentiable]


WITHOUT = {("copysign-ss>s", 1)}
"""Operands by which the derivative is zero: only their sign counts."""


def places(subject: Subject) -> list[int]:
    """The operands, as the spelling numbers them, by which the operation has a derivative."""
    if subject.is_rule:
        return [k for k, partial in enumerate(subject.entry.partials) if partial is not None]
    return [k for k in order(subject) if (str(subject), k) not in WITHOUT]


def order(subject: Subject) -> list[int]:
    """The operands of floats in the order in which the operation takes them."""
    spelled = list(dict.fromkeys(int(k) for k in re.findall(r"\{(\d)\}", subject.case.spelling)))
    return spelled[1:] if subject.name in ("where", "select") else spelled  # behind the condition


@functools.cache
def source(subject: Subject) -> tuple[str, list[str]]:
    """The text of a kernel that does the operation, and the kinds of its arrays: operands, then result."""
    case, n = subject.case, subject.length
    kinds = [*case.operands, case.result]
    lines = [
        f"import tapedebug as wp\nscalar = wp.{subject.scalar.__name__}\nvec1 = wp.types.vector(1, scalar)\n"
    ]
    lines.append(cases.HEADERS.get(subject.table, ""))
    lines += [f"kind_{kind} = {cases.KINDS[kind][0].format(n=n)}\n" for kind in dict.fromkeys(kinds)]
    names = [f"x{place}" for place in range(len(case.operands))]
    arrays = [f"{name}: wp.array(dtype=kind_{kind})" for name, kind in zip([*names, "y"], kinds, strict=True)]
    code = re.sub(r"(\d+\.\d+)", r"scalar(\1)", case.spelling).format(*(f"{name}[i]" for name in names), n=n)
    lines.append(f"@wp.kernel\ndef operation({', '.join(arrays)}):\n    i = wp.tid()\n    y[i] = {code}\n")
    return "".join(lines), kinds


def kernel(subject: Subject) -> Any:
    """A new kernel of it, with nothing compiled."""
    path = Path(FOLDER.name) / f"operation_{next(NUMBERS)}.py"
    path.write_text(source(subject)[0], encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.operation


def check(subject: Subject, **options: Any) -> GradcheckResult:
    """`gradcheck` of the operation, at values where it is defined."""
    made = kernel(subject)
    rng = np.random.default_rng(4)
    arrays = []
    for place, (kind, param) in enumerate(zip(source(subject)[1], made.params, strict=True)):
        shape = (SAMPLES, *cases.KINDS[kind][1](subject.length))
        domains = subject.case.domains
        values = rng.uniform(*domains[place], shape) if place < len(domains) else np.zeros(shape)
        arrays.append(
            wp.array(values.astype(subject.scalar.numpy), dtype=param.type.dtype, requires_grad=True)
        )
    quiet = {"show_summary": False, "raise_exception": False}
    # Values that are rounded to float32 lie on stairs of 1e-7: the steps must be longer.
    given = {"eps": 0.25} if subject.name in cases.ROUNDED else {}
    return gradcheck(
        made, SAMPLES, arrays[:-1], arrays[-1:], **subject.tolerances, **given, **quiet, **options
    )


# ------------------------------------------------------------------ injection


@contextmanager
def injected(subject: Subject, place: int, *, into: str) -> Iterator[None]:
    """An error of 1 % in the derivative by one operand.

    Args:
        subject: Which operation.
        place: Which operand.
        into: "adjoint" or "tangent", for rules; composites have no derivative but that of their rules, so
            that of a wrong operand.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analysis_cache, "fingerprint_of", lambda *_: None)  # nothing is taken from the cache
        if subject.is_rule:
            table = RULES | {subject.name: off_rule(RULES[subject.name], place)}
            patch.setattr({"adjoint": adjoint, "tangent": tangent}[into], "RULES", table)
        else:
            entry = COMPOSITES[subject.name]
            build = off_build(entry.build, order(subject).index(place))
            patch.setitem(COMPOSITES, subject.name, replace(entry, build=build))
        yield


def off_rule(rule: Rule, place: int) -> Rule:
    """A rule with a partial derivative that is 1 % too large."""
    assert not isinstance(rule.partials, str)
    partials = list(rule.partials)
    right = partials[place]
    assert right is not None

    def off(*exprs: Expr) -> Any:
        found = right(*exprs)
        if isinstance(found, Select):
            return found.condition.select(1.0 + ERROR, exprs[-1].lift(0.0))
        return found * (1.0 + ERROR)

    partials[place] = off
    return replace(rule, partials=tuple(partials))


def off_build(build: Callable[..., Any], place: int) -> Callable[..., Any]:
    """A composite that sees one of its floats with the same value, and a derivative that is 1 % too large."""

    def off(*operands: Quantity) -> Any:
        floats = [k for k, operand in enumerate(operands) if t.scalar_of(operand.type) in t.FLOATS]
        changed = list(operands)
        if place < len(floats):
            given = operands[floats[place]]
            parts = tuple(part + ERROR * (part - part.stop_gradient()) for part in given.parts)
            changed[floats[place]] = Quantity(given.type, parts)
        return build(*changed)

    return off
