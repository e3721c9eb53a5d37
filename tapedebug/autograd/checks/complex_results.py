"""Expresses results in complex numbers, for `gradcheck(…, complex=…)`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tapedebug._errors import GradcheckError
from tapedebug.autograd.finite_diff.verdict import Tolerance
from tapedebug.autograd.finite_diff.wirtinger import Complexes, Wirtinger
from tapedebug.autograd.results.error_patterns import ErrorPattern
from tapedebug.autograd.results.gradcheck_result import PairResult
from tapedebug.autograd.subjects.probes import shape_index
from tapedebug.autograd.subjects.program import IN_PLACE, Port
from tapedebug.contract import is_array

ComplexSelection = bool | str | int | Sequence[str | int] | None
"""The arguments that hold complex numbers: names, positions among all arguments, True for every vec2."""

CONVENTION = "∂/∂a + i ∂/∂b of z = a + ib"


# ------------------------------------------------------------------ which arguments


def complex_names(
    subject: str, chosen: ComplexSelection, arguments: Sequence[tuple[str, Any]]
) -> frozenset[str]:
    """Return the names of the arrays that hold complex numbers.

    Args:
        subject: The name for messages: "kernel square".
        chosen: See `ComplexSelection`.
        arguments: All arguments by name, in order.

    Raises:
        GradcheckError: There is no such argument, or it is not an array of vec2.
    """
    if chosen is None or chosen is False:
        return frozenset()
    if chosen is True:
        found = frozenset(name for name, value in arguments if _holds_complex(value))
        if not found:
            raise GradcheckError(
                f"{subject}: complex=True, but no argument is an array of vec2",
                hint="hold complex numbers in an array of vec2 (or vec2d): real part, imaginary part",
            )
        return found
    if not isinstance(chosen, str | int | list | tuple | set | frozenset):
        raise GradcheckError(
            f"{subject}: complex is a list of names or places of arguments, or True; got {chosen!r}",
            hint='write complex=("z", "w")',
        )
    keys = [chosen] if isinstance(chosen, str | int) else list(chosen)
    return frozenset(_named(subject, key, arguments) for key in keys)


def _named(subject: str, key: object, arguments: Sequence[tuple[str, Any]]) -> str:
    places = dict(arguments)
    if isinstance(key, int) and not isinstance(key, bool) and 0 <= key < len(arguments):
        key = arguments[key][0]
    if not isinstance(key, str) or key not in places:
        listed = ", ".join(f"{i}: {name}" for i, (name, _) in enumerate(arguments)) or "none"
        raise GradcheckError(
            f"{subject}: complex names the argument {key!r}; the arguments are {listed}",
            hint="give names of arguments, or their places among all of them",
        )
    if not _holds_complex(places[key]):
        value = places[key]
        given = f"an array of {value.dtype_name}" if is_array(value) else repr(value)
        raise GradcheckError(
            f"{subject}: complex names {key}, which is {given}",
            hint="hold complex numbers in an array of vec2 (or vec2d): real part, imaginary part",
        )
    return str(key)


def _holds_complex(value: object) -> bool:
    return is_array(value) and value.is_float and value.element_shape == (2,)


# ------------------------------------------------------------------ results


def as_complex(
    result: PairResult, source: Port, target: Port, names: Iterable[str], tolerance: Tolerance
) -> PairResult:
    """Return the result of a pair, in complex numbers if its input or output holds such."""
    known = set(names)
    z, w = (port.name.removesuffix(IN_PLACE) in known for port in (source, target))
    spoken = [port.name.removesuffix(IN_PLACE) for port, is_given in ((source, z), (target, w)) if is_given]
    if not spoken:
        return result
    result = replace(
        result,
        message=_renamed(result.message, spoken),
        notes=tuple(_renamed(note, spoken) for note in result.notes),
    )
    if not z or result.compared is None:
        return result
    found = Wirtinger.of(result.compared, w)
    result = replace(result, wirtinger=found)
    if w and len(found.rows):
        result = replace(result, notes=(*result.notes, _holomorphy(found, source, target, tolerance)))
    if result.verdict == "WRONG" and found.wrong.any():
        cause = _cause(found, tolerance)
        message = _wrong(found, source, target) + (f"; {cause}" if cause else "")
        signature = ErrorPattern("conjugated", cause) if cause else result.signature
        result = replace(result, message=message, signature=signature)
    return result


def in_parts(result: PairResult, names: Iterable[str]) -> PairResult:
    """Return a result of another check than that of the adjoint, with components named Re and Im."""
    known = list(names)
    notes = tuple(_renamed(note, known) for note in result.notes)
    return replace(result, message=_renamed(result.message, known), notes=notes)


def _renamed(text: str, names: Sequence[str]) -> str:
    """Replace `z[1].x` and `z[1].y` by `Re z[1]` and `Im z[1]`."""
    for name in names:
        for letter, part in (("x", "Re"), ("y", "Im")):
            text = re.sub(rf"(?<![\w.]){re.escape(name)}(\[[^\]]*\])\.{letter}\b", rf"{part} {name}\1", text)
    return text


def number(value: complex) -> str:
    """Return a number as `1.5-2i`."""
    return f"{value.real:.6g}{value.imag:+.6g}i"


def _element(port: Port, element: int) -> str:
    index = shape_index(element, port.shape[:-1] or (1,))
    return f"{port.name.removesuffix(IN_PLACE)}[{', '.join(map(str, index))}]"


def _output(found: Wirtinger, target: Port, row: int) -> str:
    if found.parts:
        return f"{'Re' if row % 2 == 0 else 'Im'} {_element(target, row // 2)}"
    index = ", ".join(map(str, shape_index(row, target.shape)))
    return f"{target.name.removesuffix(IN_PLACE)}[{index}]"


def _wrong(found: Wirtinger, source: Port, target: Port) -> str:
    with np.errstate(all="ignore"):
        error = np.where(found.wrong, np.abs(found.ad - found.fd), -1.0)
    slot = int(np.argmax(np.where(np.isnan(error), np.inf, error)))
    row, column = int(found.rows[slot]), int(found.columns[slot])
    return (
        f"d {_output(found, target, row)} / d {_element(source, column)}: AD {number(found.ad[slot])}, "
        f"FD {number(found.fd[slot])} ± {found.bar[slot]:.1g} ({CONVENTION}); {int(found.wrong.sum())} of "
        f"{len(found.wrong)} complex entries differ by more than the tolerance"
    )


def _cause(found: Wirtinger, tolerance: Tolerance) -> str:
    """Return the likely cause: a missing or an additional conjugate."""
    text = "AD is the conjugate of what it should be"
    if _alike(found.ad, found.fd.conj(), tolerance):
        return text
    if not found.parts:
        return ""
    _, _, dz, dzbar = found.derivatives()
    if _alike(dz[0], dz[1].conj(), tolerance) and _alike(dzbar[0], dzbar[1], tolerance):
        return (
            f"{text}: the adjoint multiplies by ∂w/∂z, not by conj(∂w/∂z) "
            "(a conjugate is missing, or one too many)"
        )
    if _alike(dz[0], dzbar[1].conj(), tolerance) and _alike(dzbar[0], dz[1].conj(), tolerance):
        return "AD takes the adjoint of the output for its conjugate"
    return ""


def _alike(ad: Complexes, expected: Complexes, tolerance: Tolerance) -> bool:
    with np.errstate(all="ignore"):
        close = np.abs(ad - expected) <= tolerance.atol + tolerance.rtol * np.abs(expected)
    return bool(len(ad) and close.all())


def _holomorphy(found: Wirtinger, source: Port, target: Port, tolerance: Tolerance) -> str:
    outputs, inputs, dz, dzbar = found.derivatives()
    size = np.abs(dzbar[1])
    slot = int(np.argmax(np.where(np.isfinite(size), size, -1.0)))
    names = f"{source.name} → {target.name}"
    if size[slot] <= tolerance.atol + tolerance.rtol * float(np.abs(dz[1]).max(initial=0.0)):
        return f"{names}: holomorphic here: abs(∂w/∂z̄) is at most {size[slot]:.1g}"
    return (
        f"{names}: not holomorphic: of {_element(target, int(outputs[slot]))} by "
        f"{_element(source, int(inputs[slot]))} ∂w/∂z is {number(dz[1, slot])} and ∂w/∂z̄ is "
        f"{number(dzbar[1, slot])}"
    )
