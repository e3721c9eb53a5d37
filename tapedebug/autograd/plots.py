"""Plots of Jacobians: thick lines between array elements, thin dashed ones between vector components."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._errors import GradcheckError, TapedebugError
from tapedebug._process_state import preserve_process_state
from tapedebug.autograd.sparse.jacobian_dict import Key
from tapedebug.autograd.subjects.metadata import FunctionMetadata
from tapedebug.autograd.subjects.program import Place
from tapedebug.compiler.kernel import Kernel
from tapedebug.lang.types import components

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


Matrix = np.ndarray[Any, Any]

MOST_LINES = 128  # grid lines on an axis; more would hide the picture
MOST_PIXELS = 768  # on a side; of a larger Jacobian a pixel stands for a block
FLOOR = 1e-8  # what is added to magnitudes before their logarithm is taken, as Warp does
MARGIN = 1.4  # inches around the pictures
HATCH = {"facecolor": "white", "edgecolor": "0.7", "hatch": "////", "linewidth": 0.0}


@preserve_process_state
def jacobian_plot(
    jacobians: Mapping[Key, Any],
    kernel: Kernel | FunctionMetadata,
    inputs: Sequence[Any] | None = None,
    show_plot: bool = True,
    show_colorbar: bool = True,
    scale_colors_per_submatrix: bool = False,
    title: str | None = None,
    colormap: str = "coolwarm",
    log_scale: bool = False,
) -> Any:
    """Show Jacobians in one figure, a column for each input and a row for each output.

    Entries that were not evaluated (NaN) are hatched. Of a Jacobian with more than 768 rows or columns, a
    pixel shows the entry of a block that is largest in magnitude.

    Args:
        jacobians: What `jacobian` or `jacobian_fd` returned, dense or sparse.
        kernel: The kernel, or a `FunctionMetadata`.
        inputs: The inputs; required if `kernel` is a kernel.
        show_plot: Call `matplotlib.pyplot.show`.
        show_colorbar: Show the scale of the colours.
        scale_colors_per_submatrix: Scale the colours of each Jacobian on its own, not of all together.
        title: Title of the figure.
        colormap: Name of a matplotlib colormap.
        log_scale: Show the logarithm (base 10) of the magnitudes.

    Returns:
        The matplotlib figure. With `show_plot=False` it stays open until `matplotlib.pyplot.close` closes it;
        if there is no window to show it in, it is closed after it was shown.

    Raises:
        GradcheckError: A ValueError; there is nothing to plot, `kernel` is something else, or the metadata
            lacks an input or output.
        TapedebugError: matplotlib is not installed.
    """
    if isinstance(kernel, Kernel):
        if inputs is None:
            raise GradcheckError("jacobian_plot: a kernel needs its inputs too", hint="pass inputs=[…]")
        metadata = FunctionMetadata.of_kernel(kernel, inputs)
    elif isinstance(kernel, FunctionMetadata):
        metadata = kernel
    else:
        raise GradcheckError(
            f"jacobian_plot: kernel is a kernel or a FunctionMetadata, not {kernel!r:.80}",
            hint="pass the kernel; of a Python function, the metadata that jacobian(…, metadata=…) filled",
        )
    if not jacobians:
        raise GradcheckError("jacobian_plot: there are no Jacobians to plot", hint="choose at least one pair")
    return plot_matrices(
        {key: matrix_of(jacobian) for key, jacobian in jacobians.items()}, metadata,
        show=show_plot, colorbar=show_colorbar, separate=scale_colors_per_submatrix,
        title=title, colormap=colormap, log_scale=log_scale,
    )  # fmt: skip


def matrix_of(jacobian: object) -> Any:
    """Return a Jacobian as a matrix of scalars; `scipy.sparse` matrices are returned unchanged."""
    if hasattr(jacobian, "tocoo"):
        return jacobian
    values = np.array(jacobian.numpy() if hasattr(jacobian, "numpy") else jacobian, dtype=np.float64)
    return values.reshape(values.shape[0], -1) if values.size else values.reshape(values.shape[0], 0)


def plot_matrices(
    matrices: Mapping[Key, Any],
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
    plt = require_matplotlib()
    pictures = {
        key: Picture.of(matrix, *_labels(metadata, key), log_scale) for key, matrix in matrices.items()
    }
    columns = _ordered((i for i, _ in pictures), metadata.input_labels)
    rows = _ordered((o for _, o in pictures), metadata.output_labels)
    wide = _sizes([max(p.shape[1] for (i, _), p in pictures.items() if i == column) for column in columns])
    high = _sizes([max(p.shape[0] for (_, o), p in pictures.items() if o == row) for row in rows])
    figure, axes = plt.subplots(
        len(rows), len(columns), squeeze=False, layout="constrained",
        figsize=(sum(wide) + MARGIN, sum(high) + MARGIN),
        gridspec_kw={"width_ratios": wide, "height_ratios": high},
    )  # fmt: skip
    whole = _limits(list(pictures.values()))
    image = None
    for (line, output), (column, source) in ((r, c) for r in enumerate(rows) for c in enumerate(columns)):
        picture = pictures.get((source, output))
        if picture is None:
            axes[line][column].axis("off")
            continue
        limits = _limits([picture]) if separate else whole
        image = picture.draw(axes[line][column], colormap, limits)
        if colorbar and separate:
            bar = figure.colorbar(image, ax=axes[line][column], label=_meaning(log_scale))
            bar.ax.tick_params(labelsize=7)
    if colorbar and not separate and image is not None:
        figure.colorbar(image, ax=axes.ravel().tolist(), label=_meaning(log_scale))
    title = title if title is not None else f"Jacobian of {metadata.key}"
    figure.suptitle(title)
    if figure.canvas.manager is not None:
        figure.canvas.manager.set_window_title(title)
    if show:
        _show(plt, figure)
    return figure


def plot_errors(
    comparisons: Sequence[Any], metadata: FunctionMetadata, *, relative: bool, absolute: bool
) -> list[Any]:
    """Plot the errors of the compared entries.

    Args:
        comparisons: The comparisons of a check.
        metadata: The labels.
        relative: Plot |AD - FD| / |FD|.
        absolute: Plot |AD - FD|.

    Returns:
        The figures.
    """
    figures = []
    for wanted, title in ((relative, "Relative error"), (absolute, "Absolute error")):
        if not wanted:
            continue
        matrices: dict[Key, Any] = {}
        for pair in comparisons:
            if pair.source.in_place:
                continue
            compared = pair.compared()
            error = compared.error
            if title.startswith("Rel"):
                with np.errstate(all="ignore"):
                    error = np.where(error == 0, 0.0, error / np.abs(compared.fd))
            key, matrix = (pair.source.place, pair.target.place), compared.dense(error)
            # A mask may choose several parts of one Jacobian.
            matrices[key] = np.where(np.isnan(matrix), matrices[key], matrix) if key in matrices else matrix
        if matrices:
            name = f"{title} of {metadata.key}"
            figures.append(plot_matrices(matrices, metadata, show=True, title=name, colormap="viridis"))
    return figures


def require_matplotlib() -> Any:
    """Return `matplotlib.pyplot`; called before the data of a plot is computed.

    Raises:
        TapedebugError: matplotlib is not installed.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise TapedebugError(
            "plots need matplotlib, which is not installed", hint="pip install matplotlib"
        ) from None
    return plt


