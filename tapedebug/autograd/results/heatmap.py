"""Heat maps of compared Jacobians as small SVG images, made without a plotting library."""

from __future__ import annotations

import base64
import struct
import zlib
from html import escape
from typing import Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.array_types import Floats, Indices
from tapedebug.autograd.finite_diff.compared_entries import ComparedEntries
from tapedebug.autograd.results.pair_result import Entry, Layout
from tapedebug.autograd.subjects.probes import flat_index

MOST_CELLS = 80  # cells on a side; of a larger Jacobian a cell stands for a block
SIDE = 208.0  # pixels of the picture
LARGEST_CELL = 26.0
LINES = 40  # elements on a side between which lines are drawn
LEVELS = 60  # shades of a colour
DECADES = 4.0  # of errors with distinguishable colours
LEAST = 1e-3  # of the largest entry: an error below it is no strong colour, though it be the largest

MINUS, WRONG = LEVELS, 2 * LEVELS  # added to a level: its colour, of which the first is that of plus
ZERO, UNKNOWN, BROKEN = 0, 3 * LEVELS + 1, 3 * LEVELS + 2
# the colours of the panel (js/src/views/colormap.ts), readable on a light page and on a dark one
BLUE, AMBER, RED, GREY, VIOLET = (
    (63, 127, 232),
    (206, 132, 28),
    (224, 72, 78),
    (128, 128, 128),
    (154, 94, 214),
)

Cells = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True)
class Blocks:
    """The cells of a Jacobian's heat maps; each shows the entry of its block with the largest error.

    Attributes:
        ad, fd, error: (height, width); NaN where nothing was evaluated.
        known: True for blocks with an entry that was evaluated or is known to be zero.
        shape: Shape of the Jacobian.
        entry: Index of the compared entry that represents the block; -1 if there is none.
    """

    ad: Floats
    fd: Floats
    error: Floats
    known: np.ndarray[Any, np.dtype[np.bool_]]
    shape: tuple[int, int]
    entry: Indices

    @classmethod
    def of(cls, compared: ComparedEntries, most: int = MOST_CELLS) -> Blocks:
        """Return the blocks, at most `most` on a side."""
        height, width = (min(most, max(1, size)) for size in compared.shape)
        rows = compared.rows * height // max(1, compared.shape[0])
        columns = compared.columns * width // max(1, compared.shape[1])
        error = compared.error
        # The entry that represents a block is written last: one that is not finite, else the most wrong one.
        size = np.nan_to_num(np.abs(compared.fd), nan=0.0, posinf=0.0)
        order = np.lexsort((size, np.where(np.isnan(error), np.inf, error)))
        entry = np.full((height, width), -1)
        entry[rows[order], columns[order]] = order
        known = (entry >= 0) | compared.zeros
        empty = np.where(known, 0.0, np.nan)
        parts = []
        for values in (compared.ad, compared.fd, error):
            cells = empty.copy()
            cells[entry >= 0] = values[entry[entry >= 0]]
            parts.append(cells)
        return cls(parts[0], parts[1], parts[2], known, compared.shape, entry)

    @property
    def broken(self) -> bool:
        """True if an entry is not finite."""
        return bool((self.known & ~np.isfinite(self.error)).any())

    @property
    def reduced(self) -> bool:
        """True if a cell stands for several entries."""
        return bool(self.ad.shape != self.shape)

    def largest(self) -> float:
        """Return the largest magnitude of all finite AD and FD."""
        values = np.abs(np.concatenate([self.ad.ravel(), self.fd.ravel()]))
        return float(values[np.isfinite(values)].max(initial=0.0))

    def largest_error(self) -> float:
        """Return the largest finite error."""
        return float(self.error[np.isfinite(self.error)].max(initial=0.0))

    def signed(self, values: Floats) -> Cells:
        """Return the colours of values: blue above 0, amber below 0, relative to the largest AD or FD."""
        top = self.largest() or 1.0
        with np.errstate(all="ignore"):
            level = np.ceil(np.abs(values) / top * LEVELS)
        level = np.clip(np.nan_to_num(level), 0, LEVELS).astype(np.uint8)
        cells: Cells = np.where(values < 0, level + MINUS * (level > 0), level).astype(np.uint8)
        return self._marked(cells, values)

    def errors(self) -> Cells:
        """Return the colours of errors: shades of red on a logarithmic scale."""
        top = max(self.largest_error(), LEAST * self.largest()) or 1.0
        with np.errstate(all="ignore"):
            level = np.ceil((1.0 + np.log10(self.error / top) / DECADES) * LEVELS)
        level = np.nan_to_num(level, neginf=0.0, posinf=LEVELS)
        level = np.clip(level, 0, LEVELS).astype(np.uint8)
        return self._marked((level + WRONG * (level > 0)).astype(np.uint8), self.error)

    def _marked(self, cells: Cells, values: Floats) -> Cells:
        cells[~np.isfinite(values)] = BROKEN
        cells[~self.known] = UNKNOWN
        return cells


