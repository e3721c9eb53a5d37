"""Reports: what the panel shows, as one HTML file that needs no network, no kernel and no installation."""

from __future__ import annotations

from tapedebug.report._assets import BundleError as BundleError
from tapedebug.report._report import report as report
