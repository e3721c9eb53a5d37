"""Every class of bug: the right rule names launch, array and line; look-alikes raise nothing.

`conftest.py` prints the table: class × scenario × found × false alarms.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tapedebug.diagnose.registry import OURS
from tests.scenarios import harness
from tests.sweeps import sample_of

ALL = harness.programs()
BUGS = [program for program in ALL if not program.alike]
LOOK_ALIKES = [program for program in ALL if program.alike]
CLASSES = [f"{number:02}" for number in range(1, 29)]
Note = Callable[[str, object], None]


def name(program: harness.Program) -> str:
    return program.name


@pytest.mark.parametrize("program", BUGS, ids=name)
def test_the_bug_is_found(program: harness.Program, tmp_path: Path, record_property: Note) -> None:
    outcome = harness.run(program, tmp_path)
    found = {position for item in program.expected for position in harness.matches(item, outcome)}
    missing = [item for item in program.expected if not harness.matches(item, outcome)]
    alarms = [item for position, item in enumerate(outcome.findings) if position not in found]
    alarms = [item for item in alarms if item.severity != "info"]
    row = [
        program.number,
        program.name,
        len(program.expected) - len(missing),
        len(program.expected),
        len(alarms),
    ]
    record_property("scenario", row)
    harness.check_verdicts(outcome)
    assert program.expected or program.verdict, "it says nowhere what should be found"
    assert not missing, f"not found: {missing}\n{outcome.text}"
    assert not alarms, f"false alarms beside the bug:\n{outcome.text}"
    assert OURS not in outcome.text
    if program.verdict:
        assert outcome.verdict == program.verdict, outcome.text


@pytest.mark.parametrize("program", sample_of(LOOK_ALIKES, first=0, step=3), ids=name)
def test_what_only_looks_like_it_raises_nothing(
    program: harness.Program, tmp_path: Path, record_property: Note
) -> None:
    outcome = harness.run(program, tmp_path)
    record_property("scenario", [program.number, program.name, 0, 0, len(outcome.alarms())])
    harness.check_verdicts(outcome)
    assert not outcome.alarms(), outcome.text
    assert outcome.verdict == (program.verdict or "AGREE"), outcome.text
    assert OURS not in outcome.text


@pytest.mark.parametrize(
    "program", sample_of([item for item in BUGS if item.fixable], first=0, step=4), ids=name
)
def test_the_fix_is_the_fix(program: harness.Program, tmp_path: Path) -> None:
    """Following the advice, the gradient that is consumed agrees end to end with the float64 reference."""
    outcome = harness.run(program, tmp_path, with_fix=True)
    harness.check_verdicts(outcome)
    assert not outcome.alarms(), outcome.text
    assert outcome.verdict == program.fixed_verdict, outcome.text
    assert OURS not in outcome.text


@pytest.mark.parametrize("number", CLASSES)
def test_every_class_has_two_programs_and_a_look_alike(number: str) -> None:
    assert sum(program.number == number for program in BUGS) >= 2
    assert sum(program.number == number for program in LOOK_ALIKES) >= 1


@pytest.mark.parametrize("program", BUGS, ids=name)
def test_every_bug_has_a_fix_or_a_verdict(program: harness.Program) -> None:
    assert program.fixable or program.verdict
