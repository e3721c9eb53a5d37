"""Traces: a recorded tape as plain, versioned data, and its files."""

from __future__ import annotations

from tapedebug.trace._decode import TraceError as TraceError
from tapedebug.trace._file import load_trace as load_trace
from tapedebug.trace.json_codec import trace_from_json as trace_from_json
from tapedebug.trace.model import Access as Access
from tapedebug.trace.model import Argument as Argument
from tapedebug.trace.model import ArrayInfo as ArrayInfo
from tapedebug.trace.model import Backward as Backward
from tapedebug.trace.model import Check as Check
from tapedebug.trace.model import Content as Content
from tapedebug.trace.model import Coverage as Coverage
from tapedebug.trace.model import Event as Event
from tapedebug.trace.model import Finding as Finding
from tapedebug.trace.model import Histogram as Histogram
from tapedebug.trace.model import KernelInfo as KernelInfo
from tapedebug.trace.model import Launch as Launch
from tapedebug.trace.model import Location as Location
from tapedebug.trace.model import ParamInfo as ParamInfo
from tapedebug.trace.model import Scope as Scope
from tapedebug.trace.model import Sequence as Sequence
from tapedebug.trace.model import Summary as Summary
from tapedebug.trace.model import TapeInfo as TapeInfo
from tapedebug.trace.model import Timing as Timing
from tapedebug.trace.model import Trace as Trace
from tapedebug.trace.model import Version as Version
from tapedebug.trace.packing import Packed as Packed
from tapedebug.trace.packing import pack as pack
from tapedebug.trace.packing import seal as seal
from tapedebug.trace.recording import TraceBinding as TraceBinding
from tapedebug.trace.recording import record as record
from tapedebug.trace.recording import record_with_arrays as record_with_arrays
from tapedebug.trace.repeats import find_sequences as find_sequences
from tapedebug.trace.repeats import scope_names as scope_names
from tapedebug.trace.repeats import sequences_of as sequences_of
from tapedebug.trace.repeats import sequences_within as sequences_within
from tapedebug.trace.repeats import without_numbers as without_numbers
from tapedebug.trace.summaries import summarise as summarise
