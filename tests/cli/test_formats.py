"""`tapedebug run` for machines: `--json`, `--sarif`, `--junit`, `--fail-on`; and how much it prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tapedebug.cli import main
from tapedebug.formats import LEVELS, Run, fails
from tapedebug.formats.junit import junit
from tapedebug.formats.sarif import WRONG, sarif
from tapedebug.trace import Coverage, Finding, Location, TapeInfo, Trace
from tests.cli.test_run import HEAD
from tests.processes import ROOT


def validate(instance: Any, schema: dict[str, Any]) -> None:
    """Check data by its schema; the library takes seconds to load, and is loaded here."""
    import jsonschema

    jsonschema.validate(instance, schema)


JSON_SCHEMA = json.loads((ROOT / "docs" / "_static" / "tapedebug-run.schema.json").read_text("utf-8"))

TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
LOCATION = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 0},
        "message": TEXT,
        "physicalLocation": {
            "type": "object",
            "required": ["artifactLocation"],
            "additionalProperties": False,
            "properties": {
                "artifactLocation": {
                    "type": "object",
                    "required": ["uri"],
                    "additionalProperties": False,
                    "properties": {"uri": {"type": "string"}, "uriBaseId": {"const": "%SRCROOT%"}},
                },
                "region": {
                    "type": "object",
                    "required": ["startLine"],
                    "additionalProperties": False,
                    "properties": {
                        "startLine": {"type": "integer", "minimum": 1},
                        "startColumn": {"type": "integer", "minimum": 1},
                        "snippet": TEXT,
                    },
                },
            },
        },
        "logicalLocations": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {name: {"type": "string"} for name in ("name", "fullyQualifiedName", "kind")},
            },
        },
    },
    "additionalProperties": False,
}
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "additionalProperties": False,
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "properties": {
                                    "name": {"type": "string"},
                                    "semanticVersion": {"type": "string"},
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {
                                            "type": "object",
                                            "required": ["id"],
                                            "additionalProperties": False,
                                            "properties": {
                                                "id": {"type": "string"},
                                                "shortDescription": TEXT,
                                            },
                                        },
                                    },
                                },
                            }
                        },
                    },
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "originalUriBaseIds": {
                        "type": "object",
                        "additionalProperties": {
                            "type": "object",
                            "properties": {"uri": {"type": "string", "pattern": "^file:///.*/$"}},
                        },
                    },
                    "invocations": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["executionSuccessful"],
                            "additionalProperties": False,
                            "properties": {
                                "executionSuccessful": {"type": "boolean"},
                                "exitCode": {"type": "integer"},
                                "toolExecutionNotifications": {
                                    "type": "array",
                                    "items": {
                                        "type": "object",
                                        "required": ["message"],
                                        "additionalProperties": False,
                                        "properties": {
                                            "message": TEXT,
                                            "level": {"enum": ["none", "note", "warning", "error"]},
                                        },
                                    },
                                },
                            },
                        },
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["message"],
                            "additionalProperties": False,
                            "properties": {
                                "ruleId": {"type": "string"},
                                "ruleIndex": {"type": "integer", "minimum": 0},
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "message": TEXT,
                                "locations": {"type": "array", "items": LOCATION},
                                "relatedLocations": {"type": "array", "items": LOCATION, "uniqueItems": True},
                                "occurrenceCount": {"type": "integer", "minimum": 1},
                                "partialFingerprints": {
                                    "type": "object",
                                    "additionalProperties": {"type": "string"},
                                },
                                "properties": {"type": "object"},
                            },
                        },
                    },
                },
            },
        },
    },
}
"""The requirements of SARIF 2.1.0 for the objects that are written, with all of their members."""

BODY = """
for _ in range(2):
    record(True, on_overwrite='ignore')
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what one run of a wrong program, which begins two tapes, wrote."""
    folder = tmp_path_factory.mktemp("written")
    (folder / "script.py").write_text(HEAD + BODY, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        asked = ["--json", "out.json", "--sarif", "out.sarif", "--junit", "out.xml"]
        assert main(["run", "-q", *asked, "script.py"]) == 1
    return folder


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(HEAD.splitlines(), start=1) if text in line)


def data(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_json_file_fits_its_published_schema(written: Path) -> None:
    import jsonschema

    jsonschema.Draft202012Validator.check_schema(JSON_SCHEMA)
    validate(data(written / "out.json"), JSON_SCHEMA)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["verdict"], "GOOD"),
        (["tapes", 0, "coverage", "launches"], -1),
        (["findings", 0, "location", "line"], "12"),
        (["findings", 0, "severity"], "note"),
    ],
)
def test_the_published_schema_can_be_broken(written: Path, path: list[Any], value: Any) -> None:
    broken = data(written / "out.json")
    inner = broken
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    import jsonschema

    with pytest.raises(jsonschema.ValidationError):
        validate(broken, JSON_SCHEMA)


def test_sarif_has_a_finding_at_its_line_with_the_call_and_the_read_beside_it(written: Path) -> None:
    log = data(written / "out.sarif")
    validate(log, SARIF)
    (run,) = log["runs"]
    assert run["tool"]["driver"]["name"] == "tapedebug"
    assert run["tool"]["driver"]["rules"] == [
        {"id": "overwrite", "shortDescription": {"text": "Values that an adjoint needs were overwritten"}}
    ]
    assert run["originalUriBaseIds"] == {"%SRCROOT%": {"uri": f"{written.as_uri()}/"}}
    assert run["invocations"] == [
        {"executionSuccessful": True, "exitCode": 1, "toolExecutionNotifications": []}
    ]
    (result,) = run["results"]  # one for both tapes
    assert (result["ruleId"], result["ruleIndex"], result["level"]) == ("overwrite", 0, "error")
    assert result["occurrenceCount"] == 2
    (finding, _) = data(written / "out.json")["findings"]
    assert result["message"] == {"text": f"{finding['message']}\nFix: {finding['fix']}"}
    artifact = {"uri": "script.py", "uriBaseId": "%SRCROOT%"}

    def place(text: str, function: str) -> dict[str, Any]:
        source = HEAD.splitlines()[line_of(text) - 1]
        return {
            "physicalLocation": {
                "artifactLocation": artifact,
                "region": {
                    "startLine": line_of(text),
                    "startColumn": source.index(text.partition("(")[0].strip()) + 1,
                    "snippet": {"text": source},
                },
            },
            "logicalLocations": [{"name": function, "fullyQualifiedName": function, "kind": "function"}],
        }

    assert result["locations"] == [place("x[i] = z[i]", "put") | {}]
    related = result["relatedLocations"]
    assert related[0] == {"id": 1, "message": {"text": "launched here"}, **place("wp.launch(put", "record")}
    assert related[1]["message"] == {"text": "launch 0 (square)"}
    assert related[1]["physicalLocation"]["region"]["startLine"] == line_of("y[i] = x[i] * x[i]")
    assert set(result["partialFingerprints"]) == {"tapedebug/v1"}


def test_junit_has_a_case_for_the_program_and_for_each_tape(written: Path) -> None:
    suites = ElementTree.parse(written / "out.xml").getroot()
    (suite,) = suites
    assert suites.tag == "testsuites"
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "3", "failures": "2", "errors": "0", "skipped": "0"}
    assert suite.get("name") == "tapedebug run script.py"
    cases = [(case.get("classname"), case.get("name"), case.get("file")) for case in suite]
    assert cases == [("script.py", name, "script.py") for name in ("program", "tape 1", "tape 2")]
    failure = suite[1].find("failure")
    assert failure is not None and failure.text is not None
    message = data(written / "out.json")["findings"][0]["message"]
    assert (failure.get("type"), failure.get("message")) == ("overwrite", message)
    assert failure.text.startswith("script.py · tape 1 · 3 launches · on_overwrite='ignore' · gradient WRONG")


# ------------------------------------------------------------------ without a program


def trace(*severities: str, verdict: Any = "AGREE", file: str = "In [4]") -> Trace:
    place = Location(file=file, line=2, column=4, function="step")
    findings = [
        Finding(
            rule="race", severity=severity, message="Threads race. And more.", location=place, arrays=["x"]
        )
        for severity in severities  # type: ignore[misc]
    ]
    tape = TapeInfo(id=1, on_overwrite="preserve", launches=1)
    return Trace(
        name="p.py · tape 1",
        tape=tape,
        verdict=verdict,
        coverage=Coverage(summary="1 of 1 launches"),
        findings=findings,
    )


def run_of(*traces: Trace, **more: Any) -> Run:
    return Run(name="p.py", file=None, root=Path.cwd(), traces=list(traces), **more)


@pytest.mark.parametrize(
    ("tape", "failing"),
    [
        (trace(), ()),
        (trace("info"), ()),
        (trace("warning"), ("warning",)),
        (trace("error", "warning"), ("warning", "error")),
        (trace("error", verdict="WRONG"), LEVELS),
        (trace(verdict="WRONG"), LEVELS),
        (trace(verdict="UNDECIDABLE"), ()),
    ],
)
def test_what_fails_at_each_level(tape: Trace, failing: tuple[str, ...]) -> None:
    assert tuple(level for level in LEVELS if fails(tape, level)) == failing


def test_a_wrong_gradient_without_a_finding_is_a_result(tmp_path: Path) -> None:
    program = tmp_path / "p.py"
    program.write_text("", encoding="utf-8")
    run = Run(name="p.py", file=program, root=tmp_path, traces=[trace("warning", verdict="WRONG")])
    log = sarif(run)
    validate(log, SARIF)
    assert [(result["ruleId"], result["level"]) for result in log["runs"][0]["results"]] == [
        ("race", "warning"),
        (WRONG, "error"),
    ]
    assert log["runs"][0]["results"][1]["message"] == {"text": "1 of 1 launches"}


def test_places_in_cells_are_named_and_belong_to_the_notebook(tmp_path: Path) -> None:
    notebook = tmp_path / "sub folder" / "study.ipynb"
    notebook.parent.mkdir()
    notebook.write_text("{}", encoding="utf-8")
    log = sarif(Run(name="study.ipynb", file=notebook, root=tmp_path, traces=[trace("error")]))
    validate(log, SARIF)
    assert log["runs"][0]["results"][0]["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "sub%20folder/study.ipynb", "uriBaseId": "%SRCROOT%"}
            },
            "logicalLocations": [
                {"name": "step", "fullyQualifiedName": "In [4]:2, step", "kind": "function"}
            ],
        }
    ]


def test_a_file_elsewhere_has_its_whole_address(tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text("\n    x = 1\n", encoding="utf-8")
    root = tmp_path / "root"
    root.mkdir()
    log = sarif(Run(name="p.py", file=None, root=root, traces=[trace("error", file=str(other))]))
    physical = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"] == {"uri": other.as_uri()}
    assert physical["region"] == {"startLine": 2, "startColumn": 5, "snippet": {"text": "    x = 1"}}


def test_a_program_that_failed(tmp_path: Path) -> None:
    more = {"failed": True, "reason": "ValueError", "message": "Traceback\x1b[0m", "status": 2}
    run = run_of(notes=["no tape was recorded: nothing to check"], **more)
    log = sarif(run)
    validate(log, SARIF)
    assert log["runs"][0]["invocations"] == [
        {
            "executionSuccessful": False,
            "exitCode": 2,
            "toolExecutionNotifications": [
                {"level": "note", "message": {"text": "no tape was recorded: nothing to check"}},
                {"level": "error", "message": {"text": "the program failed (ValueError)\nTraceback\x1b[0m"}},
            ],
        }
    ]
    (suite,) = ElementTree.fromstring(junit(run, []).encode())
    assert (suite.get("tests"), suite.get("errors")) == ("1", "1")
    error = suite[0].find("error")
    assert error is not None
    assert (error.get("message"), error.text) == ("ValueError", "Traceback�[0m")


@pytest.mark.parametrize("failed", [False, True])
def test_a_diagnosis_that_was_interrupted(failed: bool) -> None:
    more: dict[str, Any] = {"failed": True, "reason": "ValueError"} if failed else {}
    run = run_of(interrupted=True, status=2, **more)
    log = sarif(run)
    validate(log, SARIF)
    (invocation,) = log["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    told = [note["message"]["text"] for note in invocation["toolExecutionNotifications"]]
    assert told == [*(["the program failed (ValueError)"] if failed else []), "the diagnosis was interrupted"]
    (suite,) = ElementTree.fromstring(junit(run, []).encode())
    assert (suite.get("tests"), suite.get("errors")) == ("1", "1")
    error = suite[0].find("error")
    assert error is not None
    assert error.get("message") == ("ValueError" if failed else "the diagnosis was interrupted")


# ------------------------------------------------------------------ what is printed


def test_quiet_is_a_line_for_each_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(HEAD + "record(True, on_overwrite='ignore')", encoding="utf-8")
    assert main(["run", "-q", "--json", "out.json", "--fail-on", "wrong", "script.py"]) == 1
    put, square = line_of("x[i] = z[i]"), line_of("y[i] = x[i] * x[i]")
    lines = capsys.readouterr().out.splitlines()
    assert lines[:-1] == [
        f"script.py:{put}:5: error: overwrite: "
        + data(tmp_path / "out.json")["findings"][0]["message"].partition(". ")[0]
    ]
    assert f"(read at script.py:{square})" in lines[0]
    (tmp_path / "script.py").write_text(HEAD + BODY, encoding="utf-8")
    assert main(["run", "-q", "script.py"]) == 1
    assert capsys.readouterr().out.splitlines()[0] == f"{lines[0]} (2 times)"
    assert lines[-1].startswith("tapedebug: 1 tape diagnosed: 1 error, 0 warnings, 0 ")


def test_verbose_adds_checks_evidence_and_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(HEAD + "record(False)", encoding="utf-8")
    assert main(["run", "--verbose", "script.py"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("  check: d loss / d x: AGREE, largest error ") for line in lines), lines
    assert any(line.startswith("tapedebug ") for line in lines)
    assert lines[-2].endswith(" s for the program and its diagnosis")


def test_a_warning_fails_where_it_is_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(HEAD + TWICE, encoding="utf-8")
    assert main(["run", "-q", "--json", "out.json", "script.py"]) == 0
    assert {finding["severity"] for finding in data(tmp_path / "out.json")["findings"]} >= {"warning"}
    assert main(["run", "-q", "--fail-on", "warning", "script.py"]) == 1


TWICE = """
x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
unseen = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
y, loss = wp.zeros_like(x), wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    wp.launch(square, dim=3, inputs=[x], outputs=[y])
    wp.launch(total, dim=3, inputs=[y], outputs=[loss])
tape.backward(loss)
tape.backward(loss)
"""


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (["--fail-on", "note"], "argument --fail-on: invalid choice: 'note' (choose from "),
        (["-q", "-v"], "argument -v/--verbose: not allowed with argument -q/--quiet"),
    ],
)
def test_options_that_do_not_fit(
    arguments: list[str], messages: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["run", *arguments, "script.py"])
    assert stop.value.code == 2
    assert messages in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--sarif", "--junit"])
def test_a_place_that_cannot_be_written_is_refused_before_the_program_runs(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.py"
    script.write_text("raise SystemExit('ran')", encoding="utf-8")
    assert main(["run", option, str(tmp_path / "no" / "out"), str(script)]) == 2
    assert capsys.readouterr().err == f"tapedebug: {option}: the folder {tmp_path / 'no'} does not exist\n"
