"""Reports: one file, nothing from outside, every text escaped, limits said."""

from __future__ import annotations

import base64
import copy
import gzip
import hashlib
import importlib
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

import tapedebug as wp
from tapedebug.report import BundleError, _assets, _page, report, unused_path
from tapedebug.report._page import embed_json
from tapedebug.trace import TraceError, packing, trace_from_json
from tests.report import pages
from tests.report.pages import Page
from tests.trace.unpacked import unsealed

FIXTURES = Path(__file__).parents[2] / "js" / "tests" / "fixtures"
EVIL = "</script><img src=x onerror=alert(1)><!-- \u2028 &"
Json = dict[str, Any]


@pytest.fixture
def net() -> Json:
    data: Json = json.loads((FIXTURES / "net.trace.json").read_text("utf-8"))
    return data


@pytest.fixture(autouse=True)
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A front end of two lines: these tests are about the page, and run without Node."""
    folder = pages.bundle(tmp_path)
    monkeypatch.setattr(_assets, "STATIC", folder)
    return folder


def write(obj: Any, tmp_path: Path, **options: Any) -> tuple[str, Page]:
    path = report(obj, tmp_path / "out.html", **options)
    text = path.read_text("utf-8")
    return text, Page(text)


def poison(net: Json) -> Json:
    net["name"] = EVIL
    for key in ("arrays", "kernels", "launches", "scopes"):
        for item in net[key]:
            for name in ("name", "label", "file", "adjoint"):
                if name in item:
                    item[name] = EVIL
    net["kernels"][1]["lines"] = [EVIL]
    net["environment"] = {EVIL: EVIL}
    net["coverage"]["summary"] = EVIL
    net["coverage"]["notes"] = [EVIL]
    for finding in net["findings"]:
        finding.update(rule=EVIL, message=EVIL, fix=EVIL, arrays=[EVIL], evidence={EVIL: [EVIL]})
        finding["location"].update(file=EVIL, function=EVIL)
    for check in net["checks"]:
        check.update(input=EVIL, output=EVIL, message=EVIL)
    return net


def test_the_data_comes_back_unchanged(net: Json, tmp_path: Path) -> None:
    _, page = write(net, tmp_path)
    (trace,) = page.payload()["traces"]
    assert trace == {**trace_from_json(net).to_json(), "notes": []}
    assert page.payload()["notes"] == []


@pytest.mark.parametrize("redact", [False, True])
def test_markup_in_names_stays_text(net: Json, tmp_path: Path, redact: bool) -> None:
    text, page = write(poison(net), tmp_path, redact_source=redact)
    assert [tag for tag, _ in page.tags if tag in ("img", "iframe", "object", "link")] == []
    assert len([tag for tag, _ in page.tags if tag == "script"]) == 2
    assert "onerror=alert(1)>" not in text.replace("onerror=alert(1)&gt;", "")
    assert "\u2028" not in page.texts["script#tapedebug-trace"]
    (trace,) = page.payload()["traces"]
    assert trace["arrays"][0]["label"] == EVIL
    assert trace["findings"][0]["rule"] == EVIL
    assert page.texts["title"].startswith(EVIL)


def test_json_can_stand_in_any_element() -> None:
    assert embed_json({"a": "</script>&\u2028é"}) == r'{"a":"\u003c/script\u003e\u0026\u2028\u00e9"}'
    assert json.loads(embed_json({"a": EVIL})) == {"a": EVIL}
    with pytest.raises(ValueError, match="Out of range float values are not JSON compliant"):
        embed_json(float("nan"))


def test_the_policy_allows_the_inlined_script_and_style_only(net: Json, tmp_path: Path, bundle: Path) -> None:
    _, page = write(net, tmp_path)
    (policy,) = [values["content"] for tag, values in page.tags if values.get("http-equiv")]

    def sha(name: str) -> str:
        digest = hashlib.sha256((bundle / name).read_bytes()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"

    assert policy == (
        f"default-src 'none'; script-src {sha('report.js')}; style-src {sha('report.css')}; "
        "base-uri 'none'; form-action 'none'"
    )
    assert page.texts["style"] == (bundle / "report.css").read_text("utf-8")
    assert [values for tag, values in page.tags if "style" in values or "onclick" in values] == []


def test_nothing_is_loaded(net: Json, tmp_path: Path) -> None:
    text, page = write(net, tmp_path)
    assert [values for _, values in page.tags if {"src", "href", "srcset", "action"} & values.keys()] == []
    assert re.findall(r"https?:|url\(|@import|//[a-z]+\.", text) == []


def test_it_is_readable_without_javascript(net: Json, tmp_path: Path) -> None:
    _, page = write(net, tmp_path)
    summary = page.texts["noscript"]
    assert "net · tape 3" in summary
    assert "✕ gradient WRONG. 11 of 11 launches checked end to end against a float64 replay" in summary
    assert "✕ overwrite · x, x_next" in summary
    assert net["findings"][0]["message"] in summary
    assert "called: /home/ada/net/net.py:86, in simulate" in summary
    assert "whole tapelossthrowWRONG0.38" in summary
    assert page.texts["title"] == "net · WRONG · tapedebug"


def test_redaction_leaves_code_and_folders_out(net: Json, tmp_path: Path) -> None:
    before = copy.deepcopy(net)
    text, page = write(net, tmp_path, redact_source=True)
    assert net == before
    assert "/home/ada" not in text
    assert "wp.tid()" not in text
    assert "x[i]" not in text
    (trace,) = page.payload()["traces"]
    assert [kernel["lines"] for kernel in trace["kernels"]] == [[]] * 5
    assert [kernel["adjoint"] for kernel in trace["kernels"]] == [None] * 5
    finding = trace["findings"][0]
    assert finding["message"].startswith(
        "launch 6 'integrate' overwrites values of 'x' that the adjoint of launch 1 'spring_forces' needs "
        "(…, line 29)"
    )
    assert finding["location"]["file"] == "net.py"
    assert finding["evidence"]["max_change"] == 0.0412
    assert "write_line" not in finding["evidence"]
    assert page.payload()["notes"] == ["Source, generated code and folders were left out on request."]


def test_long_things_are_cut_and_said_to_be(
    net: Json, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net["arrays"][0]["label"] = "x" * 1_000_000
    net["findings"][0]["evidence"]["elements"] = list(range(1000))
    net["kernels"][1]["adjoint"] = "a = 1\n" * 100_000
    monkeypatch.setattr(packing, "MOST_EXACT", 5)
    text, page = write(net, tmp_path)
    assert len(text) < 300_000
    (trace,) = page.payload()["traces"]
    assert trace["arrays"][0]["label"] == "x" * 4000 + "… (996000 more characters)"
    assert len(trace["findings"][0]["evidence"]["elements"]) == 500
    assert trace["versions"][0]["value"]["histogram"] is None
    assert page.payload()["notes"] == [
        "The generated adjoint of spring_forces was cut to 100,000 characters.",
        "2 long texts and lists were cut.",
    ]
    left_out = "Histograms of values were left out: there are 23 versions of arrays, more than 5."
    assert trace["notes"] == [left_out]
    assert left_out in page.texts["noscript"]


def test_several_tapes_in_one_report(net: Json, tmp_path: Path) -> None:
    other = json.loads((FIXTURES / "net-40-preserve.trace.json").read_text("utf-8"))
    _, page = write([other, trace_from_json(net)], tmp_path)
    assert [trace["name"] for trace in page.payload()["traces"]] == ["net-40-preserve", "net"]
    assert page.texts["title"] == "net-40-preserve and 1 more · WRONG · tapedebug"
    assert "✓ gradient AGREE." in page.texts["noscript"]
    assert "✕ gradient WRONG." in page.texts["noscript"]


def test_what_is_no_tape_is_refused(net: Json, tmp_path: Path) -> None:
    target = tmp_path / "out.html"
    with pytest.raises(TypeError) as error:
        report(3, target)  # type: ignore[arg-type]
    assert str(error.value) == (
        "a report or a diff takes a Tape, a Trace, a Diagnosis or the JSON data of a trace; got 3 (int)"
    )
    with pytest.raises(TypeError, match="there is nothing to report: the sequence is empty"):
        report([], target)
    net["schema"] = 99
    with pytest.raises(TraceError, match="newer tapedebug"):
        report(net, target)
    assert not target.exists()


def test_a_missing_bundle_is_said_with_the_command(net: Json, tmp_path: Path, bundle: Path) -> None:
    (bundle / "report.js").unlink()
    with pytest.raises(BundleError) as error:
        report(net, tmp_path / "out.html")
    assert str(error.value) == (
        f"the front end is not built: {bundle / 'report.js'} is missing\n"
        "  = hint: in the repository, run `make setup` (or `cd js && npm ci && npm run build:static`); "
        "an installed tapedebug carries it, so reinstall the wheel"
    )


def test_a_bundle_that_would_end_its_element_is_refused(net: Json, tmp_path: Path, bundle: Path) -> None:
    (bundle / "report.js").write_text("a = '</SCRIPT>';", "utf-8")
    with pytest.raises(BundleError, match="contains </script or <!--"):
        report(net, tmp_path / "out.html")


def test_a_report_appears_whole_or_not_at_all(
    net: Json, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out.html"
    target.write_text("the old one", "utf-8")

    def full(self: Path, _: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        report(net, target)
    assert target.read_text("utf-8") == "the old one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.html", "static"]


def test_where_no_file_can_be_it_is_said_at_once(net: Json, tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=f"^the folder {re.escape(str(tmp_path / 'no'))} does not exist$"
    ):
        report(net, tmp_path / "no" / "out.html")
    with pytest.raises(IsADirectoryError, match=f"^{re.escape(str(tmp_path))} is a folder, not a file$"):
        report(net, tmp_path)


def test_it_is_an_ordinary_file_with_an_absolute_path(
    net: Json, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = report(net, "out.html")
    assert path == tmp_path / "out.html"
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def test_large_data_is_packed_and_comes_back(
    net: Json, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_page, "MOST_PLAIN", 10_000)
    _, page = write(net, tmp_path)
    (kind,) = [values["type"] for tag, values in page.tags if values.get("id") == "tapedebug-trace"]
    assert kind == "application/gzip+base64"
    packed = page.texts["script#tapedebug-trace"]
    assert re.fullmatch(r"[A-Za-z0-9+/]+=*", packed)
    data = json.loads(gzip.decompress(base64.b64decode(packed)))
    assert (data["notes"], data["answers"]) == ([], [])
    assert [unsealed(trace)["versions"] for trace in data["traces"]] == [net["versions"]]
    assert len(packed) < 10_000


# ------------------------------------------------------------------ tapes


@wp.kernel
def squares(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def sums(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, y[wp.tid()])


def overwritten() -> tuple[wp.Tape, Any, Any]:
    """A tape whose gradient is wrong, as an engine computes it that keeps nothing."""
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    work = wp.zeros(3, dtype=float, requires_grad=True)
    y = wp.zeros(3, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.copy(work, x)
        wp.launch(squares, dim=3, inputs=[work], outputs=[y])
        wp.launch(squares, dim=3, inputs=[y], outputs=[work])
        wp.launch(sums, dim=3, inputs=[y], outputs=[loss])
    return tape, x, loss


def reported(obj: Any, tmp_path: Path, **options: Any) -> Json:
    (trace,) = write(obj, tmp_path, **options)[1].payload()["traces"]
    return {"verdict": trace["verdict"], "rules": [finding["rule"] for finding in trace["findings"]]}


def test_a_tape_is_reported_with_what_a_diagnosis_finds(tmp_path: Path) -> None:
    tape, _, loss = overwritten()
    tape.backward(loss)
    assert reported(tape, tmp_path, diagnose=False) == {"verdict": "NOT CHECKED", "rules": []}
    assert reported(tape, tmp_path) == {"verdict": "WRONG", "rules": ["overwrite"]}


def test_a_tape_that_was_diagnosed_is_not_diagnosed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape, _, loss = overwritten()
    tape.backward(loss)
    found = wp.diagnose(tape, loss=loss)
    source = importlib.import_module("tapedebug.report._report_source")
    monkeypatch.setattr(source, "diagnosed", lambda *_: pytest.fail("it was diagnosed"))
    for options in ({}, {"diagnose": False}):
        assert reported(tape, tmp_path, **options) == {"verdict": "WRONG", "rules": ["overwrite"]}
    assert wp.diff(tape, tape).before is found.trace


def test_a_diagnosis_from_before_the_last_pass_is_not_reported(tmp_path: Path) -> None:
    """Another pass may have consumed another gradient: here one that was not zeroed."""
    tape, x, loss = overwritten()
    tape.backward(loss)
    wp.diagnose(tape, loss=loss)
    x.assign(x.numpy() - 0.1 * x.grad.numpy())
    tape.backward(loss)
    assert reported(tape, tmp_path, diagnose=False) == {"verdict": "NOT CHECKED", "rules": []}
    assert "accumulated" in reported(tape, tmp_path)["rules"]


def test_a_diagnosis_from_before_the_last_launch_is_not_reported(tmp_path: Path) -> None:
    x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(sums, dim=2, inputs=[x], outputs=[loss])
    wp.diagnose(tape, loss=loss)
    assert reported(tape, tmp_path, diagnose=False)["verdict"] == "AGREE"
    tape.reset()
    with tape:
        wp.launch(sums, dim=2, inputs=[x], outputs=[loss])
    assert reported(tape, tmp_path, diagnose=False)["verdict"] == "NOT CHECKED"
    assert reported(tape, tmp_path)["verdict"] == "AGREE"


def test_a_diagnosis_of_several_tapes_is_reported_with_all_of_them(tmp_path: Path) -> None:
    (first, _, _), (second, _, _) = overwritten(), overwritten()
    found = wp.diagnose([first, second])
    _, page = write(found, tmp_path)
    assert [trace["tape"]["id"] for trace in page.payload()["traces"]] == [first.id, second.id]


def test_a_report_is_given_a_name_that_no_file_has(tmp_path: Path) -> None:
    assert unused_path("In [4]") == Path("tapedebug-report-In-4.html")
    assert unused_path("../net · tape 1", tmp_path) == tmp_path / "tapedebug-report-net-tape-1.html"
    (tmp_path / "tapedebug-report-net.html").touch()
    (tmp_path / "tapedebug-report-net-2.html").symlink_to("nowhere")
    assert unused_path("net", tmp_path).name == "tapedebug-report-net-3.html"
    assert unused_path("·", tmp_path).name == "tapedebug-report-tape.html"
    assert len(unused_path("x" * 1000).name) == len("tapedebug-report-.html") + 60
