"""Comparison of two tapes: the changes from one to the other."""

from __future__ import annotations

from tapedebug.report._diff.compare import diff as diff
from tapedebug.report._diff.result import Diff as Diff
