"""Tapes as Graphviz diagrams: launches with their argument ports, arrays, scopes, repetition folded."""

from __future__ import annotations

from tapedebug.visualize._dot import to_dot as to_dot
from tapedebug.visualize._options import Options as Options
from tapedebug.visualize._render import GraphvizError as GraphvizError
from tapedebug.visualize._render import render_svg as render_svg
from tapedebug.visualize._visualize import visualize as visualize
