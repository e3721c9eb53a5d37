"""A small stand-in for NVIDIA Warp: kernels, functions and types with the attributes that the mirror reads.

With it the translation of kernels is tested where Warp is not installed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

OPTIONS = {"enable_backward": True, "max_unroll": 16}


def _of_warp(name: str, *bases: type, **content: Any) -> Any:
    return type(name, bases or (object,), {"__module__": "warp._src.types", **content})


SCALARS = {name: _of_warp(name) for name in ("float16", "float32", "float64", "int32", "Texture3D")}
float32, int32 = SCALARS["float32"], SCALARS["int32"]


def vector(length: int, dtype: Any) -> Any:
    return _of_warp(
        "vec_t", _wp_generic_type_str_="vec_t", _wp_type_params_=(length, dtype), _shape_=(length,)
    )


vec3 = vector(3, float32)


class _Array:
    def __init__(self, dtype: Any = float, ndim: int = 1) -> None:
        self.dtype = {float: float32, int: int32}.get(dtype, dtype)
        self.ndim, self.device, self.ptr = ndim, None, None


array = _of_warp("array", _Array)


class _Adjoint:
    def __init__(self, func: Callable[..., Any], source: str | None = None) -> None:
        self.source = source if source is not None else inspect.getsource(func)
        self.transformers: list[Any] = []
        self.arg_types = dict(inspect.get_annotations(func, eval_str=True))
        self.resolved_static_expressions: dict[str, Any] = {}


class _Function:
    def __init__(self, func: Callable[..., Any] | None, key: str, **more: Any) -> None:
        self.func, self.key, self.generic_parent = func, key, None
        self.native_snippet: str | None = None
        self.custom_grad_func: Any = None
        self.custom_replay_func: Any = None
        self.user_overloads: dict[str, Any] = {"": self} if func is not None else {}
        self.user_templates: dict[str, Any] = {}
        if func is not None:
            self.adj = _Adjoint(func)

    def is_builtin(self) -> bool:
        return self.func is None


Function = _of_warp("Function", _Function)


class _Kernel:
    def __init__(self, func: Callable[..., Any], source: str | None = None) -> None:
        self.func, self.key, self.is_generic = func, func.__name__, False
        self.adj = _Adjoint(func, source)
        self.options: dict[str, Any] = {}
        self.module = SimpleNamespace(options=dict(OPTIONS))


Kernel = _of_warp("Kernel", _Kernel)


def func(python: Callable[..., Any]) -> Any:
    return Function(python, python.__name__)


def func_native(snippet: str) -> Callable[[Callable[..., Any]], Any]:
    def decorate(python: Callable[..., Any]) -> Any:
        made = func(python)
        made.native_snippet = snippet
        return made

    return decorate


def func_grad(function: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorate(python: Callable[..., Any]) -> Callable[..., Any]:
        function.custom_grad_func = Function(python, function.key)
        return python

    return decorate


kernel = Kernel

warp = ModuleType("warp")
warp.__dict__.update(
    array=array,
    **SCALARS,
    vec3=vec3,
    types=ModuleType("warp.types"),
    **{name: Function(None, name) for name in ("tid", "dot", "sin", "float", "tile_load")},
)
warp.types.__dict__.update(vec3=vec3, vector=vector)
