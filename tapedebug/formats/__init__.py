"""Output files of `tapedebug run` in formats of code hosts and build servers."""

from __future__ import annotations

from tapedebug.formats._run import LEVELS as LEVELS
from tapedebug.formats._run import FailOn as FailOn
from tapedebug.formats._run import Run as Run
from tapedebug.formats._run import failing as failing
from tapedebug.formats._run import fails as fails
from tapedebug.formats._run import one_line as one_line
