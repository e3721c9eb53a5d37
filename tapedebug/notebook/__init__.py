"""Notebook integration: the panel widget, rich display, magics, the kernel side of JupyterLab.

Imported on demand; importing it loads neither IPython nor ipywidgets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tapedebug._display import Renderer, register
from tapedebug.notebook.display import marimo_view, static_bundle
from tapedebug.notebook.display import tape_bundle as mimebundle
from tapedebug.notebook.display import tape_bundle as tape_bundle
from tapedebug.panel.execution_lock import execution_lock

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from tapedebug.notebook._widget import TapeDebugger as TapeDebugger

__all__ = ["TapeDebugger", "latest_panel", "load_ipython_extension", "mimebundle", "tape_bundle"]

register(Renderer(panel=mimebundle, static=static_bundle, marimo=marimo_view))


def load_widget() -> type[TapeDebugger]:
    """Return the widget class.

    Raises:
        ImportError: anywidget is not installed, or the panel's JavaScript has not been built; the message
            names the reason and the fix.
    """
    from pathlib import Path

    script = Path(__file__).parent.parent / "static" / "widget.js"
    if not script.exists():
        raise ImportError(f"the panel is not built: {script} is missing; run `make setup` in the source tree")
    try:
        from tapedebug.notebook._widget import TapeDebugger
    except ModuleNotFoundError as error:
        raise ImportError(f"the panel needs {error.name}; install it with `pip install anywidget`") from error
    return TapeDebugger


def latest_panel() -> TapeDebugger | None:
    """Return the panel that was opened last by displaying an object, or None."""
    from tapedebug.notebook._open_panels import latest

    return latest()


def load_ipython_extension(ipython: InteractiveShell) -> None:
    """Handle ``%load_ext tapedebug``: register the magics and the connection for the JupyterLab extension."""
    from tapedebug.notebook._cell_sources import cells
    from tapedebug.notebook.magics import install
    from tapedebug.notebook.record_next_cell import next_cell

    install(ipython)
    execution_lock.install(ipython)
    cells.install(ipython)
    next_cell.install(ipython)  # after the execution lock: a recording begins when the checks have ended
    if getattr(ipython, "kernel", None) is not None:
        from tapedebug.notebook import _comm

        _comm.register()


def __getattr__(name: str) -> Any:
    if name == "TapeDebugger":
        return load_widget()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
