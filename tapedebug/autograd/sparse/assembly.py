"""Assembles the Jacobians of `jacobian` and `jacobian_fd`, by coloured runs or row by row."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any, Literal

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._progress import OutOfTime
from tapedebug.autograd.array_types import Floats, Indices
from tapedebug.autograd.finite_diff.jacobian_entries import differences
from tapedebug.autograd.options import Sample
from tapedebug.autograd.sparse.coloured_jacobian import Mode, coloured_jacobian
from tapedebug.autograd.sparse.fixed_step import fixed_step_coloured, fixed_step_columns
from tapedebug.autograd.sparse.jacobian_dict import Jacobians, Key
from tapedebug.autograd.sparse.matrices import DenseJacobian, Rectangle, SparseJacobian
from tapedebug.autograd.sparse.memory_budget import require_memory
from tapedebug.autograd.sparse.pattern import traced
from tapedebug.autograd.subjects.probes import Probes
from tapedebug.autograd.subjects.program import Pairs, Port, Program, distinct
from tapedebug.lang.types import numpy_dtype
from tapedebug.runtime.messages import user_stacklevel

Reference = Literal["float64", "float32"]
AT_ONCE = 1 << 22
"""Largest number of scalars of seeds and results in one run."""


@dataclass(frozen=True)
class JacobianRequest:
    """The arguments of one call: the program, its pairs, and how to compute their Jacobians.

    Attributes:
        program: The program to differentiate.
        pairs: The inputs and outputs.
        mode: By adjoints, by tangents, by the fewest of both, or by differences.
        limit: The number of rows (columns, for differences) of each Jacobian to evaluate.
        sample: The selection of these rows.
        sparse: Return sparse matrices.
        eps: The largest step of differences, or the step of plain ones.
        reference: Take differences of the float64 twin, or plain ones in float32.
        pulse: Called between runs; may raise `OutOfTime`.
    """

    program: Program
    pairs: Pairs
    mode: Mode
    limit: int
    sample: Sample
    sparse: bool
    pulse: Callable[[], None]
    eps: float = 1e-4
    reference: Reference = "float64"


@dataclass
class Part:
    """One Jacobian of the result.

    Attributes:
        source, target: Its arrays.
        made: The matrix that is filled.
        rectangles: The requested entries.
    """

    source: Port
    target: Port
    made: DenseJacobian | SparseJacobian
    rectangles: list[Rectangle]

    def block(self, rows: Indices, columns: Indices, values: Floats) -> None:
        """Store the requested entries of a block; `rows` and `columns` ascend."""
        for tall, wide in self.rectangles:
            r, c = (np.flatnonzero(np.isin(*pair)) for pair in ((rows, tall), (columns, wide)))
            whole = len(r) == len(rows) and len(c) == len(columns)
            self.made.block(rows[r], columns[c], values if whole else values[np.ix_(r, c)])


@dataclass
class _Count:
    """The notes and the number of runs that are returned beside the Jacobians."""

    runs: int = 0
    notes: list[str] = field(default_factory=list)


def assemble(request: JacobianRequest) -> Jacobians:
    """Return the Jacobians of all requested pairs."""
    count, parts = _Count(), _parts(request)
    try:
        if not _fill_coloured(request, parts, count):
            for part in parts.values():
                part.made.unset()
            request = _one_way(request)
            _fill_blocks(request, parts, count)
            _tell_sparsity(request, parts)
    except OutOfTime as error:
        if request.sparse:
            raise
        note = f"{request.program.subject}: {error}; entries that were not evaluated by then are NaN"
        count.notes.append(note)
        warnings.warn(note, RuntimeWarning, stacklevel=user_stacklevel())
    found = {(part.source, part.target): part.made.result() for part in parts.values()}
    return Jacobians(found, count.runs, count.notes)


def _parts(request: JacobianRequest) -> dict[Key, Part]:
    """Return the Jacobians by their keys; a mask may select several parts of one."""
    ports: dict[Key, list[tuple[Port, Port]]] = {}
    for source, target in request.pairs.chosen:
        ports.setdefault((source.place, target.place), []).append((source, target))
    if not request.sparse:
        _require_room(request, [pairs[0] for pairs in ports.values()])
    parts = {}
    for key, pairs in ports.items():
        rectangles = [(_rows(request, target), _columns(request, source)) for source, target in pairs]
        source, target = pairs[0]
        made = (SparseJacobian if request.sparse else DenseJacobian)(source, target, rectangles)
        parts[key] = Part(source, target, made, rectangles)
    return parts


def _require_room(request: JacobianRequest, pairs: Sequence[tuple[Port, Port]]) -> None:
    """Raise an error if the dense arrays of all Jacobians together do not fit into memory."""
    sizes = [target.size * source.size * numpy_dtype(source.array.dtype).itemsize for source, target in pairs]
    source, target = pairs[int(np.argmax(sizes))]
    others = f" (and {len(pairs) - 1} more)" if len(pairs) > 1 else ""
    require_memory(
        f"{request.program.subject}: d {target.name} / d {source.name}, {target.size} × {source.size} "
        f"numbers as a dense array{others},",
        float(sum(sizes)),
        "pass sparse=True, or choose entries and check them with gradcheck, which stores none",
    )


def _rows(request: JacobianRequest, target: Port) -> Indices:
    limit = -1 if request.mode == "differences" else request.limit
    return Probes.of(target, limit, sample=request.sample).units


def _columns(request: JacobianRequest, source: Port) -> Indices:
    limit = request.limit if request.mode == "differences" else -1
    return Probes.of(source, limit, sample=request.sample).units


def _wanted(request: JacobianRequest) -> dict[Port, Indices]:
    """Return the rows of each target, or columns of each source, to evaluate; one port for each array."""
    back = request.mode in ("adjoint", "fewest")
    ports = request.pairs.outputs() if back else request.pairs.inputs()
    one = {id(port.array): port for port in distinct(ports)}
    found: dict[Port, list[Indices]] = {}
    for port in ports:
        units = _rows(request, port) if back else _columns(request, port)
        found.setdefault(one[id(port.array)], []).append(units)
    return {
        port: units[0] if len(units) == 1 else np.unique(np.concatenate(units))
        for port, units in found.items()
    }


def _fill_coloured(request: JacobianRequest, parts: dict[Key, Part], count: _Count) -> bool:
    """Compute the Jacobians by compressed runs; False if these are not few, or if the sparsity is unknown."""
    pairs, wanted = request.pairs, _wanted(request)
    if sum(map(len, wanted.values())) < 4:
        return False
    sources, targets = pairs.inputs(), pairs.outputs()
    if request.reference == "float32":
        given = fixed_step_coloured(request.program, sources, targets, wanted, request.eps, count.notes)
    else:
        given = coloured_jacobian(
            request.program, sources, targets, request.mode, wanted, eps=request.eps, notes=count.notes
        )
    if given is None:
        return False
    entries = {(id(i.array), id(o.array)): part for (i, o), part in given.joint.parts(given.values).items()}
    for part in parts.values():
        part.made.zeros()
        rows, columns, values = entries[id(part.source.array), id(part.target.array)]
        part.made.entries(rows, columns, values, given.joint.pattern.cache)
    count.runs = given.runs
    return True


def _one_way(request: JacobianRequest) -> JacobianRequest:
    """Return the request with the mode that takes fewer single runs: adjoints, or tangents."""
    if request.mode != "fewest":
        return request
    columns = sum(source.size for source in distinct(request.pairs.inputs()))
    fewer = columns < sum(map(len, _wanted(request).values()))
    return replace(request, mode="tangent" if fewer else "adjoint")


def _fill_blocks(request: JacobianRequest, parts: dict[Key, Part], count: _Count) -> None:
    """Compute the Jacobians row by row, or column by column."""
    for port, wanted in _wanted(request).items():
        mine = [
            p
            for p in parts.values()
            if (p.target if request.mode == "adjoint" else p.source).array is port.array
        ]
        others = distinct([p.source if request.mode == "adjoint" else p.target for p in mine])
        room = max(2, AT_ONCE // (port.size + sum(other.size for other in others)))
        for chunk in _chunks(wanted, room):
            request.pulse()
            for other, values in _block(request, port, others, chunk).items():
                for part in mine:
                    if request.mode == "adjoint" and part.source.array is other.array:
                        part.block(chunk, np.arange(other.size), values)
                    elif request.mode != "adjoint" and part.target.array is other.array:
                        part.block(np.arange(other.size), chunk, values.T)
            count.runs += len(chunk)


def _tell_sparsity(request: JacobianRequest, parts: dict[Key, Part]) -> None:
    """Give sparse matrices with entries that were not evaluated the pattern of those that may not be zero."""
    lacking = [p.made for p in parts.values() if isinstance(p.made, SparseJacobian) and p.made.unknown]
    patterns = traced(request.program) if lacking else None
    if patterns is None:
        return
    by_arrays = {(id(i.array), id(o.array)): pattern for (i, o), pattern in patterns.items()}
    for part in parts.values():
        if isinstance(part.made, SparseJacobian):
            part.made.pattern = by_arrays.get((id(part.source.array), id(part.target.array)))


def _chunks(wanted: Indices, room: int) -> Iterator[Indices]:
    for start in range(0, len(wanted), room):
        yield wanted[start : start + room]


def _block(
    request: JacobianRequest, port: Port, others: Sequence[Port], chunk: Indices
) -> dict[Port, Floats]:
    """Return derivatives of (or by) the scalars `chunk` of an array, one row each, for each other array."""
    program = request.program
    if request.mode == "differences" and request.reference == "float32":
        return fixed_step_columns(program, port, others, chunk, request.eps)
    if request.mode == "differences":
        columns = Probes(port.size, chunk, np.zeros((0, port.size)))
        rows = {
            target: Probes(target.size, np.arange(target.size), np.zeros((0, target.size)))
            for target in others
        }
        slopes = differences(program, port, others, columns, rows, eps=request.eps, checkpoint=request.pulse)
        return {target: slope.value.T for target, slope in slopes.items()}
    units: Any = np.zeros((len(chunk), port.size), np.float32)
    units[np.arange(len(chunk)), chunk] = 1
    if request.mode == "adjoint":
        return program.pull_many({port: units}, wanted=others, dtype=None)
    pushed = program.push_many({port: units}, double=False, dtype=None)
    return {target: pushed[target] for target in others}
