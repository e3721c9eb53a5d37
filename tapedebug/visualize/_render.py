"""Rendering of DOT to pictures with an installed Graphviz."""

from __future__ import annotations

from tapedebug._errors import TapedebugError


class GraphvizError(TapedebugError, RuntimeError):
    """Graphviz is not installed, or could not read the text."""


PICTURES = ("svg", "pdf", "png")
"""The supported picture formats, as file extensions."""


def render_svg(dot: str) -> str:
    """Return `dot` (from `visualize`) drawn as an SVG document.

    The `graphviz` package with the `dot` program is used if both are installed, else `pygraphviz`.

    Raises:
        GraphvizError: Neither is installed, or Graphviz could not read the text.
    """
    return rendered(dot, "svg").decode("utf-8")


def rendered(dot: str, kind: str) -> bytes:
    """Return `dot` drawn as one of `PICTURES`; errors are those of `render_svg`."""
    drawn = _with_graphviz(dot, kind)
    if drawn is None:
        drawn = _with_pygraphviz(dot, kind)
    if drawn is None:
        raise GraphvizError(
            "drawing a graph needs Graphviz, and none was found",
            hint="install the `dot` program (apt-get install graphviz) and `pip install graphviz`, "
            "or `pip install pygraphviz`, which brings its own",
        )
    return drawn


def _with_graphviz(dot: str, kind: str) -> bytes | None:
    try:
        import graphviz
    except ImportError:
        return None
    try:
        return bytes(graphviz.Source(dot).pipe(format=kind))
    except graphviz.ExecutableNotFound:
        return None
    except graphviz.CalledProcessError as error:
        raise GraphvizError(f"Graphviz could not draw this graph: {_message_of(error)}") from None


def _with_pygraphviz(dot: str, kind: str) -> bytes | None:
    try:
        import pygraphviz
    except ImportError:
        return None
    try:
        drawn: bytes = pygraphviz.AGraph(string=dot).draw(format=kind, prog="dot")
    except (OSError, ValueError) as error:
        raise GraphvizError(f"Graphviz could not draw this graph: {error}") from None
    return drawn


def _message_of(error: Exception) -> str:
    """Return the error message of Graphviz as text."""
    said = getattr(error, "stderr", None)
    return said.decode(errors="replace").strip() if isinstance(said, bytes) and said else str(said or error)
