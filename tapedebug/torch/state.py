"""The tensors that a module or function uses besides its arguments: parameters, buffers, other tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Literal

from tapedebug._dataclass import dataclass

if TYPE_CHECKING:
    from torch import Tensor, nn

Kind = Literal["parameter", "buffer", "tensor"]


@dataclass(frozen=True, slots=True)
class State:
    """A tensor that a function uses and that is not one of its arguments.

    Attributes:
        name: Its name, such as `0.weight`.
        tensor: The tensor.
        kind: `"parameter"` and `"buffer"` as modules register them; `"tensor"` for one in a variable.
        owner: The module that has it as an attribute; None for a tensor in a variable or a list.
        attribute: The name of that attribute.
    """

    name: str
    tensor: Tensor
    kind: Kind
    owner: nn.Module | None = None
    attribute: str = ""

    @property
    def has_gradient(self) -> bool:
        """True if it is a leaf that requires a gradient."""
        return bool(self.tensor.requires_grad and self.tensor.is_leaf)

    def bound_now(self) -> Tensor:
        """Return the tensor that the owner's attribute is now: assignment makes it another one."""
        return self.tensor if self.owner is None else getattr(self.owner, self.attribute)

    def bind_again(self) -> None:
        """Make the owner's attribute this tensor again."""
        if self.owner is not None and self.bound_now() is not self.tensor:
            setattr(self.owner, self.attribute, self.tensor)


def modules_and_tensors(
    torch: ModuleType, function: Callable[..., Any]
) -> list[tuple[str, nn.Module | Tensor]]:
    """Return the modules and tensors that a function can reach by name, each with the name.

    These are the module itself, what a function closes over or names, the object of a method, the arguments
    of a `functools.partial`, and the entries of lists, tuples and dictionaries among them.
    """
    if isinstance(function, torch.nn.Module):
        return [("", function)]
    found: dict[int, tuple[str, Any]] = {}
    for name, value in _reachable(function):
        for path, item in _entries(name, value):
            if isinstance(item, torch.nn.Module | torch.Tensor):
                found.setdefault(id(item), (path, item))
    return list(found.values())


def states_of(torch: ModuleType, function: Callable[..., Any]) -> list[State]:
    """Return the parameters, buffers and other tensors that a function can reach, each once."""
    found: dict[int, State] = {}
    for prefix, item in modules_and_tensors(torch, function):
        if isinstance(item, torch.Tensor):
            states = iter([State(prefix, item, _kind(item))])
        else:
            states = (
                state
                for path, module in _with_unregistered(torch, prefix, item)
                for part_path, part in module.named_modules(prefix=path)
                for state in _states_of_module(torch, part_path, part)
            )
        for state in states:
            if is_plain(torch, state.tensor):
                found.setdefault(id(state.tensor), state)
    return list(found.values())


def _kind(tensor: Tensor) -> Kind:
    return "parameter" if tensor.requires_grad else "tensor"


def _states_of_module(torch: ModuleType, path: str, module: nn.Module) -> Iterator[State]:
    """Yield the tensors of one module, without those of its submodules."""
    lead = f"{path}." if path else ""
    for name, tensor in module._parameters.items():
        if tensor is not None:
            yield State(f"{lead}{name}", tensor, "parameter", module, name)
    for name, tensor in module._buffers.items():
        if tensor is not None:
            yield State(f"{lead}{name}", tensor, "buffer", module, name)
    for name, value in vars(module).items():
        if name.startswith("_"):
            continue
        for entry, item in _entries(name, value):
            if isinstance(item, torch.Tensor):
                owner = module if entry == name else None
                yield State(f"{lead}{entry}", item, _kind(item), owner, name)


def is_plain(torch: ModuleType, tensor: Tensor) -> bool:
    """True for a dense tensor whose values can change; views of a graph and lazy tensors are left out."""
    lazy = isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin)
    return bool(not lazy and tensor.layout == torch.strided and tensor.is_leaf)


def training_modes(torch: ModuleType, function: Callable[..., Any]) -> list[tuple[nn.Module, bool]]:
    """Return all modules that a function can reach, with their `training` flags."""
    found: dict[int, tuple[nn.Module, bool]] = {}
    for prefix, item in modules_and_tensors(torch, function):
        if isinstance(item, torch.nn.Module):
            for _, module in _with_unregistered(torch, prefix, item):
                found.update({id(part): (part, part.training) for part in module.modules()})
    return list(found.values())


def generators_of(torch: ModuleType, function: Callable[..., Any]) -> list[Any]:
    """Return the random generators (`torch.Generator`) that a function can reach by name."""
    values = [item for name, value in _reachable(function) for _, item in _entries(name, value)]
    if isinstance(function, torch.nn.Module):
        values += [value for module in function.modules() for value in vars(module).values()]
    return list({id(v): v for v in values if isinstance(v, torch.Generator)}.values())


def _with_unregistered(torch: ModuleType, prefix: str, module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield a module and those in plain lists or dictionaries of it, which it does not register."""
    yield prefix, module
    for path, part in module.named_modules(prefix=prefix):
        for name, value in vars(part).items():
            if not name.startswith("_") and isinstance(value, list | tuple | dict):
                for entry, item in _entries(f"{path}.{name}".lstrip("."), value):
                    if isinstance(item, torch.nn.Module):
                        yield entry, item


def _entries(name: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield a value, or the entries of a list, tuple or dictionary."""
    if isinstance(value, list | tuple):
        yield from ((f"{name}[{number}]", item) for number, item in enumerate(value))
    elif isinstance(value, dict):
        yield from ((f"{name}[{key!r}]", item) for key, item in value.items())
    else:
        yield name, value


def _reachable(function: Callable[..., Any]) -> Iterator[tuple[str, object]]:
    """Yield what a function, method, partial or callable object can reach by name."""
    if isinstance(function, functools.partial):
        yield from ((f"args[{number}]", value) for number, value in enumerate(function.args))
        yield from function.keywords.items()
        yield from _reachable(function.func)
        return
    owner = getattr(function, "__self__", None)
    inner: Any = getattr(function, "__func__", function)
    if not hasattr(inner, "__code__"):
        owner, inner = function, type(function).__dict__.get("__call__")
    if owner is not None and not isinstance(owner, ModuleType):
        yield "self", owner
        yield from ((f"self.{name}", value) for name, value in getattr(owner, "__dict__", {}).items())
    code = getattr(inner, "__code__", None)
    if code is None:
        return
    for name, cell in zip(code.co_freevars, inner.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not bound yet
            continue
    names = {name for part in _nested(code) for name in part.co_names}
    yield from ((name, inner.__globals__[name]) for name in sorted(names & inner.__globals__.keys()))
    yield from ((f"default {number}", value) for number, value in enumerate(inner.__defaults__ or ()))
    yield from (inner.__kwdefaults__ or {}).items()


def _nested(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)
