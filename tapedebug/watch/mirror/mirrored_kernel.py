"""Kernels of Warp that this engine has translated."""

from __future__ import annotations

import re
import weakref
from collections.abc import Sequence

from tapedebug._dataclass import dataclass
from tapedebug._errors import TapedebugError
from tapedebug.compiler.effects import differentiable
from tapedebug.compiler.kernel import Kernel
from tapedebug.lang import types as t
from tapedebug.watch.mirror.errors import MirrorError
from tapedebug.watch.mirror.rebinding import Rebinding, missing_function
from tapedebug.watch.mirror.warp_objects import WarpKernel


@dataclass(frozen=True, slots=True)
class ParameterAccess:
    """The use that a kernel makes of one array: a parameter, or a field of a struct.

    Attributes:
        param: The number of the parameter as the kernel declares it.
        path: The field of a struct parameter, such as `q` or `inner.q`; empty for other parameters. The
            indices of an indexed array have paths of their own: `indices[0]`, …
        name: The name as users write it, such as `state.q`.
        reads: The kernel reads values that were there before it.
        writes: It writes values, atomically or not.
        atomic: It updates values atomically.
        needs_before: The adjoint reads the values before the launch.
        needs_after: The adjoint reads the values after the launch.
    """

    param: int
    path: str
    name: str
    reads: bool
    writes: bool
    atomic: bool
    needs_before: bool
    needs_after: bool


class MirroredKernel:
    """A kernel of Warp as a kernel of this engine, of the same source.

    Args:
        kernel: The kernel of this engine.

    Attributes:
        kernel: The same.
        key: The name of Warp's kernel.
        accesses: The use that it makes of each array, in the order of its parameters. What the adjoint needs
            is that for gradients of all float arrays: an upper bound for a launch.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.key = kernel.key
        self.accesses: Sequence[ParameterAccess] = _accesses(kernel)

    def __repr__(self) -> str:
        return f"<mirror of kernel {self.key}>"


def place_of(kernel: Kernel, flat: int) -> tuple[int, str]:
    """Return parameter and field path of a flat parameter of a kernel, without fields of array elements."""
    param = kernel.params[flat]
    declared = param.declared
    kind, path = kernel.signature[declared].type, param.name[len(kernel.signature[declared].name) :]
    steps: list[str] = []
    rest = path.removeprefix(".").split(".") if path else []
    while rest and t.is_struct(kind):
        kind = kind.fields[rest[0]]
        steps.append(rest.pop(0))
    if isinstance(kind, t.IndexedArrayType):
        steps += [part for part in rest[:1] if part != "data"]
    return declared, ".".join(steps)


_PLACES: weakref.WeakKeyDictionary[Kernel, list[tuple[int, str]]] = weakref.WeakKeyDictionary()
"""The places of the flat parameters of kernels."""


def places_of(kernel: Kernel) -> list[tuple[int, str]]:
    """Return `place_of` each flat parameter of a kernel; it is the same for all launches."""
    found = _PLACES.get(kernel)
    if found is None:
        found = _PLACES[kernel] = [place_of(kernel, flat) for flat in range(len(kernel.params))]
    return found


def _accesses(kernel: Kernel) -> list[ParameterAccess]:
    """Return the accesses of a kernel; those of the fields of an array's elements are joined."""
    analysis, active = kernel.analysis, differentiable(kernel.params)
    info = kernel.adjoint_info(active) if active and kernel.enable_backward else None
    needs, after = (info.needs, info.after) if info is not None else (frozenset(), frozenset())
    found: dict[tuple[int, str], ParameterAccess] = {}
    for param in kernel.params:
        if not param.is_array:
            continue
        place = place_of(kernel, param.index)
        flat, old = param.index, found.get(place)
        name = kernel.signature[place[0]].name + (f".{place[1]}" if place[1] else "")
        now = (
            flat in analysis.reads,
            flat in analysis.writes,
            flat in analysis.atomic,
            flat in needs - after,
            flat in after,
        )
        if old is not None:
            before = (old.reads, old.writes, old.atomic, old.needs_before, old.needs_after)
            now = tuple(a or b for a, b in zip(before, now, strict=True))  # type: ignore[assignment]
        found[place] = ParameterAccess(*place, name, *now)
    return list(found.values())


_MIRRORS: weakref.WeakKeyDictionary[WarpKernel, MirroredKernel | MirrorError] = weakref.WeakKeyDictionary()
"""The mirrors of kernels of Warp, or the errors why there are none."""


def mirror_kernel(kernel: WarpKernel, args: Sequence[object] = ()) -> MirroredKernel:
    """Return the mirror of a kernel of Warp, which is made once.

    Args:
        kernel: A `warp.Kernel`.
        args: The arguments of a launch, which choose the version of a generic kernel.

    Raises:
        MirrorError: The kernel cannot be translated; its `reason` is one sentence.
    """
    chosen = _version(kernel, args) if kernel.is_generic else kernel
    known = _MIRRORS.get(chosen)
    if known is None:
        try:
            known = _mirrored(chosen)
        except MirrorError as error:
            known = error
        _MIRRORS[chosen] = known
    if isinstance(known, MirrorError):
        raise known.with_traceback(None)  # else each launch that asks would be held by a frame of its call
    return known


def _version(kernel: WarpKernel, args: Sequence[object]) -> WarpKernel:
    """Return the version of a generic kernel for these arguments.

    Raises:
        MirrorError: They do not fit.
    """
    try:
        return kernel.add_overload(kernel.infer_argument_types(list(args)))
    except Exception as error:
        raise MirrorError(f"the types of the generic kernel `{kernel.key}` are not known: {error}") from None


def _mirrored(kernel: WarpKernel) -> MirroredKernel:
    rebinding = Rebinding()
    try:
        return MirroredKernel(rebinding.kernel(kernel))
    except MirrorError:
        raise
    except TapedebugError as error:
        raise _explained(error, rebinding) from None
    except RecursionError:
        raise MirrorError(f"`{kernel.key}` is nested too deeply") from None
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # of a release of Warp not seen yet
        what = f"{type(error).__name__}: {error}"
        raise MirrorError(f"`{kernel.key}` cannot be translated ({what})") from error


def _explained(error: TapedebugError, rebinding: Rebinding) -> MirrorError:
    """Return the error of a kernel that cannot be compiled: an object that is missing here explains it."""
    absent = re.search(r"`warp` has no attribute `(\w+)`", error.message)
    if absent is not None:
        return MirrorError(missing_function(absent[1]), error.span)
    line = "" if error.span is None else error.span.text[error.span.column :]
    for each in rebinding.unavailable:
        if re.search(rf"\b{re.escape(each.name.rpartition('.')[2])}\b", f"{error.message} {line}"):
            return MirrorError(each.reason, error.span)
    return MirrorError.because_of(error)
