"""Measure watched programs and write their page: `python -m tests.programs [NAME …] [--write]`."""

from __future__ import annotations

import argparse

from tests.programs.catalog import BY_NAME, REQUIREMENTS
from tests.programs.table import PAGE, load, measure_all, page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="measure these programs")
    parser.add_argument("--all", action="store_true", help="measure every program")
    parser.add_argument("--write", action="store_true", help="write the page from the stored measurements")
    parser.add_argument("--requirements", action="store_true", help="print the packages to install")
    options = parser.parse_args()
    if options.requirements:
        print(*(f"{name}=={version}" for name, version in REQUIREMENTS.items()))
        return
    names = list(BY_NAME) if options.all else options.names
    if names:
        measure_all(names)
    if options.write:
        PAGE.write_text(page(load()), encoding="utf-8")


if __name__ == "__main__":
    main()
