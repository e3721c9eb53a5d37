"""The calls inside a function of tensors that end a gradient: `.detach()`, `torch.no_grad()`, NumPy."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._float_types import is_float
from tapedebug._source import Site, site_span
from tapedebug.contract import GradientStop

if TYPE_CHECKING:
    from torch import Tensor

    from tapedebug.torch.call import TorchCall, Values

NUMBERS = {
    "numpy": ".numpy()",
    "__array__": "numpy.asarray(…)",
    "tolist": ".tolist()",
    "item": ".item()",
    "__float__": "float(…)",
}
"""Methods by which values leave PyTorch."""

DISPLACEMENT = 1e-3
"""Relative change of a value, to see whether results depend on it."""
SAME = {8: 1e-9, 4: 1e-5}
"""Relative difference of results, by bytes of a number, that rounding may cause."""
TRIALS = 16
"""Number of calls that are tried; a function with more of them repeats a few lines in a loop."""


def find_stops(call: TorchCall, values: Sequence[Values]) -> list[GradientStop]:
    """Return the calls that end the gradient of a value on which the results depend.

    Each call that does is repeated with its result displaced: if the results of the function change, the
    gradient lacks this path.

    Args:
        call: The call of the function.
        values: Values of its arguments and states.
    """
    wide = [v.astype(np.float64) if is_float(v.dtype) else v for v in values]
    try:
        plain, calls = _run(call, wide)
    except Exception:  # it cannot run in float64
        wide = list(values)
        plain, calls = _run(call, wide)
    found: dict[tuple[str, Any], GradientStop] = {}
    for number, (name, site) in enumerate(calls[:TRIALS]):
        if (name, site) not in found and _differ(plain, _run(call, wide, number)[0]):
            found[name, site] = GradientStop(name, site_span(site))
    return list(found.values())


def _run(
    call: TorchCall, values: Sequence[Values], displaced: int | None = None
) -> tuple[Sequence[Values], list[tuple[str, Site]]]:
    """Return the results, and the calls that end a gradient; the result of one of them may be displaced."""
    recorder = _recorder(call.torch, displaced)
    before, call.around = call.around, recorder
    try:
        found = call.forward(*(v.copy() for v in values))
    finally:
        call.around = before
    return found[: call.outputs], recorder.calls


def _differ(one: Sequence[Values], other: Sequence[Values]) -> bool:
    return any(
        np.linalg.norm(a.astype(np.float64) - b) > SAME.get(a.itemsize, 1e-3) * (1 + np.linalg.norm(b))
        for a, b in zip(one, other, strict=True)
    )


def _recorder(torch: ModuleType, displaced: int | None) -> Any:
    """Return a context in which calls that end a gradient are listed in `calls`."""
    library = os.path.dirname(str(torch.__file__))

    Mode: Any = torch.overrides.TorchFunctionMode

    class Recorder(Mode):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.calls: list[tuple[str, Site]] = []

        def __torch_function__(
            self,
            function: Callable[..., Any],
            types: object,
            args: Sequence[Any] = (),
            kwargs: Mapping[str, Any] | None = None,
        ) -> Any:
            found = function(*args, **(kwargs or {}))
            name = _ends_gradient(torch, function, [*_tensors(torch, (args, kwargs))], found)
            if name is None:
                return found
            self.calls.append((name, _user_site(library)))
            return _displaced(torch, found) if displaced == len(self.calls) - 1 else found

    return Recorder()


def _ends_gradient(
    torch: ModuleType, function: Callable[..., Any], given: Sequence[Tensor], found: object
) -> str | None:
    """Return the name of a call that takes a tensor with a gradient and returns values without one."""
    if not any(t.requires_grad for t in given):
        return None
    name = getattr(function, "__name__", "")
    if name == "__get__":
        name = getattr(getattr(function, "__self__", None), "__name__", "")
        return ".data" if name == "data" else None
    if name in NUMBERS:
        return NUMBERS[name]
    floats = [t for t in _tensors(torch, found) if t.is_floating_point()]
    if not floats or any(t.requires_grad for t in floats):
        return None
    if name in ("detach", "detach_"):
        return f".{name}()"
    return name if torch.is_grad_enabled() else f"{name} under torch.no_grad()"


def _tensors(torch: ModuleType, value: object) -> Iterator[Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(torch, item)
    elif isinstance(value, dict):
        yield from _tensors(torch, list(value.values()))


def _displaced(torch: ModuleType, found: object) -> object:
    """Return the result of a call, with each number displaced."""
    if isinstance(found, torch.Tensor):
        if not found.is_floating_point():
            return found
        with torch.no_grad():
            return found + DISPLACEMENT * (1 + found.abs())
    if isinstance(found, np.ndarray | np.floating):
        return found + DISPLACEMENT * (1 + np.abs(found)) if is_float(found.dtype) else found
    if isinstance(found, float):
        return found + DISPLACEMENT * (1 + abs(found))
    if isinstance(found, list | tuple):
        return type(found)(_displaced(torch, item) for item in found)
    return found


def _user_site(library: str) -> Site:
    """Return the innermost frame outside PyTorch and this package."""
    frame: FrameType | None = sys._getframe(2)
    last = sys._getframe(2)
    while frame is not None:
        inside = frame.f_globals.get("__name__", "").partition(".")[0] == "tapedebug"
        if not inside and not frame.f_code.co_filename.startswith(library):
            return frame.f_code, frame.f_lasti
        last, frame = frame, frame.f_back
    return last.f_code, last.f_lasti
