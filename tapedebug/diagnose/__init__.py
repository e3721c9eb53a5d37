"""Diagnose the gradients of a tape: what is wrong, where, and the fix; or that they are right."""

from __future__ import annotations

from tapedebug.diagnose._diagnose import diagnose as diagnose
from tapedebug.diagnose.diagnosis import Diagnosis as Diagnosis
from tapedebug.diagnose.diagnosis import GradientError as GradientError
from tapedebug.diagnose.diagnosis import diagnoses_to_json as diagnoses_to_json
from tapedebug.trace.model import Coverage as Coverage
from tapedebug.trace.model import Finding as Finding
