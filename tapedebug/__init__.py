"""A gradient debugger for differentiable kernels, with its own tape engine: `import tapedebug as wp`.

The engine (kernels, arrays, launches, tapes) is light and is imported with the package; compiler, plotting
and notebook integration are imported on first use.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from tapedebug._errors import ArrayError as ArrayError
from tapedebug._errors import BoundsError as BoundsError
from tapedebug._errors import DeviceError as DeviceError
from tapedebug._errors import GradcheckError as GradcheckError
from tapedebug._errors import KernelAssertionError as KernelAssertionError
from tapedebug._errors import KernelError as KernelError
from tapedebug._errors import KernelNameError as KernelNameError
from tapedebug._errors import KernelRaisedError as KernelRaisedError
from tapedebug._errors import KernelSyntaxError as KernelSyntaxError
from tapedebug._errors import KernelTypeError as KernelTypeError
from tapedebug._errors import LaunchError as LaunchError
from tapedebug._errors import NonFiniteError as NonFiniteError
from tapedebug._errors import OverwriteError as OverwriteError
from tapedebug._errors import OverwriteWarning as OverwriteWarning
from tapedebug._errors import TapedebugError as TapedebugError
from tapedebug._errors import TapedebugWarning as TapedebugWarning
from tapedebug._errors import TapeError as TapeError
from tapedebug.compiler.decorators import func as func
from tapedebug.compiler.decorators import func_grad as func_grad
from tapedebug.compiler.decorators import func_replay as func_replay
from tapedebug.compiler.decorators import kernel as kernel
from tapedebug.compiler.function import func_native as func_native
from tapedebug.compiler.function import grad as grad
from tapedebug.compiler.kernel import Kernel as Kernel
from tapedebug.compiler.overloads import overload as overload
from tapedebug.lang import types as types
from tapedebug.lang.builtins import BUILTINS, CONSTANTS, Builtin
from tapedebug.lang.builtins import adjoint as adjoint
from tapedebug.lang.builtins import constant as constant
from tapedebug.lang.builtins import static as static
from tapedebug.lang.structs import struct as struct
from tapedebug.lang.types import Float as Float
from tapedebug.lang.types import Int as Int
from tapedebug.lang.types import bfloat16 as bfloat16
from tapedebug.lang.types import bool as bool
from tapedebug.lang.types import float16 as float16
from tapedebug.lang.types import float32 as float32
from tapedebug.lang.types import float64 as float64
from tapedebug.lang.types import int8 as int8
from tapedebug.lang.types import int16 as int16
from tapedebug.lang.types import int32 as int32
from tapedebug.lang.types import int64 as int64
from tapedebug.lang.types import mat22 as mat22
from tapedebug.lang.types import mat22d as mat22d
from tapedebug.lang.types import mat22f as mat22f
from tapedebug.lang.types import mat33 as mat33
from tapedebug.lang.types import mat33d as mat33d
from tapedebug.lang.types import mat33f as mat33f
from tapedebug.lang.types import mat44 as mat44
from tapedebug.lang.types import mat44d as mat44d
from tapedebug.lang.types import mat44f as mat44f
from tapedebug.lang.types import quat as quat
from tapedebug.lang.types import quatd as quatd
from tapedebug.lang.types import quatf as quatf
from tapedebug.lang.types import ref as ref
from tapedebug.lang.types import spatial_matrix as spatial_matrix
from tapedebug.lang.types import spatial_matrixd as spatial_matrixd
from tapedebug.lang.types import spatial_matrixf as spatial_matrixf
from tapedebug.lang.types import spatial_vector as spatial_vector
from tapedebug.lang.types import spatial_vectord as spatial_vectord
from tapedebug.lang.types import spatial_vectorf as spatial_vectorf
from tapedebug.lang.types import transform as transform
from tapedebug.lang.types import transformd as transformd
from tapedebug.lang.types import transformf as transformf
from tapedebug.lang.types import uint8 as uint8
from tapedebug.lang.types import uint16 as uint16
from tapedebug.lang.types import uint32 as uint32
from tapedebug.lang.types import uint64 as uint64
from tapedebug.lang.types import vec2 as vec2
from tapedebug.lang.types import vec2d as vec2d
from tapedebug.lang.types import vec2f as vec2f
from tapedebug.lang.types import vec2i as vec2i
from tapedebug.lang.types import vec3 as vec3
from tapedebug.lang.types import vec3d as vec3d
from tapedebug.lang.types import vec3f as vec3f
from tapedebug.lang.types import vec3i as vec3i
from tapedebug.lang.types import vec4 as vec4
from tapedebug.lang.types import vec4d as vec4d
from tapedebug.lang.types import vec4f as vec4f
from tapedebug.lang.types import vec4i as vec4i
from tapedebug.runtime import Launch as Launch
from tapedebug.runtime import ScopedDevice as ScopedDevice
from tapedebug.runtime import ScopedTimer as ScopedTimer
from tapedebug.runtime import Tape as Tape
from tapedebug.runtime import array as array
from tapedebug.runtime import array1d as array1d
from tapedebug.runtime import array2d as array2d
from tapedebug.runtime import array3d as array3d
from tapedebug.runtime import array4d as array4d
from tapedebug.runtime import capabilities as _capabilities
from tapedebug.runtime import clear_kernel_cache as clear_kernel_cache
from tapedebug.runtime import clone as clone
from tapedebug.runtime import config as config
from tapedebug.runtime import copy as copy
from tapedebug.runtime import device_from_jax as device_from_jax
from tapedebug.runtime import device_from_torch as device_from_torch
from tapedebug.runtime import device_to_jax as device_to_jax
from tapedebug.runtime import device_to_torch as device_to_torch
from tapedebug.runtime import dtype_from_jax as dtype_from_jax
from tapedebug.runtime import dtype_from_numpy as dtype_from_numpy
from tapedebug.runtime import dtype_from_torch as dtype_from_torch
from tapedebug.runtime import dtype_to_jax as dtype_to_jax
from tapedebug.runtime import dtype_to_numpy as dtype_to_numpy
from tapedebug.runtime import dtype_to_torch as dtype_to_torch
from tapedebug.runtime import empty as empty
from tapedebug.runtime import empty_like as empty_like
from tapedebug.runtime import force_load as force_load
from tapedebug.runtime import from_dlpack as from_dlpack
from tapedebug.runtime import from_jax as from_jax
from tapedebug.runtime import from_numpy as from_numpy
from tapedebug.runtime import from_ptr as from_ptr
from tapedebug.runtime import from_torch as from_torch
from tapedebug.runtime import full as full
from tapedebug.runtime import full_like as full_like
from tapedebug.runtime import get_cuda_device_count as get_cuda_device_count
from tapedebug.runtime import get_device as get_device
from tapedebug.runtime import get_devices as get_devices
from tapedebug.runtime import get_module as get_module
from tapedebug.runtime import get_module_options as get_module_options
from tapedebug.runtime import get_preferred_device as get_preferred_device
from tapedebug.runtime import indexedarray as indexedarray
from tapedebug.runtime import indexedarray1d as indexedarray1d
from tapedebug.runtime import indexedarray2d as indexedarray2d
from tapedebug.runtime import indexedarray3d as indexedarray3d
from tapedebug.runtime import indexedarray4d as indexedarray4d
from tapedebug.runtime import init as init
from tapedebug.runtime import is_cpu_available as is_cpu_available
from tapedebug.runtime import is_cuda_available as is_cuda_available
from tapedebug.runtime import launch as launch
from tapedebug.runtime import launch_python as launch_python
from tapedebug.runtime import live_tapes as live_tapes
from tapedebug.runtime import load_module as load_module
from tapedebug.runtime import map as map
from tapedebug.runtime import ones as ones
from tapedebug.runtime import ones_like as ones_like
from tapedebug.runtime import set_device as set_device
from tapedebug.runtime import set_module_options as set_module_options
from tapedebug.runtime import synchronize as synchronize
from tapedebug.runtime import synchronize_device as synchronize_device
from tapedebug.runtime import to_dlpack as to_dlpack
from tapedebug.runtime import to_jax as to_jax
from tapedebug.runtime import to_torch as to_torch
from tapedebug.runtime import zeros as zeros
from tapedebug.runtime import zeros_like as zeros_like

# The functions and numbers that kernels use by name (`sin`, `dot`, `tid`, `pi`, …), from the rule table.
globals().update(BUILTINS)
globals().update(CONSTANTS)
# The types with their other suffixes: `vec3ui`, `vec2s`, …
globals().update(types.NAMED)
Scalar = types.Number

_LAZY = {
    "autograd": ("tapedebug.autograd", None),
    "visualize": ("tapedebug.visualize", None),
    "notebook": ("tapedebug.notebook", None),
    "optim": ("tapedebug.optim", None),
    "torch": ("tapedebug.torch", None),
    "jax": ("tapedebug.jax", None),
    "diff": ("tapedebug.report", "diff"),
    "as_warp": ("tapedebug.aswarp", "as_warp"),
    "GradientError": ("tapedebug.diagnose", "GradientError"),
    "TapeDebugger": ("tapedebug.notebook", "TapeDebugger"),
    "load_ipython_extension": ("tapedebug.notebook", "load_ipython_extension"),
    "watch_warp": ("tapedebug.watch", "watch_warp"),
}
"""Names that are imported on first use: (module, attribute, or None for the module itself)."""


def _load_capabilities_for_warp() -> None:
    """Register what tapes can tell about programs that were written for Warp."""
    from tapedebug.aswarp import capability_providers as capability_providers


_capabilities.LOADERS.append(_load_capabilities_for_warp)


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        module, attribute = _LAZY[name]
        loaded = importlib.import_module(module)
        value = loaded if attribute is None else getattr(loaded, attribute)
    elif name == "__version__":
        from tapedebug._version import installed_version

        value = installed_version()
    elif name.startswith("__"):
        raise AttributeError(f"module 'tapedebug' has no attribute {name!r}")
    else:
        from tapedebug._unsupported import missing

        raise AttributeError(missing(name, __dir__()))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, "diagnose", "report", "__version__"})


class _Trace(Builtin):
    """The matrix trace in kernels; in scripts also the package of traces: `tapedebug.trace.load_trace(…)`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"{self!r} has no attribute {name!r}")
        return getattr(importlib.import_module("tapedebug.trace"), name)


_trace = _Trace("trace", str(BUILTINS["trace"].__doc__))


class _Package(ModuleType):
    """`tapedebug.diagnose`, `report` and `trace` are functions, in packages of the same name.

    Importing such a package sets it as an attribute of this one; these properties keep the functions there.
    """

    @property
    def diagnose(self) -> Any:
        """The function `diagnose(tape)`, which finds errors in its gradients."""
        return importlib.import_module("tapedebug.diagnose").diagnose

    @diagnose.setter
    def diagnose(self, module: object) -> None:
        """The import system announces the package."""

    @property
    def trace(self) -> Any:
        """The kernel function `trace`, with all attributes of the package `tapedebug.trace`."""
        return _trace

    @trace.setter
    def trace(self, module: object) -> None:
        """The import system announces the package."""

    @property
    def report(self) -> Any:
        """The function `report(obj, path)`, which writes one HTML file."""
        return importlib.import_module("tapedebug.report").report

    @report.setter
    def report(self, module: object) -> None:
        """The import system announces the package."""


sys.modules[__name__].__class__ = _Package
