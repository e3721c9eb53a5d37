"""Zero-copy exchange of memory with DLPack, PyTorch and JAX, and conversion of their dtypes and devices.

A write to a tensor is visible in an array of the same memory, and vice versa. Tapes detect writes through
tensors as they detect those through NumPy: values in memory that others can write are copied and compared.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from tapedebug._errors import ArrayError, DeviceError
from tapedebug.lang import types
from tapedebug.runtime.device import CPU, Device, get_device
from tapedebug.runtime.memory import convert
from tapedebug.runtime.memory.array import array, make
from tapedebug.runtime.memory.buffer import Buffer
from tapedebug.runtime.memory.construct import from_pointer
from tapedebug.runtime.tape.gradient_history import note_read
from tapedebug.runtime.tape.imported_arrays import arrived


class _Capsule:
    """A wrapper that makes a bare DLPack capsule an object of the protocol."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def from_dlpack(source: Any, dtype: Any = None) -> array:
    """Return an array over the memory of an object with `__dlpack__` or of a DLPack capsule, without a copy.

    Args:
        source: A tensor of another library, on the CPU.
        dtype: Element type; by default the scalar type of `source`. A vector or matrix type takes the last
            one or two dimensions.

    Raises:
        ArrayError: `source` cannot be shared, or does not fit `dtype`.
    """
    return _came_in(_from_dlpack(source, dtype), "from_dlpack")


def _from_dlpack(source: Any, dtype: Any) -> array:
    capsule = type(source).__name__ == "PyCapsule"
    if not capsule and not hasattr(source, "__dlpack__"):
        raise ArrayError(
            f"from_dlpack: {type(source).__name__} has no __dlpack__", hint="pass a tensor, or a capsule"
        )
    try:
        seen = np.from_dlpack(_Capsule(source) if capsule else source)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ArrayError(
            f"from_dlpack: a {type(source).__name__} cannot be shared: {error}",
            hint="pass a tensor in CPU memory, detached from its gradient",
        ) from None
    return _shared(seen, dtype, "from_dlpack")


def _came_in(made: array, how: str, tensor: Any = None) -> array:
    """Record on an active tape that an array was imported; return the array."""
    arrived(made, how, tensor=tensor)
    return made


def to_dlpack(a: array) -> Any:
    """Return a DLPack capsule of the memory of `a`; vector elements are a last dimension."""
    return a.__dlpack__()


def _shared(values: np.ndarray[Any, Any], dtype: Any, what: str, buffer: Buffer | None = None) -> array:
    """Return an array over the memory of another library's NumPy view, writable or not."""
    scalar: Any = types.from_numpy(values.dtype)
    if scalar is None:
        raise ArrayError(
            f"{what}: elements of {values.dtype} have no type in the kernel language",
            hint="convert them first",
        )
    kept: Any = scalar if dtype is None else convert.element_type(dtype, what)
    if types.numpy_dtype(kept).itemsize != values.dtype.itemsize or (
        types.is_float(kept) != types.is_float(scalar)
    ):
        raise ArrayError(
            f"{what}: elements of {scalar.__name__} are not those of {types.type_name(kept)}",
            hint="convert the tensor first, or pass another dtype",
        )
    inner = types.value_shape(kept)
    rank = values.ndim - len(inner)
    steps = convert.contiguous_strides(inner, values.dtype.itemsize)
    if rank < 0 or values.shape[rank:] != inner or (values.size and values.strides[rank:] != steps):
        raise ArrayError(
            f"{what}: shape {values.shape} with strides {values.strides} holds no {types.type_name(kept)}: "
            f"its last dimensions must be {inner}, side by side",
            hint=f"pass a contiguous tensor of shape (…, {', '.join(map(str, inner))})",
        )
    if rank == 0:
        raise ArrayError(
            f"{what}: a tensor without dimensions is no array",
            hint="pass tensor.reshape(1), which shares its memory",
        )
    address = values.__array_interface__["data"][0]
    if buffer is not None:
        return make(buffer, address, kept, values.shape[:rank], values.strides[:rank])
    return from_pointer(address, values.shape[:rank], kept, values.strides[:rank], owner=values)


# PyTorch ---------------------------------------------------------------------------------------------------


