"""A run as JUnit XML, as build servers read it: a test case for the program, and one for each tape."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from tapedebug.formats._run import INTERRUPTED, Run, failing, fails

_FORBIDDEN = re.compile(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, such as the colours of a terminal."""


def junit(run: Run, texts: list[str]) -> str:
    """Return a run as JUnit XML.

    Args:
        run: The run.
        texts: The diagnosis of each tape as text.
    """
    failures = [fails(trace, run.fail_on) for trace in run.traces]
    suite = ElementTree.Element(
        "testsuite",
        name=f"tapedebug run {run.name}",
        tests=str(len(run.traces) + 1),
        failures=str(sum(failures)),
        errors=str(int(run.failed or run.interrupted)),
        skipped="0",
        time=f"{run.seconds:.3f}",
    )
    own = _case(suite, run, "program")
    if run.failed:
        error = ElementTree.SubElement(own, "error", message=_clean(run.reason), type="program")
        error.text = _clean(run.message)
    elif run.interrupted:  # a test case has one error
        ElementTree.SubElement(own, "error", message=INTERRUPTED, type="diagnosis")
    notes = [*run.engines, *run.notes]
    if notes:
        ElementTree.SubElement(own, "system-out").text = _clean("\n".join(notes))
    for trace, failed, text in zip(run.traces, failures, texts, strict=True):
        case = _case(suite, run, trace.name.rpartition(" · ")[2])
        if failed:
            found = failing(trace, run.fail_on)
            message = found[0].message if found else trace.coverage.summary
            kind = found[0].rule if found else "wrong-gradient"
            failure = ElementTree.SubElement(case, "failure", message=_clean(message), type=kind)
            failure.text = _clean(text)
        else:
            ElementTree.SubElement(case, "system-out").text = _clean(text)
    suites = ElementTree.Element("testsuites", suite.attrib)
    suites.append(suite)
    ElementTree.indent(suites)
    written: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return written.decode() + "\n"


def _case(suite: ElementTree.Element, run: Run, name: str) -> ElementTree.Element:
    case = ElementTree.SubElement(suite, "testcase", classname=run.name, name=name)
    file = run.relative(run.file) if run.file is not None else None
    if file is not None:
        case.set("file", file)
    return case


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("�", text)
