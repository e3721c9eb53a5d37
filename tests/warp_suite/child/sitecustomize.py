"""Redirect `import warp` in Python processes that a test of Warp starts, as in the process of the test."""

from __future__ import annotations

import os
from pathlib import Path

from tests.warp_suite.redirect import FOLDER, redirect

if FOLDER in os.environ:
    redirect(Path(os.environ[FOLDER]))
