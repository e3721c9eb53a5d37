"""`Tape.visualize`, with the arguments of Warp's API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tapedebug._atomic import write_whole
from tapedebug._errors import ArgumentError
from tapedebug._tape_functions import register
from tapedebug._tape_observers import recorded_tape
from tapedebug.contract import Array, RecordedTape, from_program
from tapedebug.trace import Trace, record_with_arrays
from tapedebug.visualize._dot import to_dot
from tapedebug.visualize._options import MOST_LAUNCHES, Options
from tapedebug.visualize._render import PICTURES, rendered

if TYPE_CHECKING:
    import os

    from tapedebug.diagnose import Diagnosis

Ids = Callable[[object], "int | None"]
DIRECTIONS = ("LR", "RL", "TB", "BT")


@register
def visualize(
    tape: RecordedTape | Trace | Diagnosis,
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
    to an input. The errors and warnings of a diagnosis are written at the arrays and launches concerned. All
    marks have words as well as a colour, and a legend. Scopes are boxes around launches.
    `visualize.render_svg` draws the text.

    Args:
        tape: A tape, a trace or a diagnosis.
        filename: Also write the text to this file; if its name ends in `.svg`, `.pdf` or `.png`, write the
            picture instead, drawn as by `visualize.render_svg`.
        simplify_graph: Draw a repeated sequence of launches once, with its number of repetitions. Arrays that
            swap places, or are new in each round, become one node, so that the data flow is preserved.
            Launches inside a scope are never folded with those outside it, or in one of another name; names
            that differ only in their numbers (`step 1`, `step 2`) are rounds of one loop.
        hide_readonly_arrays: Leave out arrays that no launch writes.
        array_labels: Names of arrays; others get the names of the caller's variables.
        choose_longest_node_name: If an array has several names, use the longest, not the nearest.
        ignore_graph_scopes: Draw no scopes.
        track_inputs: Arrays that are drawn even if they are only read, with a double border.
        track_outputs: Output arrays that are drawn in the same way.
        track_input_names: Names for `track_inputs`.
        track_output_names: Names for `track_outputs`.
        graph_direction: `"LR"`, `"RL"`, `"TB"` or `"BT"`.
        most_launches: With `simplify_graph`, if more launches than this remain, draw one box for all launches
            of a program line.

    Raises:
        ValueError: The direction is unknown, or the numbers of names and tracked arrays differ.
        TypeError: An object to be labelled or tracked is not an array (for a trace: not a label).
        GraphvizError: The file is a picture, and Graphviz is not installed.
        OSError: The file cannot be written.
    """
    if graph_direction not in DIRECTIONS:
        raise ValueError(
            f"visualize: graph_direction is one of {', '.join(DIRECTIONS)}; got {graph_direction!r}"
        )
    trace, ids = _resolve(tape, longest=choose_longest_node_name)
    notes: list[str] = []
    options = Options(
        simplify_graph=simplify_graph,
        hide_readonly_arrays=hide_readonly_arrays,
        ignore_graph_scopes=ignore_graph_scopes,
        graph_direction=graph_direction,
        most_launches=most_launches,
        labels=_labels(array_labels, ids),
        inputs=_tracked("track_input", track_inputs, track_input_names, ids, notes),
        outputs=_tracked("track_output", track_outputs, track_output_names, ids, notes),
        notes=notes,
    )
    dot = to_dot(trace, options)
    if filename is not None:
        kind = Path(filename).suffix.removeprefix(".").lower()
        write_whole(Path(filename), rendered(dot, kind) if kind in PICTURES else dot)
    return dot


def _resolve(tape: RecordedTape | Trace | Diagnosis, *, longest: bool) -> tuple[Trace, Ids]:
    """Return the trace, and a function from an array, or the label of one in a trace, to its id."""
    found = getattr(tape, "trace", None)
    trace = tape if isinstance(tape, Trace) else found if isinstance(found, Trace) else None
    if trace is not None:
        by_label = {info.label: info.id for info in trace.arrays}

        def id_of(key: object) -> int | None:
            if not isinstance(key, str):
                raise ArgumentError(
                    f"visualize: in a trace arrays are known by their labels; got {_shown(key)}"
                )
            return by_label.get(key)

        return trace, id_of

    own = cast("RecordedTape", recorded_tape(tape))
    recorded = record_with_arrays(own, longest_names=longest)

    def of_array(key: object) -> int | None:
        key = from_program(own, key)
        if not isinstance(key, Array):
            raise ArgumentError(f"visualize: arrays to label or to track are arrays; got {_shown(key)}")
        return recorded.id_of(key)

    return recorded.trace, of_array


def _labels(given: Mapping[Any, str] | None, ids: Ids) -> dict[int, str]:
    if given is not None and not isinstance(given, Mapping):
        raise ArgumentError(
            f"visualize: array_labels is a dictionary of arrays and their names; got {_shown(given)}"
        )
    pairs = ((ids(key), str(label)) for key, label in (given or {}).items())
    return {number: label for number, label in pairs if number is not None}


def _tracked(
    parameter: str,
    arrays: Sequence[Any] | None,
    names: Sequence[str] | None,
    ids: Ids,
    notes: list[str],
) -> dict[int, str | None]:
    """Return the ids of tracked arrays with their names; add those that are not on the tape to `notes`."""
    if isinstance(arrays, str) or hasattr(arrays, "is_contiguous"):
        arrays = [arrays]  # a single array: do not iterate over its rows
    arrays = list(arrays or ())
    if names is not None and len(names) != len(arrays):
        raise ValueError(
            f"visualize: {parameter}_names has {len(names)} names for {len(arrays)} tracked arrays"
        )
    found: dict[int, str | None] = {}
    for place, key in enumerate(arrays):
        number, label = ids(key), None if names is None else str(names[place])
        if number is not None:
            found[number] = label
        else:
            notes.append(f"{parameter}s: {label or f'array {place}'} is not on this tape")
    return found


def _shown(value: object) -> str:
    return f"{type(value).__name__} {value!r:.60}"
