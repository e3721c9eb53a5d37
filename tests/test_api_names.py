"""Every name that programs written for this API use exists, or is listed as planned."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import tapedebug as wp
from tapedebug._planned import PLANNED

NAMES = Path(__file__).with_name("api_names.txt")
ABSENT = """
    spatial_jacobian spatial_mass view
"""
"""What is still missing; a name that came is to be taken out."""


def _names() -> Iterator[str]:
    for line in NAMES.read_text(encoding="utf-8").splitlines():
        if not line.startswith(("#", "[")):
            yield from line.split()


def _absent() -> set[str]:
    found = set()
    for name in _names():
        try:
            reduce(getattr, name.split("."), wp)
        except AttributeError:
            found.add(name)
    return found


def test_the_list_is_read() -> None:
    names = list(_names())
    assert len(names) > 300
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[A-Za-z_][\w.]*", name) for name in names)


def test_every_name_exists() -> None:
    assert _absent() <= set(ABSENT.split())


def test_what_exists_is_not_planned_any_more() -> None:
    assert {name for name in PLANNED if name in vars(wp)} == set()
