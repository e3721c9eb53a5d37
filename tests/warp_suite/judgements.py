"""Judgements by hand of failures whose error alone does not say what they are.

Each is a pattern for the names of tests (without `warp.tests.`), a class of `reasons.CLASSES` and a sentence.
The first that fits counts.
"""

from __future__ import annotations

JUDGEMENTS: tuple[tuple[str, str, str], ...] = ()
