"""Jacobians as pictures: thick lines between array elements, thin dashed ones between vector components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tapedebug._errors import TapedebugError
from tapedebug.autograd.metadata import FunctionMetadata
from tapedebug.lang.types import components

Key = tuple[int, int]
MOST_LINES = 128  # grid lines on an axis; more would hide the picture


def jacobian_plot(
    jacobians: Mapping[Key, Any],
    kernel: Any,
    inputs: Sequence[Any] | None = None,
    show_plot: bool = True,
    show_colorbar: bool = True,
    scale_colors_per_submatrix: bool = False,
    title: str | None = None,
    colormap: str = "coolwarm",
    log_scale: bool = False,
) -> Any:
    """Show Jacobians in one figure, a column for each input and a row for each output.

    Args:
        jacobians: What `jacobian` or `jacobian_fd` returned.
        kernel: The kernel, or a `FunctionMetadata`.
        inputs: The inputs; required where `kernel` is a kernel.
        show_plot: Call `matplotlib.pyplot.show`.
        show_colorbar: Show what the colours mean.
        scale_colors_per_submatrix: Scale colours for each Jacobian on its own, not for all together.
        title: Of the figure.
        colormap: Of matplotlib.
        log_scale: Show the logarithm (base 10) of the magnitudes.

    Returns:
        The matplotlib figure; close it with `matplotlib.pyplot.close` when it is not shown.

    Raises:
        TapedebugError: matplotlib is not installed, or there is nothing to plot.
    """
    metadata = kernel
    if not isinstance(kernel, FunctionMetadata):
        if inputs is None:
            raise TapedebugError("jacobian_plot: a kernel needs its inputs too", mend="pass inputs=[…]")
        metadata = FunctionMetadata.of_kernel(kernel, inputs)
    matrices = {key: _matrix(jacobian) for key, jacobian in jacobians.items()}
    if not matrices:
        raise TapedebugError("jacobian_plot: there are no Jacobians to plot", mend="choose at least one pair")
    return plot_matrices(
        matrices, metadata, show=show_plot, colorbar=show_colorbar, separate=scale_colors_per_submatrix,
        title=title, colormap=colormap, log_scale=log_scale,
    )  # fmt: skip


def _matrix(jacobian: Any) -> np.ndarray[Any, Any]:
    values = np.array(jacobian.numpy() if hasattr(jacobian, "numpy") else jacobian, dtype=np.float64)
    return values.reshape(values.shape[0], -1) if values.size else values.reshape(values.shape[0], 0)


def plot_matrices(
    matrices: Mapping[Key, np.ndarray[Any, Any]],
    metadata: FunctionMetadata,
    *,
    show: bool,
    colorbar: bool = True,
    separate: bool = False,
    title: str | None = None,
    colormap: str = "coolwarm",
    log_scale: bool = False,
) -> Any:
    """Plot plain matrices of scalars, (outputs, inputs), by pair; see `jacobian_plot`."""
    plt = _pyplot()
    columns, rows = sorted({i for i, _ in matrices}), sorted({o for _, o in matrices})
    shown = {key: np.log10(np.abs(m) + 1e-300) if log_scale else m for key, m in matrices.items()}
    low, high = _limits(list(shown.values()))
    size = (1.5 + 3.0 * len(columns), 1.0 + 3.0 * len(rows))
    figure, axes = plt.subplots(len(rows), len(columns), squeeze=False, figsize=size, constrained_layout=True)
    picture = None
    for (line, output), (column, source) in ((r, c) for r in enumerate(rows) for c in enumerate(columns)):
        axis = axes[line][column]
        values = shown.get((source, output))
        if values is None:
            axis.axis("off")
            continue
        vmin, vmax = _limits([values]) if separate else (low, high)
        picture = axis.imshow(
            values, cmap=colormap, vmin=vmin, vmax=vmax, aspect="auto", interpolation="nearest"
        )
        _grid(
            axis,
            values.shape,
            components(metadata.output_dtypes[output]),
            components(metadata.input_dtypes[source]),
        )
        axis.set_title(f"d {metadata.output_labels[output]} / d {metadata.input_labels[source]}", fontsize=9)
        axis.tick_params(labelsize=7)
        if colorbar and separate:
            figure.colorbar(picture, ax=axis)
    if colorbar and not separate and picture is not None:
        figure.colorbar(picture, ax=axes.ravel().tolist(), label="log10 |·|" if log_scale else None)
    figure.suptitle(title if title is not None else f"Jacobian of {metadata.key}")
    if show:
        plt.show()
    return figure


def plot_errors(
    kept: Sequence[Any], metadata: FunctionMetadata, *, relative: bool, absolute: bool
) -> list[Any]:
    """Show where AD and FD differ.

    Args:
        kept: The comparisons of a check.
        metadata: Labels.
        relative: Plot |AD - FD| / |FD|.
        absolute: Plot |AD - FD|.

    Returns:
        The figures.
    """
    figures = []
    for wanted, title in ((relative, "Relative error"), (absolute, "Absolute error")):
        if not wanted:
            continue
        matrices = {}
        for pair in kept:
            units = np.ix_(range(len(pair.rows.units)), range(len(pair.columns.units)))
            with np.errstate(all="ignore"):
                error = np.abs(pair.ad - pair.reference.value)[units]
                if title.startswith("Rel"):
                    error = np.where(error == 0, 0.0, error / np.abs(pair.reference.value[units]))
            whole = np.full((pair.target.size, pair.source.size), np.nan)
            whole[np.ix_(pair.rows.units, pair.columns.units)] = error
            if not pair.source.in_place:
                matrices[pair.source.index, pair.target.index] = whole
        if matrices:
            figures.append(
                plot_matrices(
                    matrices, metadata, show=True, title=f"{title} of {metadata.key}", colormap="viridis"
                )
            )
    return figures


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise TapedebugError(
            "plots need matplotlib, which is not installed", mend="pip install 'tapedebug[plot]'"
        ) from None
    return plt


def _limits(matrices: Sequence[np.ndarray[Any, Any]]) -> tuple[float, float]:
    known = [m[np.isfinite(m)] for m in matrices]
    values = np.concatenate(known) if known else np.zeros(0)
    if not values.size:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def _grid(axis: Any, shape: tuple[int, ...], row_components: int, column_components: int) -> None:
    for size, step, line in (
        (shape[0], row_components, axis.axhline),
        (shape[1], column_components, axis.axvline),
    ):
        if size // step <= MOST_LINES:
            for position in range(step, size, step):
                line(position - 0.5, color="black", linewidth=1.2)
        if step > 1 and size <= MOST_LINES:
            for position in range(1, size):
                if position % step:
                    line(position - 0.5, color="black", linewidth=0.4, linestyle="--")