@dataclass(frozen=True)
class Picture:
    """One Jacobian as it is drawn.

    Attributes:
        values: At most 768 × 768 pixels; NaN where nothing was evaluated.
        shape: Rows and columns of the Jacobian.
        output, input: Names.
        steps: Number of scalars in an element of the output and of the input.
    """

    values: Matrix
    shape: tuple[int, int]
    output: str
    input: str
    steps: tuple[int, int]

    @classmethod
    def of(cls, matrix: Matrix, output: tuple[str, Any], input: tuple[str, Any], log_scale: bool) -> Picture:
        """Return the picture of a dense or sparse matrix."""
        values = _reduced(matrix)
        if log_scale:
            values = np.log10(np.abs(values) + FLOOR)
        steps = components(output[1]), components(input[1])
        return cls(values, (int(matrix.shape[0]), int(matrix.shape[1])), output[0], input[0], steps)

    def draw(self, axis: Axes, colormap: str, limits: tuple[float, float]) -> Any:
        """Draw the matrix with its grid; return matplotlib's image."""
        height, width = self.shape
        axis.patch.set(**HATCH)  # shows through where nothing was evaluated
        image = axis.imshow(
            np.ma.masked_invalid(self.values), cmap=colormap, vmin=limits[0], vmax=limits[1], aspect="auto",
            interpolation="nearest", extent=(-0.5, width - 0.5, height - 0.5, -0.5),
        )  # fmt: skip
        for size, step, line in ((height, self.steps[0], axis.axhline), (width, self.steps[1], axis.axvline)):
            _grid(size, step, line)
        _ticks(axis.xaxis, width, self.steps[1])
        _ticks(axis.yaxis, height, self.steps[0])
        axis.set_title(f"d {self.output} / d {self.input}", fontsize=9)
        axis.tick_params(labelsize=7, length=2)
        return image