def from_torch(
    t: Any,
    dtype: Any = None,
    requires_grad: bool | None = None,
    grad: Any = None,
    return_ctype: bool = False,
    retain_grad: bool = False,
) -> array:
    """Return an array over the memory of a PyTorch tensor on the CPU, without a copy.

    With `requires_grad`, the gradient of a leaf is shared too: the adjoints that `Tape.backward` adds appear
    in `t.grad` (which is created with zeros if the tensor has none). Inside a `torch.autograd.Function` and
    under `torch.no_grad()` the array has a separate gradient, because PyTorch itself adds the result of
    `backward`.

    Args:
        t: The tensor.
        dtype: Element type; by default the tensor's. A vector or matrix type takes the last one or two
            dimensions.
        requires_grad: By default that of the tensor.
        grad: A tensor or array for the gradient, in place of `t.grad`.
        return_ctype: Has no effect: launches take the array itself, which is as fast as a descriptor.
        retain_grad: Keep the gradient after `Tape.backward`.

    Raises:
        ArrayError: The tensor cannot be shared, or does not fit `dtype`.
        DeviceError: The tensor is not in CPU memory.
    """
    torch = _library("torch", "from_torch")
    if not isinstance(t, torch.Tensor):
        raise ArrayError(f"from_torch: {type(t).__name__} is not a tensor", hint="pass a torch.Tensor")
    if t.device.type != "cpu":
        raise DeviceError(
            f"from_torch: the tensor is on {t.device}", hint="pass tensor.cpu(), which is a copy"
        )
    wanted = t.requires_grad if requires_grad is None else requires_grad
    shares = torch.is_grad_enabled() and t.is_leaf
    made = over_tensor(t, dtype, private=wanted and not shares)
    made.retain_grad = retain_grad
    if grad is not None:
        made.grad = grad if isinstance(grad, array) else from_torch(grad, dtype, requires_grad=False)
    elif wanted and types.is_float(made.dtype):
        made.requires_grad = True
        if shares:
            _share_gradient(torch, t, made, dtype)
    recorded = t.grad_fn is not None and torch.is_grad_enabled() and grad is None
    return _came_in(made, "from_torch", t if recorded else None)


def over_tensor(t: Any, dtype: Any, private: bool = False) -> array:
    """Return an array over the memory of a tensor; its buffer spans the tensor's whole storage."""
    try:
        values = t.detach().numpy()
    except (TypeError, RuntimeError) as error:
        raise ArrayError(
            f"from_torch: a tensor of {t.dtype} cannot be shared: {error}", hint="convert the tensor first"
        ) from None
    storage = t.untyped_storage()
    buffer = Buffer.at(storage.data_ptr(), storage.nbytes(), storage, private=private)
    return _shared(values, dtype, "from_torch", buffer)


def _share_gradient(torch: Any, t: Any, made: array, dtype: Any) -> None:
    """Share one gradient: the tensor's memory if it matches the array's buffer, else the array's memory."""
    theirs = torch.zeros_like(t, requires_grad=False) if t.grad is None else t.grad
    gradient = over_tensor(theirs, dtype)
    if made.buffer.adjoint is None or made.buffer.adjoint is gradient.buffer:
        made.grad = gradient
        gradient.buffer.handed_over = False  # it is the tensor's own gradient, as the array's is its own
    own = made.grad
    assert own is not None
    if (own.ptr, own.strides) != (gradient.ptr, gradient.strides):
        own.assign(gradient)
        theirs = torch.from_numpy(own.numpy())
    if t.grad is not theirs:
        t.grad = theirs


def to_torch(a: array, requires_grad: bool | None = None) -> Any:
    """Return a PyTorch tensor over the memory of `a`, without a copy; vector elements are a last dimension.

    Args:
        a: The array.
        requires_grad: By default that of `a`. The tensor's `grad` shares the memory of the array's gradient.

    Raises:
        ArrayError: PyTorch is not installed, or `a` has a negative stride.
    """
    torch = _library("torch", "to_torch")
    if not isinstance(a, array):
        raise ArrayError(f"to_torch: {a!r} is not an array", hint="pass an array")
    if any(s < 0 for s in a.strides):
        raise ArrayError(
            f"to_torch: tensors have no negative strides; the array has {a.strides}",
            hint="pass contiguous(), which is a copy",
        )
    if types.is_struct(a.dtype):
        raise ArrayError(
            f"to_torch: tensors have no elements of {types.type_name(a.dtype)}",
            hint="pass the arrays of its fields",
        )
    note_read(a, "to_torch")
    made = torch.from_numpy(a._shared())
    if (a.requires_grad if requires_grad is None else requires_grad) and types.is_float(a.dtype):
        made.requires_grad_(True)
        if a.requires_grad:
            assert a.grad is not None
            made.grad = torch.from_numpy(a.grad.numpy())
    return made


