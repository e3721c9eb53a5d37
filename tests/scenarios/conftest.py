"""Prints what was found in the programs, by class of bug."""

from __future__ import annotations

from typing import Any

TITLE = "gradient bugs: class × program × found × false alarms"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    rows = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        for key, value in getattr(report, "user_properties", ())
        if key == "scenario" and getattr(report, "when", "") == "call"
    ]
    if not rows:
        return
    terminalreporter.section(TITLE)
    for number, program, found, wanted, alarms in sorted(rows):
        message = (
            f"found {found} of {wanted}" if wanted else "look-alike" if "alike" in program else "verdict only"
        )
        terminalreporter.line(f"{number:>6}  {program:<44} {message:<14} false alarms {alarms}")
    wanted, found = sum(row[3] for row in rows), sum(row[2] for row in rows)
    terminalreporter.line(
        f"{len(rows)} programs: {found} of {wanted} found, {sum(row[4] for row in rows)} false alarms"
    )
