"""Check and pack the arguments of a launch, with one error message for each."""

from __future__ import annotations

import ctypes
import operator
import sys
from struct import Struct
from typing import Any, SupportsFloat, cast

import numpy as np

from tapedebug._calls import argument_span, element_span
from tapedebug._errors import ArrayError, DeviceError, LaunchError, LaunchSizeError
from tapedebug._source import Span, call_site, display_file, site_span
from tapedebug.lang import types
from tapedebug.lang.lowering import SHORT_FLOATS
from tapedebug.runtime.device import get_device
from tapedebug.runtime.launch.argument_packing import Packer, Remembering
from tapedebug.runtime.memory.array import array, new
from tapedebug.runtime.memory.interop import from_torch

_LIMITS = {scalar: np.iinfo(scalar.numpy) for scalar in types.INTEGERS}


def not_a_kernel(thing: Any) -> LaunchError:
    """Return the error for a launch whose first argument is not a kernel."""
    name = getattr(thing, "__name__", None)
    given = f"the function {name!r}" if callable(thing) and name else f"{thing!r} ({type(thing).__name__})"
    return LaunchError(
        f"launch: the first argument must be a kernel; got {given}",
        span=_argument("kernel"),
        hint="pass the kernel itself, not its name"
        if isinstance(thing, str)
        else "decorate the function with @kernel",
    )


def in_lists(kernel: Any, inputs: Any, outputs: Any, error: Exception) -> Exception:
    """Return the error of a failed launch: a specific one for `inputs=x` in place of `inputs=[x]`."""
    if not hasattr(kernel, "key"):
        return error
    for name, given in (("inputs", inputs), ("outputs", outputs)):
        if isinstance(given, list | tuple) or not (
            isinstance(given, array | np.ndarray | str | dict | set) or not hasattr(given, "__iter__")
        ):
            continue
        shown = f"an array of shape {given.shape}" if hasattr(given, "shape") else value_and_type(given)
        return LaunchError(
            f"launch of {kernel.key}: {name} must be a list with one value for each parameter; got {shown}",
            span=_argument(name),
            notes=[declared(kernel)],
            hint=f"write a list, in the order of the parameters: {name}=[…]"
            if isinstance(given, dict | set)
            else f"put it in a list: {name}=[…]",
        )
    return error


def check_device(kernel: Any, device: Any) -> None:
    """Reject a device that does not exist.

    Raises:
        DeviceError: There is no such device.
    """
    try:
        get_device(device)
    except DeviceError as error:
        name = getattr(kernel, "key", None) or "a kernel"
        raise DeviceError(
            f"launch of {name}: {error.message}", span=_argument("device"), hint=error.hint
        ) from None


LARGEST = 1 << 31
"""The largest size of an axis: its last index is the largest int32."""


def bad_dim(kernel: Any, dim: Any) -> LaunchSizeError:
    """Return the error for a `dim` that is not one to four integers."""
    return LaunchSizeError(
        f"launch of {kernel.key}: dim is an int or a tuple of 1 to 4 ints; got {dim!r}",
        span=_argument("dim"),
        hint="pass the number of threads, or an array's shape",
    )


def check_dim(kernel: Any, sizes: tuple[int, ...]) -> None:
    """Reject sizes that are negative, or beyond the range of `tid()`.

    Raises:
        LaunchSizeError: A size is negative or too large.
    """
    if max(sizes) > LARGEST and min(sizes) > 0:
        axis = next(k for k, size in enumerate(sizes) if size > LARGEST)
        raise LaunchSizeError(
            f"launch of {kernel.key}: dim is {sizes[axis]} on axis {axis}; tid() gives int32 indices, "
            f"up to {LARGEST - 1}",
            span=_argument("dim"),
            hint="launch over two axes: `i, j = tid()`, or several times",
        )
    if min(sizes) < 0:
        shown = sizes[0] if len(sizes) == 1 else sizes
        raise LaunchSizeError(
            f"launch of {kernel.key}: dim cannot be negative; got {shown}",
            span=_argument("dim"),
            hint="pass sizes of 0 or more",
        )