def heat_map(cells: Cells, blocks: Blocks, layout: Layout, title: str, worst: Entry | None = None) -> str:
    """Return an SVG of one heat map, with lines between elements and components and the worst entry marked.

    Args:
        cells: The colours, from `Blocks.signed` or `Blocks.errors`.
        blocks: The blocks that they belong to.
        layout: The elements and components of rows and columns.
        title: The text alternative, for readers who cannot see it.
        worst: The entry to mark.
    """
    height, width = cells.shape
    high, wide = (min(LARGEST_CELL, SIDE / count) * count for count in (height, width))
    parts = [
        f'<svg class="td-map" role="img" width="{wide + 2:.1f}" height="{high + 2:.1f}" '
        f'viewBox="-1 -1 {wide + 2:.1f} {high + 2:.1f}"><title>{escape(title)}</title>',
        f'<image class="td-cells" width="{wide:.2f}" height="{high:.2f}" preserveAspectRatio="none" '
        f'href="data:image/png;base64,{base64.b64encode(png(cells)).decode("ascii")}"/>',
    ]
    if not blocks.reduced:
        parts += _lines(height, layout.output_components, high, wide, across=True)
        parts += _lines(width, layout.input_components, wide, high, across=False)
    parts.append(f'<rect class="td-frame" width="{wide:.2f}" height="{high:.2f}"/>')
    if worst is not None and min(blocks.shape) > 0:
        row = flat_index(worst.output_index, layout.output_shape) * height // blocks.shape[0]
        column = flat_index(worst.input_index, layout.input_shape) * width // blocks.shape[1]
        dx, dy = wide / width, high / height
        pad = max(0.0, 7.0 - min(dx, dy)) / 2
        parts.append(
            f'<rect class="td-worst" x="{column * dx - pad:.2f}" y="{row * dy - pad:.2f}" '
            f'width="{dx + 2 * pad:.2f}" height="{dy + 2 * pad:.2f}"/>'
        )
    return "".join([*parts, "</svg>"])


def _lines(count: int, components: int, along: float, length: float, *, across: bool) -> list[str]:
    """Return an SVG path of thick lines between elements, and one of thin lines between components."""
    paths = {"td-element": "", "td-component": ""}
    for position in range(1, count):
        kind = "td-component" if position % components else "td-element"
        at = position * along / count
        paths[kind] += f"M0 {at:.2f}H{length:.2f}" if across else f"M{at:.2f} 0V{length:.2f}"
    if count // components > LINES:
        paths["td-element"] = ""
    if count > 2 * LINES or count // components > LINES:
        paths["td-component"] = ""
    return [f'<path class="{kind}" d="{path}"/>' for kind, path in paths.items() if path]


def png(cells: Cells) -> bytes:
    """Return the cells as an indexed PNG with transparency, so that zero has the colour of the page."""
    shades = np.round(np.linspace(36, 255, LEVELS)).astype(int)
    colours = [BLUE] * (LEVELS + 1) + [AMBER] * LEVELS + [RED] * LEVELS + [GREY, VIOLET]
    alphas = [0, *shades, *shades, *shades, 110, 255]
    height, width = cells.shape
    rows = b"".join(b"\0" + line.tobytes() for line in np.ascontiguousarray(cells))
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", bytes(channel for colour in colours for channel in colour)),
        (b"tRNS", bytes(int(alpha) for alpha in alphas)),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
