"""DOT to SVG, with whichever Graphviz is installed."""

from __future__ import annotations

from tapedebug._errors import TapedebugError


class GraphvizError(TapedebugError, RuntimeError):
    """No Graphviz is installed, or it refused the text."""


def render_svg(dot: str) -> str:
    """Return `dot` (from `visualize`) drawn as an SVG document.

    The `graphviz` package with the `dot` program is used if both are there, else `pygraphviz`.

    Raises:
        GraphvizError: Neither is installed, or Graphviz could not read the text.
    """
    drawn = _with_graphviz(dot)
    if drawn is None:
        drawn = _with_pygraphviz(dot)
    if drawn is None:
        raise GraphvizError(
            "drawing a graph needs Graphviz, and none was found",
            hint="install the `dot` program (apt-get install graphviz) and `pip install graphviz`, "
            "or `pip install pygraphviz`, which brings its own",
        )
    return drawn


def _with_graphviz(dot: str) -> str | None:
    try:
        import graphviz
    except ImportError:
        return None
    try:
        return str(graphviz.Source(dot).pipe(format="svg", encoding="utf-8"))
    except graphviz.ExecutableNotFound:
        return None
    except graphviz.CalledProcessError as error:
        raise GraphvizError(f"Graphviz could not draw this graph: {error.stderr or error}") from None


def _with_pygraphviz(dot: str) -> str | None:
    try:
        import pygraphviz
    except ImportError:
        return None
    try:
        drawn: bytes = pygraphviz.AGraph(string=dot).draw(format="svg", prog="dot")
    except (OSError, ValueError) as error:
        raise GraphvizError(f"Graphviz could not draw this graph: {error}") from None
    return drawn.decode("utf-8")
