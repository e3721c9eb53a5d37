"""The pytest plugin: reports of failures, where they go, who is told, and that nothing else happens."""

import os
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import llvmlite.binding  # noqa: F401  pytester forgets what its runs import; our compiler keeps what it got of it
import pytest

import tapedebug as wp
from tests.autograd import kernels as k
from tests.processes import ROOT
from tests.test_documentation import blocks

pytest_plugins = ["pytester"]

KERNELS = """
import pytest
import tapedebug as wp
from tapedebug.autograd import gradcheck

@wp.func
def bent(x: float):
    return x * x

@wp.func_grad(bent)
def adj_bent(x: float, adj_ret: float):
    wp.adjoint[x] += 3.0 * x * adj_ret

@wp.kernel
def wrong(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = bent(x[i])

@wp.kernel
def right(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]

def arrays():
    return [wp.array([1.0, 2.0], dtype=float, requires_grad=True)], [wp.zeros(2, requires_grad=True)]
"""

FAILS = (
    KERNELS
    + """
def test_wrong(assert_gradients):
    assert_gradients(wrong, 2, *arrays())

def test_right(assert_gradients):
    assert_gradients(right, 2, *arrays())
"""
)

ALONE = ("-p", "no:tapedebug", "-p", "pytest_tapedebug")  # whether or not the package is installed


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """A session within this one forgets what it imports, and compiled modules cannot be loaded twice."""
    x, y = k.vector([1.0]), k.vector([0.0])
    wp.autograd.gradcheck(k.square, 1, [x], [y], show_summary=False)


@pytest.fixture(autouse=True)
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)


def reports(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.html"))


def test_a_failure_leaves_a_report_and_names_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=FAILS)
    result = pytester.runpytest_inprocess(*ALONE, "--tapedebug-reports", "out")
    result.assert_outcomes(passed=1, failed=1)
    written = pytester.path / "out" / "test_it.py--test_wrong.html"
    assert reports(written.parent) == [written.name], "none for a test that passes"
    result.stdout.fnmatch_lines(
        [
            "*AssertionError: Gradient check for kernel wrong failed: WRONG*d y[[]1[]] / d x[[]1[]]*",
            "*- gradients -*",
            "kernel wrong: d y / d x is WRONG",
            f"report: {written}",
        ]
    )
    page = written.read_text(encoding="utf-8")
    assert "<html" in page
    assert "kernel wrong" in page
    inside = [line for line in result.outlines if "tapedebug/autograd" in line]
    assert inside == [], "the traceback ends at the line of the test"


def test_assertions_show_arrays(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it=KERNELS
        + """
import array
def test_ours():
    assert not [arrays()[0][0]]
def test_of_python():
    assert not [array.array("f", [1.0])]
"""
    )
    result = pytester.runpytest_inprocess(*ALONE)
    result.stdout.fnmatch_lines(
        ["*assert not [[]array(shape=(2,), *", "*assert not [[]array('f', [[]1.0[]])[]]*"]
    )


@pytest.mark.parametrize("options", [(), ("--tapedebug-reports", "out")])
def test_a_test_that_passes_again_takes_its_report_away(
    pytester: pytest.Pytester, options: tuple[str, ...]
) -> None:
    wrong, right = FAILS, FAILS.replace("def test_wrong", "def test_wrong(): pass\n\ndef not_a_test")
    assert wrong != right
    folder = pytester.path / ("out" if options else ".pytest_cache/d/tapedebug-reports")
    pytester.makepyfile(test_it=wrong, test_other=wrong)
    pytester.runpytest_inprocess(*ALONE, *options).assert_outcomes(passed=2, failed=2)
    assert reports(folder) == ["test_it.py--test_wrong.html", "test_other.py--test_wrong.html"]
    pytester.makepyfile(test_it=right)
    pytester.runpytest_inprocess(*ALONE, *options, "test_it.py").assert_outcomes(passed=2)
    assert reports(folder) == ["test_other.py--test_wrong.html"], "of a test that did not run it stays"