def checked(kernel: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the checked arguments, with NumPy arrays wrapped where an array is expected.

    Raises:
        LaunchError: The number of arguments is wrong, or one does not fit its parameter.
    """
    params = kernel.params
    if kernel.flat:
        check_number(kernel, args)
    found = []
    for param, value in zip(params, args, strict=True):
        if isinstance(param.type, types.ArrayType):
            found.append(_array_argument(kernel, param, value))
        else:
            packer(kernel, param)(value)  # type: ignore[misc]
            found.append(value)
    return tuple(found)


def check_pointers(kernel: Any, args: tuple[Any, ...]) -> None:
    """Reject arrays with gaps that are passed to native functions, which receive pointers.

    Raises:
        LaunchError: Such an array is not contiguous.
    """
    for p, function in kernel.analysis.native.items():
        if not args[p].is_contiguous:
            raise LaunchError(
                f"launch of {kernel.key}: the array `{kernel.params[p].name}` is not contiguous, and the "
                f"native function `{function}` sees it as a pointer",
                span=argument_site(kernel.params[p].declared),
                notes=[declared(kernel, kernel.params[p])],
                hint="pass array.contiguous(), or a view without gaps",
            )


def check_number(kernel: Any, args: tuple[Any, ...]) -> None:
    """Reject too few or too many arguments.

    Raises:
        LaunchError: The number of arguments differs from the number of declared parameters.
    """
    params = kernel.signature
    if len(args) == len(params):
        return
    listed = ", ".join(f"{p.name}: {types.type_name(p.type)}" for p in params)
    if len(args) < len(params):
        short = len(params) - len(args)
        gap = _first_gap([p.type for p in params], args, short)
        missing = ", ".join(p.name for p in params[gap : gap + short])
        defaults = kernel.origin.header.args.defaults
        hint = f"pass {missing} too" + (": kernels have no defaults of parameters" if defaults else "")
    else:
        hint = f"leave out the last {len(args) - len(params)}"
    plural = "argument" if len(params) == 1 else "arguments"
    raise LaunchError(
        f"launch of {kernel.key}: it takes {len(params)} {plural} ({listed}); got {len(args)}",
        notes=[declared(kernel)],
        hint=hint,
    )


def _first_gap(wanted: list[Any], args: tuple[Any, ...], short: int) -> int:
    """Return the position of the first of `short` parameters without an argument, by the types of arrays."""
    for place, value in enumerate(args):
        here, later = (getattr(wanted[at], "dtype", None) for at in (place, place + short))
        if isinstance(value, array) and value.dtype is not here and value.dtype is later:
            return place
    return len(args)


def _array_argument(kernel: Any, param: Any, value: Any) -> array:
    wanted: types.ArrayType = param.type
    if value is None and kernel.analysis.absent(param.index):
        return new((0,) * wanted.ndim, wanted.dtype)
    value = _foreign_array(kernel, param, value)
    if isinstance(getattr(value, "kernel_type", None), types.IndexedArrayType):
        raise misfit(
            kernel,
            param,
            f"got {types.type_name(value.kernel_type)} of shape {value.shape}",
            f"pass contiguous(), a copy, or annotate it as {types.type_name(value.kernel_type)}",
        )
    if not isinstance(value, array):
        hint = f"pass array(…, dtype={types.type_name(wanted.dtype)})"
        if value is None:
            hint += f", or ask in the kernel whether it is there: `if {param.name}:`"
        raise misfit(kernel, param, f"got {value_and_type(value)}", hint)
    if value.dtype is not wanted.dtype:
        raise misfit(
            kernel,
            param,
            f"got an array of {types.type_name(value.dtype)} with shape {value.shape}",
            f"make the array with dtype={types.type_name(wanted.dtype)}, or change the annotation",
        )
    if value.ndim != wanted.ndim:
        raise misfit(
            kernel,
            param,
            f"got an array of shape {value.shape}, which has {_dimensions(value.ndim)}",
            f"annotate it as {types.type_name(types.ArrayType(wanted.dtype, value.ndim))}, "
            f"or pass an array of {_dimensions(wanted.ndim)}",
        )
    return value


def _foreign_array(kernel: Any, param: Any, value: Any) -> Any:
    """Return an array over the memory of an array of another library; any other value as it is.

    A tensor of PyTorch is taken as `from_torch` takes it, with its gradient.
    """
    if isinstance(value, array | np.generic) or value is None:  # a number has an __array_interface__, too
        return value
    if isinstance(value, np.ndarray):
        return _wrapped(kernel, param, value)
    if is_tensor(value):
        try:
            return from_torch(value, dtype=param.type.dtype)
        except ArrayError as error:
            shown = f"got a tensor of {value.dtype} with shape {tuple(value.shape)}: {error.message}"
            hint = f"convert it, or make from_torch(…, dtype={types.type_name(param.type.dtype)})"
            raise misfit(kernel, param, shown, hint) from None
    if isinstance(getattr(value, "__array_interface__", None), dict):
        return _wrapped(kernel, param, np.asarray(value))
    if hasattr(value, "__dlpack__"):
        try:
            values = np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            shown = f"got {type(value).__name__}, whose memory cannot be shared ({error})"
            raise misfit(kernel, param, shown, "pass an array that NumPy can share") from None
        return _wrapped(kernel, param, values)
    return value


def is_tensor(value: Any) -> bool:
    """True for tensors of PyTorch, which is not imported for that."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _wrapped(kernel: Any, param: Any, value: np.ndarray[Any, Any]) -> array:
    """Wrap a NumPy array in an array that shares its memory, so that the kernel's writes reach it."""
    wanted: types.ArrayType = param.type
    name = types.type_name(wanted.dtype)
    if value.dtype != types.numpy_dtype(wanted.dtype):
        raise misfit(
            kernel,
            param,
            f"got a NumPy array of {value.dtype} with shape {value.shape}",
            f"convert it with .astype('{types.numpy_dtype(wanted.dtype)}'), or make array(…, dtype={name})",
        )
    try:
        writes = param.index in kernel.analysis.writes
        made: array = array(value, dtype=wanted.dtype, copy=not writes and not value.flags.writeable)
    except ArrayError as error:
        raise misfit(
            kernel,
            param,
            f"got a NumPy array of shape {value.shape}: {error.message}",
            f"make array(…, dtype={name})",
        ) from None
    return made


def packer(kernel: Any, param: Any) -> Packer | None:
    """Return the function that checks a value for `param` and packs it into slots; None for arrays."""
    kind = param.type
    if isinstance(kind, types.ArrayType):
        return None
    scalar = types.scalar_of(kind)
    inner, count = types.value_shape(kind), types.components(kind)

    def one(value: Any) -> Any:
        return _scalar(kernel, param, value, scalar)

    slots = Struct(f"={count}{'d' if scalar in types.FLOATS else 'q'}")
    if not inner:
        return Remembering(lambda value: slots.pack(one(value)), float if scalar in types.FLOATS else int)
    rounded = scalar in types.FLOATS

    def vector(value: Any) -> bytes:
        if rounded and value.__class__ is kind:
            return slots.pack(*value._values.reshape(-1).tolist())
        try:
            parts = tuple(value)
            if len(inner) > 1:  # rows, or all numbers at once
                parts = tuple(n for row in parts for n in (row if np.iterable(row) else (row,)))
        except TypeError:
            raise misfit(
                kernel, param, f"got {value_and_type(value)}", f"pass {types.type_name(kind)}(…)"
            ) from None
        if len(parts) != count:
            raise misfit(
                kernel,
                param,
                f"got {value_and_type(value)}, which has {len(parts)} components",
                f"pass {count} numbers",
            )
        return slots.pack(*map(one, parts))

    return vector


def _scalar(kernel: Any, param: Any, value: Any, scalar: Any) -> Any:
    if scalar in types.FLOATS:
        if isinstance(value, types.bfloat16):
            value = float(cast("SupportsFloat", value))
        if not isinstance(value, int | float | np.floating | np.integer | np.bool_):
            raise misfit(kernel, param, f"got {value_and_type(value)}", "pass a number")
        # Rounded here, so that the float64 twin of a kernel gets the same number as the kernel.
        if scalar in SHORT_FLOATS:
            with np.errstate(over="ignore"):
                return float(scalar(value))
        return ctypes.c_float(float(value)).value if scalar is types.float32 else float(value)
    if scalar is types.bool:
        if not isinstance(value, bool | np.bool_ | int | np.integer):
            raise misfit(kernel, param, f"got {value_and_type(value)}", "pass True or False")
        return int(bool(value))
    try:
        number = operator.index(int(value) if isinstance(value, np.bool_) else value)
    except TypeError:
        whole = isinstance(value, float | np.floating)
        raise misfit(
            kernel,
            param,
            f"got {value_and_type(value)}",
            f"pass int({value!r}), or annotate it as float" if whole else "pass an int",
        ) from None
    low, high = int(_LIMITS[scalar].min), int(_LIMITS[scalar].max)
    if not low <= number <= high:
        raise misfit(
            kernel,
            param,
            f"got {number}, outside {low} … {high}",
            _mend_range(scalar),
        )
    return number - 2**64 if number >= 2**63 else number  # a slot holds an int64


def _mend_range(scalar: Any) -> str:
    narrow = scalar in (types.int8, types.int16, types.int32)
    return "pass a smaller number, or use int64" if narrow else "pass a number in that range"


def misfit(kernel: Any, param: Any, got: str, hint: str) -> LaunchError:
    """Return the error for an argument that does not fit its parameter."""
    return LaunchError(
        f"launch of {kernel.key}: argument {param.name!r} (number {param.declared + 1}) must be "
        f"{types.type_name(param.type)}; {got}",
        span=argument_site(param.declared),
        notes=[declared(kernel, param)],
        hint=hint,
    )


def argument_site(number: int) -> Span:
    """Return the place of an argument of the kernel, counted from 0, in the user's call."""
    return element_span(site_span(call_site()), number)


def _argument(name: str) -> Span:
    """Return the place of an argument of `launch` in the user's call."""
    return argument_span(site_span(call_site()), name)


def declared(kernel: Any, param: Any = None) -> str:
    """Return a note that says where a parameter is declared, or the kernel if none is given."""
    from tapedebug.runtime.messages import declaration

    span = declaration(kernel, param)
    place = f"{display_file(span.file)}:{span.line}"
    if param is None:
        return f"{kernel.key} is defined at {place}"
    text = span.text[span.column : span.end_column if span.end_line == span.line else None]
    return f"{kernel.key} declares it at {place}: {text}"


def _dimensions(count: int) -> str:
    return "1 dimension" if count == 1 else f"{count} dimensions"


def value_and_type(value: Any) -> str:
    """Return the description of an argument for a message: its value, shortened, and its type."""
    shown = repr(value)
    return f"{shown if len(shown) <= 60 else shown[:57] + '...'} ({type(value).__name__})"
