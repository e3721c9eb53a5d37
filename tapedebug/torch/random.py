"""Random numbers of float32 in a run in float64: PyTorch would draw others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

DRAWS = frozenset(
    [
        "rand",
        "randn",
        "rand_like",
        "randn_like",
        "uniform",
        "uniform_",
        "normal",
        "normal_",
        "bernoulli_",
        "exponential_",
        "cauchy_",
        "log_normal_",
    ]
)
"""Operations whose results depend on numbers and shapes only, and not on the values of tensors."""


def drawn_in_float32(torch: ModuleType) -> Any:
    """Return a context in which random numbers of float64 are those that float32 would get."""
    from torch.utils._python_dispatch import TorchDispatchMode

    def narrowed(value: object) -> object:
        if value is torch.float64:
            return torch.float32
        is_wide = isinstance(value, torch.Tensor) and value.dtype == torch.float64
        return torch.empty_like(value, dtype=torch.float32) if is_wide else value

    def widened(found: Tensor) -> Tensor:
        return found.to(torch.float64) if found.dtype == torch.float32 else found

    class Drawn(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self,
            function: Callable[..., Any],
            types: object,
            args: Sequence[Any] = (),
            kwargs: Mapping[str, Any] | None = None,
        ) -> Any:
            given = dict(kwargs or {})
            name = getattr(function, "_opname", "")
            is_factory = name in ("rand", "randn") or (name == "normal" and not _tensors(torch, args))
            wide = any(t.dtype == torch.float64 for t in _tensors(torch, args)) or (
                is_factory and (given.get("dtype") or torch.get_default_dtype()) == torch.float64
            )
            if name not in DRAWS or not wide or _by_tensors(torch, name, args):
                return function(*args, **given)
            if is_factory:
                given["dtype"] = torch.float32
            found = function(*map(narrowed, args), **{key: narrowed(value) for key, value in given.items()})
            return args[0].copy_(found) if name.endswith("_") else widened(found)

    return Drawn()


def _tensors(torch: ModuleType, args: Sequence[Any]) -> list[Tensor]:
    return [value for value in args if isinstance(value, torch.Tensor)]


def _by_tensors(torch: ModuleType, name: str, args: Sequence[Any]) -> bool:
    """True if the numbers depend on the values of a tensor, such as a tensor of means."""
    allowed = 0 if name in ("normal", "uniform") else 1
    return len(_tensors(torch, args)) > allowed
