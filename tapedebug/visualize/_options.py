"""Options of `Tape.visualize` as plain data; arrays are named by their id in the trace."""

from __future__ import annotations

from dataclasses import field

from tapedebug._dataclass import dataclass

MOST_LAUNCHES = 300
"""Largest number of launches drawn one by one; with more, edges are unreadable and `dot` takes minutes."""


@dataclass(slots=True, kw_only=True)
class Options:
    """Settings of a drawing; the names are those of `visualize`. `notes` are written below it."""

    simplify_graph: bool = True
    hide_readonly_arrays: bool = False
    ignore_graph_scopes: bool = False
    graph_direction: str = "LR"
    most_launches: int = MOST_LAUNCHES
    labels: dict[int, str] = field(default_factory=dict)
    inputs: dict[int, str | None] = field(default_factory=dict)
    outputs: dict[int, str | None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
