"""Patterns in the wrong entries of a Jacobian, which often tell the cause.

Each predicate tests all wrong entries, and names its cause only if it holds for every one of them to within
0.1 %. A pattern is therefore evidence, not a guess; if none holds for all of them, none is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._float_types import float_info
from tapedebug.autograd.array_types import Bools, Floats, Indices
from tapedebug.autograd.finite_diff.compared_entries import ComparedEntries
from tapedebug.autograd.results.wrong_entries import Side, WrongEntries
from tapedebug.autograd.subjects.entry_names import component_name, entry_name
from tapedebug.autograd.thresholds import (
    NUMBERS_EQUAL,
    PATTERN_ENTRIES,
    PATTERN_INTEGERS,
    PATTERN_INTERIOR,
    PATTERN_ROUNDING,
)
from tapedebug.lang.types import is_matrix, numpy_dtype

PAIRED = 16  # places among which pairs are looked for


@dataclass(frozen=True)
class ErrorPattern:
    """A pattern that all wrong entries have in common.

    Attributes:
        name: "severed", "sign", "doubled", "repeated", "mean", "factor", "transposed", "shifted", "swapped",
            "exchanged", "other side", "conjugated" or "not finite".
        text: The observation and its likely cause, a clause.
        ratio: AD / FD, if all wrong entries have the same ratio.
    """

    name: str
    text: str
    ratio: float | None = None


Predicate = Callable[[WrongEntries], ErrorPattern | None]


def error_patterns(evidence: WrongEntries) -> Iterator[ErrorPattern]:
    """Return the patterns that hold for all wrong entries, the plainest first."""
    if not evidence.wrong.any():
        return
    for predicate in PREDICATES:
        found = predicate(evidence)
        if found is not None:
            yield found


def not_finite(evidence: WrongEntries) -> ErrorPattern | None:
    """AD is NaN or infinite where FD is a number."""
    if np.isfinite(evidence.ad).any() or not np.isfinite(evidence.fd).all():
        return None
    dtype = numpy_dtype(evidence.input_type)
    if (np.abs(evidence.fd) > float_info(dtype).max).all():
        return ErrorPattern("not finite", f"it is too large for {dtype}")
    return ErrorPattern(
        "not finite", "a division by zero, or the slope of a root or a length at zero, gives such numbers"
    )


def constant_ratio(evidence: WrongEntries) -> ErrorPattern | None:
    """AD is the same multiple of FD everywhere."""
    ad, fd = evidence.ad, evidence.fd
    if not evidence.finite or not (np.abs(fd) > evidence.floor).any():
        return None
    ratio = float(ad @ fd / (fd @ fd))
    if abs(ratio) < NUMBERS_EQUAL and evidence.all_close(ad, np.zeros_like(ad), NUMBERS_EQUAL * np.abs(fd)):
        return ErrorPattern(
            "severed", "AD is 0 × FD in each: the chain is severed, or the term is missing", 0.0
        )
    if not evidence.all_close(ad, ratio * fd, abs(ratio) * evidence.bar):
        return None
    return _whole(ratio, evidence) or _part(ratio, evidence) or _factor(ratio, evidence)


def _whole(ratio: float, evidence: WrongEntries) -> ErrorPattern | None:
    """The ratio is an integer."""
    number = round(ratio)
    if number in (0, 1) or abs(ratio - number) > NUMBERS_EQUAL:
        return None
    said = f"AD is {number} × FD in each"
    if number == -1:
        return ErrorPattern("sign", f"{said}: a wrong sign", -1.0)
    if number == 2:
        return ErrorPattern("doubled", f"{said}: counted twice", 2.0)
    counts = _counts(evidence)
    size = abs(number)
    if size not in counts and (size > PATTERN_INTEGERS or (len(evidence.ad) < 2 and size > 4)):
        return None
    what = f" ({counts[size]})" if size in counts else f", or a factor of {size} too much"
    sign = ", with a wrong sign" if number < 0 else ""
    return ErrorPattern("repeated", f"{said}: accumulated {size} times{what}{sign}", float(number))


def _part(ratio: float, evidence: WrongEntries) -> ErrorPattern | None:
    """The ratio is one over an integer."""
    number = round(1 / ratio) if abs(ratio) > 1e-9 else 0
    counts = _counts(evidence)
    if abs(number) < 2 or abs(ratio * number - 1) > NUMBERS_EQUAL:
        return None
    size = abs(number)
    if size not in counts and (size > PATTERN_INTEGERS or (len(evidence.ad) < 2 and size > 4)):
        return None
    sign = ", with a wrong sign" if number < 0 else ""
    said = f"AD is {'−' * (number < 0)}1/{size} × FD in each"
    if size in counts:
        return ErrorPattern("mean", f"{said}: a mean for a sum ({counts[size]}){sign}", ratio)
    return ErrorPattern("factor", f"{said}: a factor of {size} is missing{sign}", ratio)


CONSTANTS = {
    "π": np.pi, "2π": 2 * np.pi, "π/2": np.pi / 2, "π/180 (degrees and radians)": np.pi / 180,
    "√2": np.sqrt(2.0), "√3": np.sqrt(3.0), "e": np.e, "ln 2": np.log(2.0), "ln 10": np.log(10.0),
    "2/3": 2 / 3, "3/4": 0.75, "9.81": 9.81, "1000": 1000.0, "√π": np.sqrt(np.pi),
}  # fmt: skip


def _factor(ratio: float, evidence: WrongEntries) -> ErrorPattern | None:
    """Any other ratio: only of several entries that differ is it more than a coincidence."""
    fd = np.abs(evidence.fd)
    if len(fd) < 2 or fd.max() - fd.min() <= NUMBERS_EQUAL * fd.max() or abs(ratio - 1) <= NUMBERS_EQUAL:
        return None
    said = f"AD is {ratio:.4g} × FD in each"
    sign = ", with a wrong sign" if ratio < 0 else ""
    size = abs(ratio)
    for name, value in CONSTANTS.items():
        if abs(size - value) <= NUMBERS_EQUAL * value:
            return ErrorPattern("factor", f"{said}: a factor of {name} too much{sign}", ratio)
        if abs(size * value - 1) <= NUMBERS_EQUAL:
            return ErrorPattern("factor", f"{said}: a factor of {name} is missing{sign}", ratio)
    what = f"{size:.4g} too much" if size > 1 else f"{1 / size:.4g} is missing"
    return ErrorPattern("factor", f"{said}: a constant factor of {what}{sign}", ratio)


def almost_one(evidence: WrongEntries) -> ErrorPattern | None:
    """Return the pattern if AD is FD times a number so close to 1 that only a fine tolerance shows it."""
    ad, fd = evidence.ad, evidence.fd
    if not evidence.finite or len(fd) < 2 or not (np.abs(fd) > evidence.floor).any():
        return None
    off = float(ad @ fd / (fd @ fd)) - 1
    size = np.abs(fd)
    if (
        not PATTERN_ROUNDING < abs(off) <= NUMBERS_EQUAL
        or size.max() - size.min() <= NUMBERS_EQUAL * size.max()
    ):
        return None
    if (np.abs(ad - (1 + off) * fd) > 0.1 * abs(off) * size + evidence.bar).any():
        return None
    return ErrorPattern("factor", f"AD is (1 {'+' if off > 0 else '−'} {abs(off):.2g}) × FD in each", 1 + off)


def _counts(evidence: WrongEntries) -> dict[int, str]:
    """Numbers with a meaning in this comparison, and what each of them counts."""
    found: dict[int, str] = {}
    if len(evidence.ad) < PATTERN_ENTRIES:
        return found
    for side in evidence.sides:
        axes = side.shape[: side.axes]
        for count in (*axes, int(np.prod(axes, dtype=np.int64))):
            if count >= PATTERN_ENTRIES:  # 2 and 3 count too many things to tell one
                found.setdefault(int(count), f"{side.name} has {count} elements")
        if side.width >= PATTERN_ENTRIES:
            found.setdefault(side.width, f"an element of {side.name} has {side.width} components")
    return found


def transposed(evidence: WrongEntries) -> ErrorPattern | None:
    """AD is FD with rows and columns exchanged, as a whole or within each element."""
    for rows, columns, words in _transpositions(evidence):
        if _moved(evidence, rows, columns, all_known=True):
            return ErrorPattern("transposed", f"AD equals {words}: a transposed matrix product")
    return None


def _transpositions(evidence: WrongEntries) -> Iterator[tuple[Indices, Indices, str]]:
    row, column = evidence.row, evidence.column
    height, width = evidence.compared.shape
    if height == width:
        yield column, row, "FDᵀ"
    output, input = evidence.sides
    if output.width == input.width > 1 and height != output.width:
        size = output.width
        yield (
            row - row % size + column % size,
            column - column % size + row % size,
            f"FDᵀ within each block of {size} × {size} components",
        )
    for side in (input, output):
        if is_matrix(side.type) and side.shape[-1] == side.shape[-2]:
            size, positions = side.shape[-1], column if side is input else row
            inside = positions % (size * size)
            flipped = positions - inside + inside % size * size + inside // size
            words = f"FD with the matrices of {side.name} transposed"
            yield (row, flipped, words) if side is input else (flipped, column, words)


def exchanged(evidence: WrongEntries) -> ErrorPattern | None:
    """AD has two components of vectors exchanged."""
    output, input = evidence.sides
    for side in (output, input):
        positions = evidence.row if side is output else evidence.column
        width = side.width if len(side.shape) == side.axes + 1 else 1
        here = positions % width
        for one, other in combinations(np.unique(here).tolist(), 2):
            partner = np.where(here == one, other, np.where(here == other, one, here))
            moved = positions - here + partner
            rows, columns = (moved, evidence.column) if side is output else (evidence.row, moved)
            if _moved(evidence, rows, columns, all_known=True):
                names = " and ".join(component_name(side.type, [c]) for c in (one, other))
                words = f"AD equals FD with the components {names} of {side.name} exchanged"
                return ErrorPattern("exchanged", words)
    return None


def paired(evidence: WrongEntries) -> ErrorPattern | None:
    """AD has elements of the output, or of the input, exchanged in pairs."""
    output, input = evidence.sides
    for side, here, what in ((output, evidence.row, "outputs"), (input, evidence.column, "inputs")):
        partner = _partners(evidence, here, of_rows=side is output)
        if partner is None:
            continue
        moved = np.array([partner[int(at)] for at in here])
        rows, columns = (moved, evidence.column) if side is output else (evidence.row, moved)
        if not _moved(evidence, rows, columns, all_known=True):
            continue
        pairs = sorted({(min(pair), max(pair)) for pair in partner.items()})
        index = [[int(i) for i in np.unravel_index(at, side.shape)] for at in pairs[0]]
        one, other = (entry_name(side.name, each, side.type) for each in index)
        more = len(pairs) - 1
        also = f", and {more} more pair{'s' * (more > 1)} of {what} likewise" if more else ""
        verb = "at" if side is output else "by"
        words = f"AD {verb} {one} equals FD {verb} {other}, and the other way round"
        return ErrorPattern("exchanged", f"{words}{also}: two {what} are exchanged")
    return None


def _partners(evidence: WrongEntries, here: Indices, *, of_rows: bool) -> dict[int, int] | None:
    """Return for each wrong row (or column) the one whose derivatives it holds, if they come in pairs."""
    places = [int(at) for at in np.unique(here)]
    if not evidence.finite or len(places) > PAIRED or len(places) % 2:
        return None
    partner: dict[int, int] = {}
    for one, other in combinations(places, 2):
        both = (here == one) | (here == other)
        there = np.where(here == one, other, one)[both]
        row, column = evidence.row[both], evidence.column[both]
        values, known = evidence.lookup(*((there, column) if of_rows else (row, there)))
        if known.all() and evidence.all_close(evidence.ad[both], values, evidence.bar[both]):
            if one in partner or other in partner:
                return None  # several would do: what they hold tells none from another
            partner |= {one: other, other: one}
    return partner if len(partner) == len(places) else None


def shifted(evidence: WrongEntries) -> ErrorPattern | None:
    """AD is stored at a different index from FD."""
    for rows, columns, inside, words in _shifts(evidence):
        if inside.any() and _moved(evidence, rows, columns, all_known=False, inside=inside):
            return ErrorPattern("shifted", f"AD {words}")
    return None


def _shifts(evidence: WrongEntries) -> Iterator[tuple[Indices, Indices, Bools, str]]:
    row, column = evidence.row, evidence.column
    output, input = evidence.sides
    for by in (1, -1, 2, -2):
        off = f"i {'+' if by > 0 else '−'} {abs(by)}"
        many = "one" if abs(by) == 1 else "two"
        for axis in range(len(output.shape)):
            rows, inside = _stepped(row, output.shape, axis, by)
            words = f"at {output.at(axis, 'i')} equals FD at {output.at(axis, off)}: off by {many}"
            yield rows, column, inside, words
        for axis in range(len(input.shape)):
            columns, inside = _stepped(column, input.shape, axis, by)
            words = f"by {input.at(axis, 'i')} equals FD by {input.at(axis, off)}: off by {many}"
            yield row, columns, inside, words
        for axis in range(output.axes if output.shape == input.shape else 0):
            rows, inside = _stepped(row, output.shape, axis, by)
            columns, also = _stepped(column, input.shape, axis, by)
            words = f"at {output.at(axis, 'i')} by {input.at(axis, 'i')} equals FD at "
            words += f"{output.at(axis, off)} by {input.at(axis, off)}: off by {many}"
            yield rows, columns, inside & also, words


def _stepped(positions: Indices, shape: Sequence[int], axis: int, by: int) -> tuple[Indices, Bools]:
    """Flat positions one or two steps along an axis, and which of them are inside of the array."""
    stride = int(np.prod(shape[axis + 1 :], dtype=np.int64))
    along = positions // stride % shape[axis]
    inside: Bools = (along + by >= 0) & (along + by < shape[axis])
    return np.where(inside, positions + by * stride, positions), inside


def _moved(
    evidence: WrongEntries, rows: Indices, columns: Indices, *, all_known: bool, inside: Bools | None = None
) -> bool:
    """True if AD at each wrong entry is FD at another place, and not merely zero."""
    if not evidence.finite or len(evidence.ad) < 2:
        return False
    values, known = evidence.lookup(rows, columns)
    known = known if inside is None else known & inside
    if not np.isfinite(values[known]).all() or (all_known and not known.all()):
        return False
    # At the ends of an array there is no neighbour to compare with; most entries must have one.
    if 2 * known.sum() < len(known):
        return False
    telling = known & (np.abs(evidence.ad) > evidence.floor)
    if not telling.any():
        return False
    sizes = np.abs(evidence.ad[telling])
    if np.ptp(sizes) <= NUMBERS_EQUAL * sizes.max() and telling[known].all():
        return False  # one number everywhere stands at any other place, too, unless it is missing somewhere
    return _explained(evidence, values, known)


def _explained(evidence: WrongEntries, values: Floats, known: Bools) -> bool:
    """True if AD equals `values`, and `values` are not simply FD at the same places."""
    ad, bar = evidence.ad[known], evidence.bar[known]
    nearer = np.abs(ad - values[known]) <= 0.5 * np.abs(ad - evidence.fd[known]) + bar
    return bool(nearer.all()) and evidence.all_close(ad, values[known], bar)


def other_side(evidence: WrongEntries) -> ErrorPattern | None:
    """AD equals the slope on the other side of a kink."""
    if evidence.beyond is None or not evidence.finite:
        return None
    slopes = evidence.beyond[evidence.wrong]
    if not np.isfinite(slopes).all() or not evidence.all_close(evidence.ad, slopes, evidence.bar):
        return None
    return ErrorPattern("other side", "AD is the slope on the other side of a kink: a wrong branch")


def swapped(evidence: WrongEntries, other: str, reference: ComparedEntries) -> ErrorPattern | None:
    """AD is FD with respect to another input (or of another output)."""
    if reference.shape != evidence.compared.shape:
        return None
    there = WrongEntries(reference, np.zeros(len(reference), dtype=bool), evidence.rows, evidence.columns)
    if not len(reference) or not evidence.finite:
        return None
    values, known = there.lookup(evidence.row, evidence.column)
    if not known.all() or not np.isfinite(values).all():
        return None
    if not (np.abs(evidence.ad) > evidence.floor).any() or len(evidence.ad) < 2:
        return None
    if not _explained(evidence, values, known):
        return None
    return ErrorPattern("swapped", f"AD equals FD of {other}: swapped arguments")


PREDICATES: tuple[Predicate, ...] = (
    not_finite,
    constant_ratio,
    almost_one,
    transposed,
    exchanged,
    paired,
    shifted,
    other_side,
)
"""In the order in which they are asked."""


# ------------------------------------------------------------------ where


def where(evidence: WrongEntries) -> str:
    """Return what the places of the wrong entries have in common, as a clause; empty if nothing."""
    right = ~evidence.wrong & (np.abs(evidence.compared.fd) > evidence.floor)
    if not right.any() or not evidence.wrong.any():
        return ""
    for side in evidence.sides:
        if side.shape:
            place = np.array(np.unravel_index(side.positions, side.shape))
            found = _somewhere(side, place[:, evidence.wrong], place[:, right])
            if found:
                return found
    return ""


def _somewhere(side: Side, wrong: Indices, right: Indices) -> str:
    if _only(wrong[: side.axes], right[: side.axes]):
        index = ", ".join(str(int(i)) for i in wrong[: side.axes, 0])
        return f"only {side.name}[{index}] is concerned: one thread, or one index"
    for axis in range(side.axes):
        last = side.shape[axis] - 1
        ends, others = np.unique(wrong[axis]), np.unique(right[axis])
        inner = others[(others > 0) & (others < last)]
        enough = PATTERN_INTERIOR if wrong.shape[1] >= PATTERN_ENTRIES else 4 * PATTERN_INTERIOR
        if len(inner) >= enough and np.isin(ends, (0, last)).all():
            which = "both ends" if len(ends) == 2 else "the first index" if ends[0] == 0 else "the last index"
            where = f" of axis {axis}" if side.axes > 1 else ""
            return f"only at {which}{where} of {side.name}: the boundary"
    if _only(wrong[side.axes :], right[side.axes :]):
        component = component_name(side.type, [int(i) for i in wrong[side.axes :, 0]])
        return f"only the component {component} of {side.name} is concerned"
    return ""


def _only(wrong: Indices, right: Indices) -> bool:
    """True if all wrong entries are at one place, and right ones at others."""
    one = wrong[:, :1]
    return bool(len(wrong) and (wrong == one).all() and (right != one).any())