def test_the_default_is_pytests_cache(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=FAILS)
    pytester.runpytest_inprocess(*ALONE).assert_outcomes(passed=1, failed=1)
    folder = pytester.path / ".pytest_cache" / "d" / "tapedebug-reports"
    assert reports(folder) == ["test_it.py--test_wrong.html"]
    pytester.runpytest_inprocess(*ALONE, "-p", "no:cacheprovider").assert_outcomes(passed=1, failed=1)
    assert reports(pytester.path / "tapedebug-reports") == ["test_it.py--test_wrong.html"]


def test_the_ini_file_names_a_folder_and_the_command_line_wins(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ntapedebug_reports = build/gradients\n")
    pytester.makepyfile(test_it=FAILS)
    pytester.runpytest_inprocess(*ALONE)
    assert reports(pytester.path / "build" / "gradients") == ["test_it.py--test_wrong.html"]
    pytester.runpytest_inprocess(*ALONE, "--tapedebug-reports=elsewhere")
    assert reports(pytester.path / "elsewhere") == ["test_it.py--test_wrong.html"]


def test_names_of_files_are_clean_and_each_test_has_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it=KERNELS
        + """
@pytest.mark.parametrize("name", ["a/b", "a b", "..", "x" * 300, "é"])
def test_wrong(assert_gradients, name):
    assert_gradients(wrong, 2, *arrays())
"""
    )
    pytester.runpytest_inprocess(*ALONE, "--tapedebug-reports=out").assert_outcomes(failed=5)
    found = reports(pytester.path / "out")
    assert len(found) == 5
    assert all(len(name) < 140 and "/" not in name and " " not in name for name in found)


def test_every_failure_of_a_test_has_a_report(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it=KERNELS
        + """
@pytest.fixture
def broken(assert_gradients):
    yield
    assert_gradients(wrong, 2, *arrays())

def test_group(assert_gradients):
    errors = []
    for kernel in (wrong, right, wrong):
        try:
            assert_gradients(kernel, 2, *arrays())
        except AssertionError as error:
            errors.append(error)
    raise ExceptionGroup("gradients", errors)

def test_one_after_the_other(assert_gradients):
    try:
        assert_gradients(wrong, 2, *arrays())
    except AssertionError:
        assert_gradients(wrong, 2, *arrays())

def test_teardown(broken):
    pass

def test_gradcheck():
    gradcheck(wrong, 2, *arrays())

def test_plain_assert():
    good = gradcheck(right, 2, *arrays())
    result = gradcheck(wrong, 2, *arrays(), raise_exception=False)
    assert result

def test_end_to_end(assert_gradients):
    [x], [y] = arrays()
    with wp.Tape() as tape:
        wp.launch(wrong, 2, [x], [y])
    assert_gradients(tape, loss={y: [1.0, 1.0]}, inputs=[x])

def test_something_else():
    result = gradcheck(wrong, 2, *arrays(), raise_exception=False)
    raise RuntimeError("not about gradients")
"""
    )
    pytester.runpytest_inprocess(*ALONE, "--tapedebug-reports=out")
    assert reports(pytester.path / "out") == [
        "test_it.py--test_end_to_end.html",
        "test_it.py--test_gradcheck.html",
        "test_it.py--test_group-2.html",
        "test_it.py--test_group.html",
        "test_it.py--test_one_after_the_other-2.html",
        "test_it.py--test_one_after_the_other.html",
        "test_it.py--test_plain_assert.html",
        "test_it.py--test_teardown-teardown.html",
    ]


def test_junit_xml_names_the_report(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=FAILS)
    pytester.runpytest_inprocess(*ALONE, "--tapedebug-reports=out", "--junitxml=results.xml")
    cases = {case.get("name"): case for case in ElementTree.parse("results.xml").iter("testcase")}
    properties = [p.attrib for p in cases["test_wrong"].iter("property")]
    written = str(pytester.path / "out" / "test_it.py--test_wrong.html")
    assert properties == [{"name": "tapedebug_report", "value": written}]
    assert not list(cases["test_right"].iter("property"))


