"""Every name that programs written for this API use exists, or is said to be elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import tapedebug as wp
from tapedebug._unsupported import ELSEWHERE

NAMES = Path(__file__).with_name("api_names.txt")


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


def test_every_name_exists_or_is_said_to_be_missing() -> None:
    assert _absent() <= ELSEWHERE.keys()


def test_what_exists_is_not_said_to_be_missing() -> None:
    assert {name for name in ELSEWHERE if name in vars(wp)} == set()
