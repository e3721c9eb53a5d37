"""Run Warp's own unit tests on this engine: `python -m tests.warp_suite [MODULE …] [--all] [--write]`.

Needs warp-lang, whose package contains its tests. Results are kept in build/; `--all` goes on with the
modules that have none yet (`--again`: all), `--rank` prints the reasons of failures, and `--write` writes the
page.
"""

from __future__ import annotations

import argparse

from tests.warp_suite.redirect import installed_tests
from tests.warp_suite.run import load, modules_of, run
from tests.warp_suite.table import PAGE, SUMMARY, page, ranking, summary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", help="modules to run, such as test_vec or matrix.test_mat")
    parser.add_argument("--all", action="store_true", help="run all modules without results")
    parser.add_argument("--again", action="store_true", help="with --all: run those with results, too")
    parser.add_argument("--rank", action="store_true", help="print the reasons of failures, largest first")
    parser.add_argument("--write", action="store_true", help="write the page from the results")
    options = parser.parse_args()
    modules = [f"warp.tests.{name}" for name in options.modules]
    if options.all:
        known = {} if options.again else load()
        modules = [name for name in modules_of(installed_tests()) if name not in known]
    for module, found in run(modules):
        passed = sum(each["outcome"] == "pass" for each in found.values())
        print(f"{module}: {passed} of {len(found)} passed", flush=True)
    if options.rank:
        print(ranking(load()))
    if options.write:
        SUMMARY.write_text(summary(load()), encoding="utf-8")
        PAGE.write_text(page(SUMMARY.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
