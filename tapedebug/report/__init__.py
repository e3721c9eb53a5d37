"""Reports: the panel as one HTML file that needs no network, kernel or installation."""

from __future__ import annotations

from tapedebug.report._assets import BundleError as BundleError
from tapedebug.report._diff import Diff as Diff
from tapedebug.report._diff import diff as diff
from tapedebug.report._embedded_answers import AnswerBudget as AnswerBudget
from tapedebug.report._embedded_answers import embed_answers as embed_answers
from tapedebug.report._report import report as report
from tapedebug.report._report import unused_path as unused_path
from tapedebug.report._report import write_report as write_report
from tapedebug.report._report_source import answered as answered
from tapedebug.report._report_source import report_sources as report_sources
