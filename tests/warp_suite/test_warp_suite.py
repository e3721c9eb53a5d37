"""The runner of Warp's unit tests, on a small stand-in; the page shows the stored results."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.warp_suite.judgements import JUDGEMENTS
from tests.warp_suite.reasons import BEHAVIOUR, CLASSES, reason
from tests.warp_suite.redirect import FOLDER
from tests.warp_suite.run import modules_of, outcomes
from tests.warp_suite.table import PAGE, SUMMARY, page, ranking, summary

SMALL = """
import os
import subprocess
import sys
import unittest

import warp as wp
from warp._src.context import a_name_that_is_not_here
from warp.sparse import bsr_zeros
from warp.tests.helpers import two
from warp.tests.test_fabricarray import make


class Absent(wp.fabricarray):
    pass


class Both(wp.array, wp.indexedarray):
    pass


@bsr_zeros
def decorated():
    pass


@wp.struct
class Fields:
    values: wp.fabricarray[float]


class Small(unittest.TestCase):
    def test_a_numbers(self):
        self.assertEqual(wp.full(2, two(), dtype=float).numpy().tolist(), [2.0, 2.0])

    def test_b_words(self):
        with self.assertRaisesRegex(ValueError, "other words"):
            raise ValueError("these words")

    def test_c_an_internal_name(self):
        a_name_that_is_not_here()

    def test_d_a_module_that_is_not_here(self):
        bsr_zeros(1)

    def test_e_ends_the_process(self):
        os._exit(3)

    def test_f_skipped(self):
        self.skipTest("no device")

    def test_g_processes_are_redirected(self):
        code = "import warp, warp.tests.helpers; print(warp.__doc__)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertIn("on tapedebug", done.stdout, done.stderr)

    def test_h_subtests(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertLess(number, 1)

    def test_i_what_is_derived_from_names_that_are_not_here(self):
        for each in (Absent, Both, decorated, make):
            with self.assertRaisesRegex(Exception, "used after its import"):
                each(1)
        self.assertIsNone(Fields().values)
"""
EXPECTED = {
    "test_a_numbers": "pass",
    "test_b_words": "wording",
    "test_c_an_internal_name": "internal",
    "test_d_a_module_that_is_not_here": "absent",
    "test_e_ends_the_process": "fault",
    "test_f_skipped": "skipped",
    "test_g_processes_are_redirected": "pass",
    "test_h_subtests": "fault",
    "test_i_what_is_derived_from_names_that_are_not_here": "pass",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("site") / "warp" / "tests"
    made.mkdir(parents=True)
    for name, text in {
        "__init__.py": "",
        "helpers.py": "def two(): return 2.0",
        "test_small.py": SMALL,
        "../__init__.py": "raise ImportError('this is not redirected')",
        "../sparse.py": "",
    }.items():
        (made / name).write_text(text, encoding="utf-8")
    return made


def test_the_outcome_of_each_test_is_kept_even_if_one_ends_the_process(folder: Path) -> None:
    assert modules_of(folder) == ["warp.tests.test_small"]
    before = dict(os.environ)
    found = outcomes("warp.tests.test_small", folder)
    assert dict(os.environ) == before
    assert FOLDER not in os.environ
    kinds = {}
    for name, outcome in found.items():
        kinds[name.rpartition(".")[2]] = (
            "pass" if outcome["outcome"] == "pass" else reason(name, outcome).kind
        )
    assert kinds == EXPECTED
    stored = summary({"warp.tests.test_small": found})
    text = page(stored)
    assert "**3 of 5 tests of behaviour pass: 60.0 %.**" in text
    assert "| test_small | 8 | 3 |  |  |  | 2 |  | 1 |  | 1 | 1 |  | 1 |" in text
    assert '| test_small.test_b_words | AssertionError: "other words" does not match "these words"' in text
    assert "fault 2, wording 1" in ranking({"warp.tests.test_small": found}).splitlines()[0]


def test_a_test_that_takes_too_long_has_failed_and_the_others_run(folder: Path) -> None:
    body = "import time, unittest\nclass T(unittest.TestCase):\n  def test_a(self): time.sleep(99)\n"
    (folder / "test_slow.py").write_text(f"{body}  def test_b(self): pass\n", encoding="utf-8")
    found = outcomes("warp.tests.test_slow", folder, silent=4.0)
    assert {name.rpartition(".")[2]: (each["outcome"], each.get("kind")) for name, each in found.items()} == {
        "test_a": ("fail", "TimedOut"),
        "test_b": ("pass", None),
    }


def test_the_page_shows_the_stored_results() -> None:
    stored = SUMMARY.read_text(encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page(stored), "python -m tests.warp_suite --write"


def test_each_failure_has_a_class_and_a_line() -> None:
    data = json.loads(SUMMARY.read_text(encoding="utf-8"))
    assert set(BEHAVIOUR) < set(CLASSES)
    assert {kind for _, kind, _ in JUDGEMENTS} <= set(CLASSES)
    for module in data["modules"].values():
        for _, kind, why in module["fail"]:
            assert kind in CLASSES
            assert why
