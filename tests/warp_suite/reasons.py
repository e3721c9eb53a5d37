"""The reasons why a test of Warp fails here: classes of failures, told by the error or decided by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from tapedebug import _errors
from tests.warp_suite.judgements import JUDGEMENTS

BEHAVIOUR = ("language", "arrays", "names", "fault", "time")
"""Classes of failures of tests of the behaviour of programs; the others are not counted in the rate."""

CLASSES = {
    "language": "a gap of the kernel language",
    "arrays": "a gap of arrays, structs or values outside of kernels",
    "names": "a name, attribute or setting that is missing",
    "fault": "another number, or another behaviour: open",
    "time": "stopped after 90 s without a result",
    "wording": "asserts the words or the class of an error, a log, or generated code",
    "design": "by design: this engine does more than Warp, or something else, as its pages say",
    "internal": "uses an internal of Warp",
    "absent": "needs what is not rebuilt here: meshes, grids, volumes, tiles, sparse, fem, APIC files",
    "cuda": "needs CUDA, its streams, memory pools or compilers",
    "skipped": "skipped by the test itself, mostly for want of a GPU",
}
"""The classes of failures, in words."""

_ABSENT = (
    r"warp\.(sparse|fem|sim|render|geometry|jax_experimental|build_experimental)\b|"
    r"\b(tile|mesh|bvh|hash_grid|volume|texture|marching_cubes|fabric\w*|indexedfabric\w*)_?\w*|"
    r"\.(Mesh|Bvh|HashGrid|Volume|Texture\w*|MarchingCubes|launch_tiled|compile_aot_module|capture_save|"
    r"capture_load\w*|fixedarray)\b"
)
_RULES: tuple[tuple[str, str], ...] = (
    (
        "absent",
        r"exists in NVIDIA Warp only: |has no name '(ScopedMemoryTracker|graph_coloring)",
    ),
    ("absent", r"`warp\.(?!_src)[\w.]+` is not in tapedebug"),
    ("absent", rf"^(Warp(Import|Name)Error|KernelNameError|AttributeError|NameError): .*({_ABSENT})"),
    (
        "internal",
        r"'(Module|Kernel|Function|FunctionSource|Variable|Builtin|Device)' object has no attribute|"
        r"'Launch' object has no attribute 'bounds'|"
        r"'array' object has no attribute '_|(Module|Function)\.__init__\(\)|get_kernel_hooks|"
        r"module 'warp' has no attribute '__file__'|^KeyError: 'log_level'|has no name 'map_cache'",
    ),
    ("internal", r"warp\._src|_src\.|used after its import|'MissingModule'|'FunctionSource'"),
    ("cuda", r"needs a CUDA device|no device 'cuda|only supported on CUDA"),
    ("wording", r"^AssertionError: .* does not match "),
    ("wording", r"^AssertionError: (Regex didn't match|'.*' not found in|.* not found in ['\"])"),
    ("names", r"^Warp(Import|Name)Error: |^AttributeError: |has no setting|has no option|unexpected keyword"),
    ("language", r"^Kernel(Syntax|Type|Name)Error: |^CompilerError"),
    ("arrays", r"^(ArrayError|LaunchError|TypeError|ValueError|IndexError|KeyError|BufferError): "),
    ("time", r"^TimedOut"),
    ("fault", r""),
)


OURS = frozenset({each.__name__ for each in vars(_errors).values() if isinstance(each, type)})
"""Errors of this engine: a test that expects an error of Warp gets one of these for the same mistake."""


class Reason(NamedTuple):
    """The class of a failure, and a sentence of its own if it was judged by hand."""

    kind: str
    sentence: str


def text_of(outcome: Mapping[str, Any]) -> str:
    """Return the error of a test as one text."""
    return f"{outcome.get('kind', '')}: {outcome.get('message', '')}"


def first_line(outcome: Mapping[str, Any], width: int = 150) -> str:
    """Return the first line of the error, shortened."""
    lines = [line.strip() for line in str(outcome.get("message", "")).splitlines() if line.strip()]
    line = f"{outcome.get('kind', '')}: {lines[0] if lines else ''}"
    return line if len(line) <= width else f"{line[: width - 1]}…"


def reason(test: str, outcome: Mapping[str, Any]) -> Reason:
    """Return why a test that did not pass failed."""
    if outcome["outcome"] == "skip":
        return Reason("skipped", "")
    name = test.removeprefix("warp.tests.")
    for pattern, kind, sentence in JUDGEMENTS:
        if re.fullmatch(pattern, name):
            return Reason(kind, sentence)
    text = text_of(outcome)
    if "expected" in outcome and outcome["kind"] in OURS:
        expected = " or ".join(outcome["expected"])
        return Reason("wording", f"{outcome['kind']} in place of {expected}: {first_line(outcome)}")
    return Reason(next(kind for kind, rule in _RULES if re.search(rule, text, re.MULTILINE)), "")