def _reduced(matrix: Any) -> Matrix:
    """Return a matrix of at most 768 × 768 pixels: the entry of largest magnitude in each block."""
    sparse = hasattr(matrix, "tocoo")
    height, width = (min(MOST_PIXELS, int(size)) for size in matrix.shape)
    if not sparse and (height, width) == matrix.shape:
        return np.asarray(matrix, dtype=np.float64)
    if sparse:
        entries = matrix.tocoo()
        rows, columns, values = entries.row, entries.col, np.asarray(entries.data, dtype=np.float64)
        pixels = np.zeros((height, width))
    else:
        rows, columns = np.nonzero(~np.isnan(matrix))
        values = matrix[rows, columns]
        pixels = np.full((height, width), np.nan)
    order = np.argsort(np.abs(values), kind="stable")  # what is written last stays
    rows = rows[order].astype(np.int64) * height // max(1, matrix.shape[0])
    columns = columns[order].astype(np.int64) * width // max(1, matrix.shape[1])
    pixels[rows, columns] = values[order]
    return pixels


def _labels(metadata: FunctionMetadata, key: Key) -> tuple[tuple[str, Any], tuple[str, Any]]:
    """Return name and element type of the output and of the input of a pair."""
    try:
        source, target = metadata.input(key[0]), metadata.output(key[1])
    except (IndexError, ValueError, TypeError):
        raise GradcheckError(
            f"jacobian_plot: the metadata knows the inputs {', '.join(metadata.input_labels) or 'none'} and "
            f"the outputs {', '.join(metadata.output_labels) or 'none'}; there is a Jacobian of {key!r}",
            hint="pass the inputs that the Jacobians were computed with",
        ) from None
    for name, dtype in (source, target):
        if dtype is None:
            raise GradcheckError(f"jacobian_plot: {name} of the metadata is no array", hint="give its dtype")
    return target, source


def _ordered(places: Iterable[Place], labels: Sequence[str]) -> list[Place]:
    """Return the arguments in order, with structs replaced by their fields."""

    def order(place: Place) -> tuple[int, int]:
        if isinstance(place, int):
            return place, place
        owner = re.split(r"[.\[]", place)[0]
        return labels.index(owner) if owner in labels else len(labels), labels.index(place)

    return sorted(set(places), key=order)


def _sizes(counts: Sequence[int]) -> list[float]:
    """Return the widths or heights of pictures in inches: proportional, but large enough to read."""
    largest = max(counts)
    scale = min(5.0, max(1.5, 0.35 * sum(counts))) / max(1, largest)
    return [max(1.1, scale * count) for count in counts]


def _limits(pictures: Sequence[Picture]) -> tuple[float, float]:
    values = np.concatenate([p.values[np.isfinite(p.values)] for p in pictures])
    if not values.size:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def _meaning(log_scale: bool) -> str | None:
    return "log10 |·|" if log_scale else None


def _grid(size: int, step: int, line: Callable[..., object]) -> None:
    if size // step <= MOST_LINES:
        for position in range(step, size, step):
            line(position - 0.5, color="black", linewidth=1.2)
    if step > 1 and size <= MOST_LINES:
        for position in range(1, size):
            if position % step:
                line(position - 0.5, color="black", linewidth=0.4, linestyle="--")


def _ticks(axis: Axis, size: int, step: int) -> None:
    """Label elements with their numbers, in the middle of their components."""
    count = size // step
    every = max(1, -(-count // 8))
    shown = range(0, count, every)
    axis.set_ticks([(element + 0.5) * step - 0.5 for element in shown], [str(element) for element in shown])


def _show(plt: ModuleType, figure: Figure) -> None:
    """Show a figure; if there is no window for it, free its memory afterwards."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*non-interactive")
        plt.show()
    if figure.canvas.required_interactive_framework is None:
        plt.close(figure)
