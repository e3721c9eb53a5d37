"""The decorators with which users define kernels and functions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, overload

from tapedebug._errors import KernelTypeError
from tapedebug.compiler import modules
from tapedebug.compiler.function import DIFFERING, Function, read_annotations
from tapedebug.compiler.kernel import Kernel
from tapedebug.compiler.numba_functions import function_of, is_numba_function

DEVICE = frozenset(
    {
        "cluster_dim",
        "cuda_max_registers",
        "enable_cuda_smem_spilling",
        "entry_point_abi",
        "grid_stride",
        "launch_bounds",
    }
)
"""Options of kernels on other devices."""
MEANT = "meant to differ"
"""The phrase in the docstring of a gradient that differs from the derivative on purpose."""


@overload
def kernel(function: Callable[..., Any], /) -> Kernel: ...
@overload
def kernel(
    *,
    name: str | None = None,
    enable_backward: bool | None = None,
    check_bounds: bool | None = None,
    module: Any = None,
    module_options: dict[str, Any] | None = None,
    **device: Any,
) -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    enable_backward: bool | None = None,
    check_bounds: bool | None = None,
    module: Any = None,
    module_options: dict[str, Any] | None = None,
    **device: Any,
) -> Any:
    """Decorate a function as a kernel: `@kernel`, or `@kernel(enable_backward=False)`.

    Args:
        function: The function; its parameters have annotations such as `array(dtype=float)`, `float`, `vec3`.
        name: Its key, which checks and reports use; by default made of the function's name.
        enable_backward: Whether launches of the kernel pass gradients. None leaves it to the module's options
            and `config`, as for all that follow.
        check_bounds: Whether an index outside its array is an error, forward and backward.
        module: The module whose settings it takes, or the name of one; `"unique"` makes one for this kernel.
        module_options: Settings of this kernel as `set_module_options` takes them.
        device: Options of kernels on other devices (`launch_bounds`, …), accepted and ignored.

    Raises:
        AttributeError: There is no such option.
        TypeError: There is no such keyword.
        ValueError: An option has a value that it cannot have, or the name is no identifier.
    """
    if name is not None and not name.isidentifier():
        raise ValueError(f"kernel(): the name is an identifier; got {name!r}")
    if device.get("entry_point_abi", "warp") != "warp":
        raise ValueError(
            f"kernel(): entry_point_abi={device['entry_point_abi']!r} is for kernels that another program "
            "launches on a CUDA device; here it is 'warp'"
        )
    unknown = next((key for key in device if key not in DEVICE), None)
    if unknown is not None:
        raise TypeError(f"kernel() has no option {unknown!r}")
    own = {"enable_backward": enable_backward, "check_bounds": check_bounds}
    options = {**(module_options or {}), **{key: value for key, value in own.items() if value is not None}}

    def decorate(python: Callable[..., Any], frame: Any = None) -> Kernel:
        _require_function("kernel", python)
        read_annotations(python, frame or sys._getframe(1))
        made = Kernel(python, name, None if module == "unique" else module, options)
        if module == "unique":
            made.move_to(modules.unique_module(made.module.name, made.key, module_options or {}))
        return made

    return decorate if function is None else decorate(function, sys._getframe(1))


def _require_function(decorator: str, given: Any) -> None:
    """Refuse what is no function.

    Raises:
        KernelTypeError: It is a class, or something else.
    """
    if not hasattr(given, "__code__"):
        what = f"the class `{given.__name__}`" if isinstance(given, type) else f"{given!r}"
        hint = f"write @{decorator} above a `def`"
        if isinstance(given, staticmethod | classmethod):
            kind, name = type(given).__name__, given.__name__
            what = f"the {kind} `{name}`"
            hint = f"leave @{kind} out: in a class, @{decorator} alone makes it `Class.{name}`"
        raise KernelTypeError(f"{decorator}: only functions can be decorated; got {what}", hint=hint)


@overload
def func(function: Callable[..., Any], /) -> Function: ...
@overload
def func(
    *, name: str | None = None, module: Any = None, inline: bool | None = None
) -> Callable[[Callable[..., Any]], Function]: ...
def func(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    module: Any = None,
    inline: bool | None = None,
) -> Any:
    """Decorate a function that kernels call; annotations of its parameters are optional and checked.

    Several functions of one name, in one file or cell, are versions of it: a call takes the one that declares
    the types of its arguments, or else one that takes families of types (`typing.Any`, `Float`, …).

    Args:
        function: The function.
        name: What messages call it, by default its own name.
        module: Accepted and ignored: functions are compiled into the kernels that call them.
        inline: True, False or None; ignored: so they are.

    Raises:
        TypeError: `inline` is something else.
    """
    if inline is not None and not isinstance(inline, bool):
        raise TypeError(f"func(): inline is True, False or None; got {inline!r}")

    def decorate(python: Callable[..., Any], frame: Any = None) -> Function:
        _require_function("func", python)
        frame = frame or sys._getframe(1)
        read_annotations(python, frame)
        made = Function(python, name)
        made.join(frame.f_locals.get(python.__name__))
        return made

    return decorate if function is None else decorate(function, sys._getframe(1))


def func_grad(function: Any, *, differs: bool = False) -> Callable[[Callable[..., Any]], Function]:
    """Decorate a gradient for `function`: adjoints run it in place of the reverse of the function.

    Its parameters are those of `function`, then the adjoint of each result. It changes the adjoints of the
    inputs: `adjoint[x] += …` of floats and vectors, `adjoint[a][i] += …` of arrays.

    Args:
        function: The function; one of Numba's (`@numba.njit`) may have a gradient, too, in place of finite
            differences.
        differs: The gradient is meant to differ from the derivative, as one that passes straight through
            `round` or clips does: checks take it as it is, and say so. The words "meant to differ" in its
            docstring do the same, for programs that also run on Warp.

    Raises:
        KernelTypeError: `function` is not a function of the kernel language, or has a gradient.
    """
    return _companion(function, "gradient", differs=differs)


def func_replay(function: Function) -> Callable[[Callable[..., Any]], Function]:
    """Decorate a replay for `function`: adjoints run it where they need the function's results again.

    Its parameters and results are those of `function`. It reads arrays as the launch left them.

    Raises:
        KernelTypeError: `function` is not a function of the kernel language, or has a replay.
    """
    return _companion(function, "replay")


def _companion(
    function: Any, what: str, *, differs: bool = False
) -> Callable[[Callable[..., Any]], Function]:
    if is_numba_function(function):
        if what == "replay":
            name = function.py_func.__name__
            raise KernelTypeError(
                f"`{name}` is a numba function, and cannot have a replay",
                hint=f"leave the replay out: adjoints call `{name}` again where they need its results",
            )
        function = function_of(function)

    def decorate(python: Callable[..., Any]) -> Function:
        read_annotations(python, sys._getframe(1))
        own = Function(python)
        own.differs = differs or MEANT in (python.__doc__ or "")
        version = _version(function, own)
        _require_free(version, own, what)
        own.companion_of = version
        if own.differs:
            DIFFERING.add(own)
        setattr(version, what, own)
        for user in list(version.users):
            user.renew()
        return own

    return decorate


def _version(function: Any, own: Function) -> Any:
    """The version of a function whose parameters a gradient or replay begins with."""
    if not isinstance(function, Function) or len(function.overloads) == 1:
        return function
    for version in function.overloads:
        if own.annotations[: len(version.annotations)] == version.annotations:
            return version
    versions = "; ".join(version.declaration for version in function.overloads)
    raise KernelTypeError(
        f"function `{own.name}`: no version of `{function.name}` has the types of its parameters",
        span=own.origin.span(own.origin.tree),
        hint=f"begin with the parameters of one of these: {versions}",
    )


def _require_free(function: Any, own: Function, what: str) -> None:
    """Refuse a gradient of what cannot have one, or a second; a cell that runs again defines the same."""
    name = getattr(function, "__name__", repr(function))
    if not isinstance(function, Function):
        kind = "a kernel" if isinstance(function, Kernel) else "not a function of the kernel language"
        message, hint = (
            f"`{name}` is {kind}, and cannot have a {what}",
            f"decorate `{name}` with @wp.func",
        )
    else:
        known = getattr(function, what)
        if known is None or known.python.__qualname__ == own.python.__qualname__:
            return
        message = f"`{name}` has a {what} already: `{known.name}`"
        hint = "remove one of the two"
    tree = own.origin.tree
    raise KernelTypeError(
        f"function `{own.name}`: {message}", span=own.origin.span((*tree.decorator_list, tree)[0]), hint=hint
    )