@pytest.mark.slow
def test_workers_of_xdist_write_to_the_same_folder(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    pytester.makepyfile(test_a=FAILS, test_b=FAILS)
    result = pytester.runpytest_subprocess("-p", "xdist", *ALONE, "-n2", "--tapedebug-reports=out")
    result.assert_outcomes(passed=2, failed=2)
    assert reports(pytester.path / "out") == ["test_a.py--test_wrong.html", "test_b.py--test_wrong.html"]
    result.stdout.fnmatch_lines([f"report: {pytester.path}/out/test_?.py--test_wrong.html"])


HTML_PLUGIN = '''
"""What the plugin uses of pytest-html."""

class extras:
    @staticmethod
    def url(content, name="URL"):
        return {"format_type": "url", "content": content, "name": name}
'''


def test_pytest_html_gets_a_link(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(pytest_html=HTML_PLUGIN, test_it=FAILS)
    pytester.makeconftest(
        """
import pytest_html

def pytest_configure(config):
    config.pluginmanager.register(pytest_html, "html")

def pytest_runtest_logreport(report):
    print("\\nEXTRAS", report.when, getattr(report, "extras", None))
"""
    )
    pytester.syspathinsert()
    result = pytester.runpytest_inprocess(*ALONE, "--tapedebug-reports=out", "-s")
    link = (pytester.path / "out" / "test_it.py--test_wrong.html").as_uri()
    expected = [{"format_type": "url", "content": link, "name": "gradients"}]
    assert f"EXTRAS call {expected}" in result.outlines
    assert result.outlines.count("EXTRAS call None") == 1


def test_a_report_that_cannot_be_written_hides_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=FAILS)
    (pytester.path / "out").write_text("a file, no folder")
    result = pytester.runpytest_inprocess(*ALONE, "--tapedebug-reports=out")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*AssertionError: Gradient check*", "no report was written: *File exists*"])


LIGHT = """
import sys
import pytest_tapedebug
heavy = [name for name in ("tapedebug", "numpy", "numba", "llvmlite") if name in sys.modules]
assert not heavy, heavy
"""


def test_the_plugin_imports_nothing_of_tapedebug() -> None:
    subprocess.run([sys.executable, "-c", LIGHT], cwd=ROOT, check=True)


def test_the_entry_point_of_the_package_works(pytester: pytest.Pytester) -> None:
    """The plugin of an installed distribution is found by pytest itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = pytester.path / "site" / "tapedebug-99.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tapedebug\nVersion: 99\n")
    entries = [f"{name} = {target}" for name, target in project["entry-points"]["pytest11"].items()]
    (info / "entry_points.txt").write_text("\n".join(["[pytest11]", *entries, ""]))
    pytester.makepyfile(test_it=FAILS)
    environment = {**os.environ, "PYTHONPATH": f"{info.parent}{os.pathsep}{ROOT}"}
    environment.pop("PYTEST_DISABLE_PLUGIN_AUTOLOAD", None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--tapedebug-reports=out"],
        cwd=pytester.path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert reports(pytester.path / "out") == ["test_it.py--test_wrong.html"]


def test_the_page_about_testing_holds(pytester: pytest.Pytester) -> None:
    """Its tests pass as they stand, and fail once the kernel has a wrong gradient."""
    page = blocks("docs/testing.md")
    assert page.count("def test_") == 3
    pytester.makepyfile(test_page=page)
    pytester.runpytest_inprocess(*ALONE).assert_outcomes(passed=3)
    bent = "@wp.func\ndef bent(x: float):\n    return x * x * x\n\n@wp.func_grad(bent)\n"
    bent += "def adj_bent(x: float, adj_ret: float):\n    wp.adjoint[x] += x * adj_ret\n\n@wp.kernel\n"
    wrong = page.replace("@wp.kernel\n", bent).replace("x[i] * x[i] * x[i]", "bent(x[i])")
    pytester.makepyfile(test_page=wrong)
    result = pytester.runpytest_inprocess(*ALONE)
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(["*.pytest_cache/d/tapedebug-reports/test_page.py--test_cube.html"])
