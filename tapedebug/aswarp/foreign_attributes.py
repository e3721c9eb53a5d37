"""Attributes that kernels, modules and types have in Warp, as aliases on the classes of this engine.

Programs and libraries read them (`kernel.adj.args`, `vec3._shape_`). They are set when the first `as_warp`
block begins, and are not used by this engine.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from tapedebug._errors import TapedebugError
from tapedebug.aswarp.cuda_names import MemoryKind, get_stream
from tapedebug.aswarp.graph_capture import is_capturing
from tapedebug.aswarp.type_queries import CTYPES
from tapedebug.compiler.function import Function
from tapedebug.compiler.kernel import Kernel
from tapedebug.compiler.modules import Module
from tapedebug.lang import types as t
from tapedebug.runtime.device import Device, get_devices
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.indexed import indexedarray


class ClassAttribute:
    """An attribute that is computed for the class it is read from."""

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        self.compute = compute

    def __get__(self, instance: object, owner: type) -> Any:
        try:
            return self.compute(owner)
        except (AttributeError, KeyError):
            raise AttributeError(f"{owner.__name__!r} is a family of types, not a type") from None


class Variable(NamedTuple):
    """A parameter of a kernel or function, as `adj.args` lists them."""

    label: str
    type: Any


class FunctionSource:
    """The source of a kernel or function, as `kernel.adj` gives it.

    Attributes:
        func: The Python function.
        fun_name: Its name.
    """

    def __init__(self, owner: Kernel | Function) -> None:
        self.func = owner.python
        self.fun_name = owner.python.__name__
        self._owner = owner

    @property
    def args(self) -> list[Variable]:
        """The parameters, with their names and types."""
        if isinstance(self._owner, Kernel):
            return [Variable(param.name, param.type) for param in self._owner.signature]
        return [Variable(name, kind) for name, kind in self.arg_types.items() if name != "return"]

    @property
    def arg_types(self) -> dict[str, Any]:
        """The annotations of the parameters by their names."""
        return dict(inspect.get_annotations(self.func, eval_str=False))

    @property
    def source(self) -> str:
        """The text of the function."""
        return inspect.getsource(self.func)

    @property
    def fun_lineno(self) -> int:
        """The line on which the function begins, counted from 0 as in Warp."""
        return self.func.__code__.co_firstlineno - 1


def _hash_of(kernels: list[Kernel]) -> bytes:
    """Return a hash of the code that launches of these kernels run, and of their settings."""
    found = hashlib.sha256()
    for kernel in sorted(kernels, key=lambda each: each.key):
        settings = {name: kernel.option(name) for name in ("enable_backward", "max_unroll", "mode")}
        found.update(f"{kernel.key} {settings}".encode())
        versions = [*kernel.instances.values()] if kernel.is_generic else [kernel]
        for version in versions:
            try:
                code = version.source("forward")
            except TapedebugError as error:  # only its launch is an error
                code = str(error)
            found.update(code.encode())
    return found.digest()


def _overloads(kernel: Kernel) -> dict[Any, Kernel]:
    """Return the versions of a generic kernel by their types in words."""
    return {
        tuple(t.type_name(kind) for kind in types): version for types, version in kernel.instances.items()
    }


def _memory(pages: str) -> int:
    """Return a number of bytes of main memory; 0 where the system does not say it."""
    try:
        return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 0


GENERIC_NAMES = {"vector": "vec_t", "matrix": "mat_t", "quaternion": "quat_t", "transform": "transform_t"}
"""Warp's names for the kinds of compound types."""


@cache
def install() -> None:
    """Set the attributes, once."""
    compound: Any = t.Compound
    compound._shape_ = ClassAttribute(lambda kind: kind.shape)
    compound._length_ = ClassAttribute(lambda kind: kind.length)
    compound._wp_scalar_type_ = ClassAttribute(lambda kind: kind.scalar)
    compound._wp_generic_type_str_ = ClassAttribute(lambda kind: GENERIC_NAMES[kind.word])
    compound._type_ = ClassAttribute(lambda kind: CTYPES[kind.scalar])
    scalar: Any = t.Scalar
    scalar._type_ = ClassAttribute(lambda kind: CTYPES[kind])
    scalar._length_ = 1
    kernel: Any = Kernel
    kernel.adj = property(FunctionSource)
    kernel.func = property(lambda self: self.python)
    kernel.overloads = property(_overloads)
    function: Any = Function
    function.adj = property(FunctionSource)
    function.func = property(lambda self: self.python)
    function.key = property(lambda self: self.name)
    device: Any = Device
    device.arch = device.sm_count = 0
    device.can_access = lambda self, other: other in get_devices()
    device.is_capturing = property(lambda self: is_capturing())
    device.is_mempool_enabled = device.is_mempool_supported = False
    device.is_uva = False
    device.total_memory = property(lambda self: _memory("SC_PHYS_PAGES"))
    device.free_memory = property(lambda self: _memory("SC_AVPHYS_PAGES"))
    arrays: tuple[Any, ...] = (array, indexedarray)
    for kind in arrays:
        kind.memory_kind = MemoryKind.HOST
    device.max_shared_memory_per_block = 0
    device.stream = property(get_stream)
    module: Any = Module
    module.hash_module = lambda self: _hash_of(self.alive())
    module.get_module_hash = lambda self, block_dim=None: _hash_of(self.alive())
