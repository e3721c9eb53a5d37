"""`map`: apply a function to the elements of arrays; array arithmetic uses it.

Kernels are created once for each function and kind of arguments. They are launched like any kernel: recorded
on an active tape, and differentiable.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._errors import ArrayError, TapedebugError
from tapedebug.lang import types
from tapedebug.runtime.device import get_device
from tapedebug.runtime.launch.launch import launch
from tapedebug.runtime.memory.array import Shape, array, new
from tapedebug.runtime.memory.indexed import indexedarray
from tapedebug.runtime.memory.transfer import clone
from tapedebug.runtime.tape.buffer_versions import share_elements
from tapedebug.runtime.tape.record import call_site, site_span

if TYPE_CHECKING:
    from tapedebug.compiler.elementwise import ElementwiseKernel, Operand

Arrays = array | indexedarray

_MADE: dict[Any, ElementwiseKernel] = {}
"""The kernels, by function and kind of arguments."""


def map(
    func: Any,
    *inputs: Any,
    out: Any = None,
    return_kernel: bool = False,
    block_dim: int | None = None,
    device: Any = None,
) -> Any:
    """Apply a function to the elements of arrays.

    Arrays are broadcast as in NumPy; numbers, vectors and matrices are the same for all elements. A Python
    number takes the type of the function's parameter if that is declared, else that of the arrays' floats.

    Args:
        func: A function decorated with `@func`, one of the kernel language (`wp.sin`), a type, or a plain
            Python function or lambda, which is compiled as one of the kernel language.
        inputs: Its arguments, at least one of them an array.
        out: An array or indexed array for the result (or a list, for several results); by default new arrays,
            which require a gradient if one of the inputs does.
        return_kernel: Launch nothing, and return the kernel; its parameters are the inputs, then the outputs.
        block_dim: Accepted and ignored on the CPU.
        device: Only `"cpu"` exists.

    Returns:
        The array of results; for a function with several results, a list of arrays.

    Raises:
        ArrayError: No input is an array, shapes do not broadcast, or `out` does not fit.
        TapedebugError: The function cannot be compiled; the error is located at this call or in the function.
    """
    get_device(device)
    name, function = _function(func)
    called = name if name.isidentifier() and name not in _TAKEN else "f"
    template = f"{called}({', '.join(f'{{{i}}}' for i in range(len(inputs)))})"
    declared = tuple(getattr(function, "types", {}).get(p) for p in _parameters(function))
    key = (called, function)
    kernel = f"map_{name.strip('_')}"
    return apply(kernel, key, template, inputs, declared, out=out, return_kernel=return_kernel)


_TAKEN = {
    "result",
    "tid",
    "wp",
    *"ijkl",
    *(f"{stem}{n}" for stem in ("x", "out", "result") for n in range(16)),
}
"""Names that the generated kernels use themselves."""


def apply(
    name: str,
    function: tuple[str, Any] | None,
    template: str,
    inputs: Sequence[Any],
    declared: Sequence[Any] = (),
    *,
    out: Any = None,
    return_kernel: bool = False,
    in_place: bool = False,
    what: str = "map",
) -> Any:
    """Launch the kernel of an expression; arguments as for `map` and `compiler.elementwise.mapped`."""
    args = [_argument(value, what) for value in inputs]
    arrays = [a for a in args if isinstance(a, array | indexedarray)]
    if not arrays:
        got = ", ".join(builtins.map(repr, inputs)) or "none"
        raise ArrayError(
            f"{what}: one of the inputs must be an array; got {got}",
            hint="pass an array, or call the function of NumPy or math",
        )
    shape = _broadcast(arrays, what)
    if in_place and shape != args[0].shape:
        raise ArrayError(
            f"{what}: the result has shape {shape}; the array that it changes has {args[0].shape}",
            hint="write it as a new array",
        )
    given = list(out) if isinstance(out, list | tuple) else [] if out is None else [out]
    written = [
        a.data if isinstance(a, indexedarray) else a
        for a in (args[:1] if in_place else given)
        if isinstance(a, array) or (in_place and isinstance(a, indexedarray))
    ]
    args = [_input_before_writes(a, written, i == 0 and in_place) for i, a in enumerate(args)]
    made = _kernel(name, function, template, args, declared, shape, in_place)
    if return_kernel:
        return made.kernel
    outputs = [] if in_place else _outputs(made.results, shape, given, arrays)
    if any(isinstance(a, indexedarray) for a in outputs):
        plain = _outputs(made.results, shape, [], arrays)
        launch(made.kernel, shape, inputs=args, outputs=plain)
        for into, of in zip(outputs, plain, strict=True):
            into.assign(of)
    else:
        launch(made.kernel, shape, inputs=args, outputs=outputs)
    if in_place:
        return args[0]
    return outputs[0] if len(outputs) == 1 else outputs


def _function(func: Any) -> tuple[str, Any]:
    """Return the name of `func`, and `func` in a form that kernels can call."""
    from tapedebug.compiler.elementwise import function_of
    from tapedebug.compiler.function import Function
    from tapedebug.lang.builtins import Builtin

    if isinstance(func, Function | Builtin | type | BuiltinFunctionType):
        return str(getattr(func, "__name__", "f")), func
    if isinstance(func, FunctionType):
        cells = tuple(cell.cell_contents for cell in func.__closure__ or ())
        key: Any = (func.__code__, id(func.__globals__), cells, func.__defaults__)
        try:
            known = _FUNCTIONS.get(key)
        except TypeError:  # a captured value has no hash
            key, known = id(func), None
        if known is None:
            known = _FUNCTIONS[key] = function_of(func)
        return known.name, known
    raise ArrayError(
        f"map: the first argument must be a function; got {func!r} ({type(func).__name__})",
        hint="pass a function decorated with @func, one of the kernel language, or a lambda",
    )


_FUNCTIONS: dict[Any, Any] = {}
"""Plain Python functions as functions of the kernel language, by code and captured values."""


def _parameters(function: Any) -> list[str]:
    code = getattr(getattr(function, "python", None), "__code__", None)
    return list(code.co_varnames[: code.co_argcount]) if code is not None else []


def _argument(value: Any, what: str) -> Any:
    """Return a checked input; NumPy arrays become arrays that share their memory."""
    if isinstance(value, np.ndarray) and value.ndim:
        return array(value, copy=not value.flags.writeable)
    if isinstance(value, array | indexedarray | bool | int | float | np.generic | types.Compound):
        return value
    raise ArrayError(
        f"{what}: an input must be an array, a number, a vector or a matrix; got {value!r} "
        f"({type(value).__name__})",
        hint="make an array of it",
    )


def _broadcast(arrays: Sequence[Arrays], what: str) -> Shape:
    try:
        return np.broadcast_shapes(*(a.shape for a in arrays))
    except ValueError:
        shapes = ", ".join(str(a.shape) for a in arrays)
        raise ArrayError(
            f"{what}: shapes {shapes} do not broadcast",
            hint="pass arrays of one shape, or with sizes of 1 where they differ",
        ) from None


def _kernel(
    name: str,
    function: tuple[str, Any] | None,
    template: str,
    args: Sequence[Any],
    declared: Sequence[Any],
    shape: Shape,
    in_place: bool,
) -> ElementwiseKernel:
    """Return the cached kernel for arguments of these kinds."""
    from tapedebug.compiler.elementwise import Operand, elementwise_kernel

    dtypes = [a.dtype for a in args if isinstance(a, array | indexedarray)]
    scalars = {types.scalar_of(dtype) for dtype in dtypes if not types.is_struct(dtype)}
    wanted = [*declared, *[None] * len(args)]
    operands: list[Operand] = []
    for value, kind in zip(args, wanted, strict=False):
        if isinstance(value, array | indexedarray):
            repeats = tuple(
                n == 1 and n != m for n, m in zip(value.shape, shape[len(shape) - value.ndim :], strict=True)
            )
            operands.append(Operand(value.kernel_type, repeats))
        else:
            operands.append(Operand(_value_type(value, kind, scalars, operator=function is None)))
    key = (function, template, tuple(operands), len(shape), in_place)
    found = _MADE.get(key)
    if found is None:
        place = site_span(call_site())
        try:
            found = _MADE[key] = elementwise_kernel(
                name, function, template, operands, len(shape), place, in_place
            )
        except TapedebugError as error:
            raise error.with_traceback(None) from None
    return found


def _value_type(value: Any, declared: Any, scalars: set[Any], operator: bool) -> Any:
    """Return the type of a parameter for one value; a Python number takes the type of the other operands."""
    if isinstance(value, types.Compound):
        return type(value)
    if isinstance(value, np.generic):
        return types.canonical(value.dtype)
    if isinstance(value, bool):
        return types.bool
    if types.is_scalar(declared):
        return declared
    near = scalars & {*types.FLOATS} if isinstance(value, float) else scalars - {types.bool}
    if len(near) == 1 and (operator or isinstance(value, float)):
        return next(iter(near))
    return types.canonical(type(value))


def _outputs(results: Sequence[Any], shape: Shape, given: list[Any], inputs: Sequence[Arrays]) -> list[Any]:
    """Return the arrays for the results: new ones, or the given ones, which must fit."""
    if not given:
        requires = any(a.requires_grad for a in inputs)
        made = [new(shape, kind) for kind in results]
        for a in made:
            a.requires_grad = requires and types.is_float(a.dtype)
        return made
    if len(given) != len(results):
        raise ArrayError(
            f"map: the function gives {len(results)} results; out has {len(given)} arrays",
            hint="pass one array for each result",
        )
    for a, kind in zip(given, results, strict=True):
        if not isinstance(a, array | indexedarray) or (a.shape, a.dtype) != (shape, kind):
            raise ArrayError(
                f"map: out must be an array(shape={shape}, dtype={types.type_name(kind)}); got {a!r}",
                hint="leave out away, or pass such an array",
            )
    return given


def _input_before_writes(value: Any, written: Sequence[array], itself: bool) -> Any:
    """Return an input that no thread overwrites before another reads it: a copy if memory overlaps."""
    if itself or not isinstance(value, array | indexedarray):
        return value
    source = value.data if isinstance(value, indexedarray) else value
    for a in written:
        same = source is value and (a.ptr, a.shape, a.strides) == (source.ptr, source.shape, source.strides)
        if a.buffer is source.buffer and not same and share_elements(a, source):
            return clone(source) if source is value else value.contiguous()
    return value
