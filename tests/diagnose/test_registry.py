"""The list of rules: each is one class in the file of its name, with a scenario and a page."""

from __future__ import annotations

import inspect
import pkgutil
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tapedebug.diagnose import registry, wording
from tapedebug.diagnose import rules as folder
from tapedebug.diagnose.diagnosis import SEVERITY_ORDER
from tapedebug.diagnose.rule import Rule, RuleFinding, TapeRule
from tapedebug.diagnose.rules.disconnected import DisconnectedFinding
from tapedebug.diagnose.rules.overwrite import Overwrite
from tapedebug.diagnose.timings import Cost
from tapedebug.trace import Finding
from tapedebug.trace.json_codec import encode
from tests.scenarios import harness

PAGES = Path(__file__).parents[2] / "docs" / "findings"
RULES = registry.RULES


def problems(rules: Sequence[Rule], pages: Collection[str], scenarios: Collection[str]) -> Iterator[str]:
    """Return the faults of a list of rules, a sentence each."""
    codes = [rule.code for rule in rules]
    for field in ("code", "title"):
        counts = Counter(getattr(rule, field) for rule in rules)
        yield from (f"{value}: {field} of {count} rules" for value, count in counts.items() if count > 1)
    for rule in rules:
        if rule.code not in scenarios:
            yield f"{rule.code}: no program in tests/scenarios/programs expects it"
        if rule.code not in pages:
            yield f"{rule.code}: docs/findings has no page"
        if rule.severity not in SEVERITY_ORDER:
            yield f"{rule.code}: {rule.severity} is no severity"
        unknown = {*rule.explains, *rule.unmasks} - {*codes}
        yield from (f"{rule.code}: there is no rule {code}" for code in sorted(unknown))
        if bool(rule.explains) != (type(rule).explain is not Rule.explain):
            yield f"{rule.code}: explain() and the codes that it explains belong together"
        if bool(rule.unmasks) != (type(rule).repair is not Rule.repair):
            yield f"{rule.code}: repair() and the codes that it unmasks belong together"
        if not inspect.isgeneratorfunction(rule.check):
            yield f"{rule.code}: check() does not yield its findings, of which an interrupt keeps the first"
        if Path(inspect.getfile(type(rule))).stem != rule.code.replace("-", "_"):
            yield f"{rule.code}: stands in {Path(inspect.getfile(type(rule))).name}"
    yield from (f"{page}: a page of no rule" for page in sorted({*pages} - {*codes}))


def expected() -> set[str]:
    """The codes that scenarios expect."""
    return {item.rule for program in harness.programs() for item in program.expected}


def test_every_rule_has_a_scenario_and_a_page_and_names_rules_that_exist() -> None:
    pages = {page.stem for page in PAGES.glob("*.md")} - {"index"}
    assert list(problems(RULES, pages, expected())) == []


def test_every_class_is_listed_once() -> None:
    found = []
    for module in pkgutil.iter_modules(folder.__path__):
        classes = vars(import_module(f"tapedebug.diagnose.rules.{module.name}")).values()
        own = [
            item for item in classes if inspect.isclass(item) and item.__module__.endswith(f".{module.name}")
        ]
        found += [item for item in own if issubclass(item, Rule) and "code" in vars(item)]  # others are bases
    assert sorted(item.__name__ for item in found) == sorted(type(rule).__name__ for rule in RULES)


class Lonely(TapeRule):
    """A rule with everything that a rule must not have."""

    code = "overwrite"
    title = Overwrite.title
    severity = "error"
    explains = ("no-such-rule",)

    def cost(self, context: Any) -> Cost:
        return Cost()

    def check(self, context: Any) -> list[Finding]:
        return []


def test_a_rule_without_an_estimate_is_none() -> None:
    unpriced = type("Unpriced", (TapeRule,), {"check": Lonely.check, "code": "unpriced"})
    with pytest.raises(TypeError, match="cost"):
        unpriced()


def test_what_is_wrong_with_a_rule_is_said() -> None:
    assert list(problems((Overwrite(), Lonely()), {"seed"}, ())) == [
        "overwrite: code of 2 rules",
        f"{Overwrite.title}: title of 2 rules",
        "overwrite: no program in tests/scenarios/programs expects it",
        "overwrite: docs/findings has no page",
        "overwrite: no program in tests/scenarios/programs expects it",
        "overwrite: docs/findings has no page",
        "overwrite: there is no rule no-such-rule",
        "overwrite: explain() and the codes that it explains belong together",
        "overwrite: check() does not yield its findings, of which an interrupt keeps the first",
        "overwrite: stands in test_registry.py",
        "seed: a page of no rule",
    ]


@pytest.mark.parametrize(("code", "severity"), [("unused", "warning"), ("overwrite", "info")])
def test_a_finding_is_what_its_rule_says(code: str, severity: Any) -> None:
    finding = Finding(rule="overwrite", severity="error", message="")
    assert registry._checked(Overwrite(), finding) is finding
    rule = type("Other", (Overwrite,), {"code": code, "severity": severity})()
    with pytest.raises(AssertionError, match=f"{code} cannot report overwrite as error"):
        registry._checked(rule, finding)


def test_what_other_rules_read_is_exported_with_the_evidence() -> None:
    finding = DisconnectedFinding(
        rule="disconnected", severity="error", message="", kind="through NumPy", inputs=["x"], source="y",
        evidence={"to": "z"},
    )  # fmt: skip
    exported = {"kind": "through NumPy", "from": "y", "inputs": ["x"], "to": "z"}
    assert finding.evidence == exported
    assert list(finding.evidence) == list(exported)
    assert encode(finding).keys() == encode(Finding(rule="", severity="info", message="")).keys()
    changed = replace(finding, evidence={**finding.evidence, "behind": "nonfinite"})
    assert changed.evidence == {**exported, "behind": "nonfinite"}
    assert RuleFinding(rule="seed", severity="info", message="").evidence == {}


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("launch 1 (f) overwrites x.", "Launch 1 (f) overwrites x."),
        ("the gradient of x is exactly 0.", "The gradient of x is exactly 0."),
        ("The loss has a kink.", "The loss has a kink."),
        ("x, y and z collect gradient.", "x, y and z collect gradient."),
        ("x: overwritten.", "x: overwritten."),
        ("state.q[0] has no requires_grad.", "state.q[0] has no requires_grad."),
        (
            "adj_f, the gradient of f, is not the derivative.",
            "adj_f, the gradient of f, is not the derivative.",
        ),
        ("‖x‖ is 0.", "‖x‖ is 0."),
        ("", ""),
    ],
)
def test_a_message_begins_with_a_capital_letter_or_a_name(message: str, shown: str) -> None:
    assert wording.capitalised(message, {"x", "y", "f"}) == shown
