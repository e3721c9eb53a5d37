"""The decorators with which users define kernels and functions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, overload

from tapedebug._errors import KernelTypeError
from tapedebug.compiler.function import Function, read_annotations
from tapedebug.compiler.kernel import Kernel


@overload
def kernel(function: Callable[..., Any], /) -> Kernel: ...
@overload
def kernel(
    *,
    enable_backward: bool | None = None,
    check_bounds: bool | None = None,
    module: Any = None,
    module_options: dict[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(
    function: Callable[..., Any] | None = None,
    /,
    *,
    enable_backward: bool | None = None,
    check_bounds: bool | None = None,
    module: Any = None,
    module_options: dict[str, Any] | None = None,
) -> Any:
    """Decorate a function as a kernel: `@kernel`, or `@kernel(enable_backward=False)`.

    Args:
        function: The function; its parameters have annotations such as `array(dtype=float)`, `float`, `vec3`.
        enable_backward: Whether launches of the kernel pass gradients. None leaves it to the module's options
            and `config`, as for all that follow.
        check_bounds: Whether an index outside its array is an error, forward and backward.
        module: Accepted and ignored: each kernel is compiled by itself.
        module_options: Settings of this kernel as `set_module_options` takes them.

    Raises:
        AttributeError: There is no such option.
        ValueError: An option has a value that it cannot have.
    """
    own = {"enable_backward": enable_backward, "check_bounds": check_bounds}
    options = {**(module_options or {}), **{name: value for name, value in own.items() if value is not None}}
    if function is not None:
        read_annotations(function, sys._getframe(1))
        return Kernel(function, **options)

    def decorate(python: Callable[..., Any]) -> Kernel:
        read_annotations(python, sys._getframe(1))
        return Kernel(python, **options)

    return decorate


def func(function: Callable[..., Any]) -> Function:
    """Decorate a function that kernels call; annotations of its parameters are optional and checked.

    Several functions of one name, in one file or cell, are versions of it: a call takes the one that declares
    the types of its arguments, or else one that takes families of types (`typing.Any`, `Float`, …).
    """
    frame = sys._getframe(1)
    read_annotations(function, frame)
    made = Function(function)
    made.join(frame.f_locals.get(function.__name__))
    return made


def func_grad(function: Function) -> Callable[[Callable[..., Any]], Function]:
    """Decorate a gradient for `function`: adjoints run it in place of the reverse of the function.

    Its parameters are those of `function`, then the adjoint of each result. It changes the adjoints of the
    inputs: `adjoint[x] += …` of floats and vectors, `adjoint[a][i] += …` of arrays.

    Raises:
        KernelTypeError: `function` is not a function of the kernel language, or has a gradient.
    """
    return _companion(function, "gradient")


def func_replay(function: Function) -> Callable[[Callable[..., Any]], Function]:
    """Decorate a replay for `function`: adjoints run it where they need the function's results again.

    Its parameters and results are those of `function`. It reads arrays as the launch left them.

    Raises:
        KernelTypeError: `function` is not a function of the kernel language, or has a replay.
    """
    return _companion(function, "replay")


def _companion(function: Function, what: str) -> Callable[[Callable[..., Any]], Function]:
    def decorate(python: Callable[..., Any]) -> Function:
        read_annotations(python, sys._getframe(1))
        own = Function(python)
        version = _version(function, own)
        _require_free(version, own, what)
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
        mend=f"begin with the parameters of one of these: {versions}",
    )


def _require_free(function: Any, own: Function, what: str) -> None:
    """Refuse a gradient of what cannot have one, or a second; a cell that runs again defines the same."""
    name = getattr(function, "__name__", repr(function))
    if not isinstance(function, Function):
        kind = "a kernel" if isinstance(function, Kernel) else "not a function of the kernel language"
        message, mend = (
            f"`{name}` is {kind}, and cannot have a {what}",
            f"decorate `{name}` with @wp.func",
        )
    else:
        known = getattr(function, what)
        if known is None or known.python.__qualname__ == own.python.__qualname__:
            return
        message = f"`{name}` has a {what} already: `{known.name}`"
        mend = "remove one of the two"
    tree = own.origin.tree
    raise KernelTypeError(
        f"function `{own.name}`: {message}", span=own.origin.span((*tree.decorator_list, tree)[0]), mend=mend
    )