# JAX -------------------------------------------------------------------------------------------------------


def from_jax(jax_array: Any, dtype: Any = None) -> array:
    """Return an array over the memory of a JAX array on the CPU, without a copy.

    JAX assumes that its arrays are constant: only read the array in kernels, and write to a `clone`.

    Args:
        jax_array: The array.
        dtype: Element type; by default that of `jax_array`. A vector or matrix type takes the last one or two
            dimensions.

    Raises:
        ArrayError: The array cannot be shared, or does not fit `dtype`.
    """
    _library("jax", "from_jax")
    return _came_in(_from_dlpack(jax_array, dtype), "from_jax")


def to_jax(a: array) -> Any:
    """Return a JAX array over the memory of `a`, without a copy; vector elements are a last dimension.

    JAX assumes that its arrays are constant: do not change `a` while the JAX array is in use.

    Raises:
        ArrayError: JAX is not installed.
    """
    jax = _library("jax", "to_jax")
    _library("jax.dlpack", "to_jax")
    shown = a.contiguous()
    note_read(shown, "to_jax")
    return jax.dlpack.from_dlpack(shown._shared())


# Names of types and devices --------------------------------------------------------------------------------


def dtype_from_numpy(numpy_dtype: Any) -> Any:
    """Return the scalar type of a NumPy dtype."""
    return _scalar(np.dtype(numpy_dtype), numpy_dtype)


def dtype_to_numpy(dtype: Any) -> np.dtype[Any]:
    """Return the NumPy dtype of a scalar type, or of the components of a vector type."""
    return types.numpy_dtype(convert.element_type(dtype, "dtype_to_numpy"))


def dtype_from_torch(torch_dtype: Any) -> Any:
    """Return the scalar type of a PyTorch dtype."""
    torch = _library("torch", "dtype_from_torch")
    try:
        return _scalar(torch.empty(0, dtype=torch_dtype).numpy().dtype, torch_dtype)
    except TypeError:
        raise _no_type(torch_dtype) from None


def dtype_to_torch(dtype: Any) -> Any:
    """Return the PyTorch dtype of a scalar type, or of the components of a vector type."""
    torch = _library("torch", "dtype_to_torch")
    return torch.from_numpy(
        np.empty(0, types.numpy_dtype(convert.element_type(dtype, "dtype_to_torch")))
    ).dtype


def dtype_from_jax(jax_dtype: Any) -> Any:
    """Return the scalar type of a JAX dtype."""
    return _scalar(np.dtype(jax_dtype), jax_dtype)


def dtype_to_jax(dtype: Any) -> Any:
    """Return the JAX dtype of a scalar type, or of the components of a vector type."""
    numpy = _library("jax.numpy", "dtype_to_jax")
    return getattr(numpy, types.numpy_dtype(convert.element_type(dtype, "dtype_to_jax")).name)


def device_from_torch(torch_device: Any) -> Device:
    """Return the device that corresponds to a PyTorch device or its name."""
    return get_device(str(torch_device))


def device_to_torch(device: Any) -> str:
    """Return PyTorch's name of a device."""
    return get_device(device).alias


def device_from_jax(jax_device: Any) -> Device:
    """Return the device that corresponds to a JAX device."""
    return CPU if getattr(jax_device, "platform", "") == "cpu" else get_device(str(jax_device))


def device_to_jax(device: Any) -> Any:
    """Return the JAX device that corresponds to a device."""
    return _library("jax", "device_to_jax").devices(get_device(device).alias)[0]


def _scalar(found: np.dtype[Any], asked: Any) -> Any:
    scalar = types.from_numpy(found)
    if scalar is None:
        raise _no_type(asked)
    return scalar


def _no_type(asked: Any) -> ArrayError:
    listed = ", ".join(s.__name__ for s in types.SCALARS)
    return ArrayError(f"{asked} has no type in the kernel language ({listed})", hint="convert the data first")


def _library(name: str, what: str) -> Any:
    """Import an optional library on first use."""
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise ArrayError(
            f"{what}: the package {package!r} is not installed", hint=f"install it: pip install {package}"
        ) from None
