"""`Tape.visualize`, with the arguments of the documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tapedebug.trace import Trace
from tapedebug.visualize._dot import to_dot
from tapedebug.visualize._options import MOST_LAUNCHES, Options

if TYPE_CHECKING:
    import os

    from tapedebug.diagnose import Diagnosis
    from tapedebug.runtime import Tape
    from tapedebug.runtime import array as Array

DIRECTIONS = ("LR", "RL", "TB", "BT")


def visualize(
    tape: Tape | Trace | Diagnosis,
    filename: str | os.PathLike[str] | None = None,
    simplify_graph: bool = True,
    hide_readonly_arrays: bool = False,
    array_labels: Mapping[Array, str] | None = None,
    choose_longest_node_name: bool = True,
    ignore_graph_scopes: bool = False,
    track_inputs: Sequence[Array] | None = None,
    track_outputs: Sequence[Array] | None = None,
    track_input_names: Sequence[str] | None = None,
    track_output_names: Sequence[str] | None = None,
    graph_direction: str = "LR",
    most_launches: int = MOST_LAUNCHES,
) -> str:
    """Return the launches of a tape as a diagram in Graphviz's DOT language.

    Launches are grey boxes with a port for each array argument. Arrays are ellipses: green with
    `requires_grad`, grey without; with a red border where values that an adjoint needs were overwritten
    (dashed where the tape kept copies), and with an orange one where a gradient ends on its way from the loss
    to an input. A diagnosis has its errors and warnings written at the arrays and launches concerned. All
    marks have words as well as a colour, and a legend. Scopes are boxes around launches.
    `visualize.render_svg` draws the text.

    Args:
        tape: A tape, a trace or a diagnosis.
        filename: Also write the text to this file.
        simplify_graph: Draw a repeated sequence of launches once, with how often it occurs. Arrays that swap
            places, or are new in each round, become one node, so that the data flow stays whole.
        hide_readonly_arrays: Leave out arrays that no launch writes.
        array_labels: Names of arrays; others get the names of the caller's variables.
        choose_longest_node_name: Of several names of one array take the longest, not the nearest.
        ignore_graph_scopes: Draw no scopes.
        track_inputs: Arrays that are drawn even if they are only read, with a double border.
        track_outputs: The same for outputs.
        track_input_names: Names for `track_inputs`.
        track_output_names: Names for `track_outputs`.
        graph_direction: `"LR"`, `"RL"`, `"TB"` or `"BT"`.
        most_launches: With `simplify_graph`, where more launches than this are left, one box stands for all
            of a line of the program.

    Raises:
        ValueError: An unknown direction, or names that do not match the tracked arrays in number.
        OSError: The file can not be written.
    """
    if graph_direction not in DIRECTIONS:
        raise ValueError(
            f"visualize: graph_direction is one of {', '.join(DIRECTIONS)}; got {graph_direction!r}"
        )
    trace, ids = _resolve(tape, longest=choose_longest_node_name)
    options = Options(
        simplify_graph=simplify_graph,
        hide_readonly_arrays=hide_readonly_arrays,
        ignore_graph_scopes=ignore_graph_scopes,
        graph_direction=graph_direction,
        most_launches=most_launches,
        labels={
            number: label for key, label in (array_labels or {}).items() if (number := ids(key)) is not None
        },
        inputs=_tracked("track_input_names", track_inputs, track_input_names, ids),
        outputs=_tracked("track_output_names", track_outputs, track_output_names, ids),
    )
    dot = to_dot(trace, options)
    if filename is not None:
        Path(filename).write_text(dot, encoding="utf-8")
    return dot


def _resolve(tape: Tape | Trace | Diagnosis, *, longest: bool) -> tuple[Trace, Any]:
    found = getattr(tape, "trace", None)
    trace = tape if isinstance(tape, Trace) else found if isinstance(found, Trace) else None
    if trace is not None:
        return trace, {info.label: info.id for info in trace.arrays}.get
    from tapedebug.trace import record_with_arrays

    recorded = record_with_arrays(cast("Tape", tape), longest_names=longest)
    return recorded.trace, recorded.id_of


def _tracked(
    parameter: str, arrays: Sequence[Any] | None, names: Sequence[str] | None, ids: Any
) -> dict[int, str | None]:
    arrays = list(arrays or ())
    if names is not None and len(names) != len(arrays):
        raise ValueError(f"visualize: {parameter} has {len(names)} names for {len(arrays)} tracked arrays")
    labels: list[str | None] = list(names) if names is not None else [None] * len(arrays)
    pairs = ((ids(key), label) for key, label in zip(arrays, labels, strict=True))
    return {number: label for number, label in pairs if number is not None}
