"""The library of generated code for Numba: each function embeds the same LLVM instructions (`llvm.library`).

Imported only when something is compiled with Numba. Nothing refers to Numba's runtime: the object code runs
without it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils, compiler, registry
from numba.core.errors import LoweringError

from tapedebug.compiler.llvm.library import LIBRARY, NATIVES, call_of, module_of
from tapedebug.lang.lowering import FUNCTIONS, Misfit

SCALARS = {
    "f32": types.float32,
    "f64": types.float64,
    "i8": types.int8,
    "u8": types.uint8,
    "i16": types.int16,
    "u16": types.uint16,
    "i32": types.int32,
    "u32": types.uint32,
    "i64": types.int64,
    "u64": types.uint64,
    "b1": types.boolean,
}
TYPES = SCALARS | {f"*{code}": types.CPointer(kind) for code, kind in SCALARS.items()} | {"void": types.void}
CODES = {kind: code for code, kind in TYPES.items()}


def intrinsic(generator: Callable[..., Any]) -> Callable[..., Any]:
    """Numba's decorator, with a type."""
    function: Callable[..., Any] = extending.intrinsic(generator)
    return function


used: dict[str, str] = {}
"""The functions of the library that compiled code refers to, by symbol, in LLVM assembly."""


@intrinsic
def stack_new(context: Any) -> Any:
    """An empty stack."""

    def generate(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        word = ir.IntType(64)
        stack = cgutils.alloca_once(b, word, size=word(2))
        b.store(word(0), stack)
        b.store(word(0), b.gep(stack, [word(1)]))
        return stack

    return types.CPointer(types.int64)(), generate


def embedded(name: str) -> Callable[..., Any]:
    """A function of the library as an intrinsic: a call of a function that holds its instructions."""

    def typed(*operands: Any) -> Any:
        codes = tuple(CODES.get(o, "?") for o in operands)
        try:
            call = call_of(name, codes)
        except Misfit:
            return None

        def generate(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
            symbol = "library." + "_".join((name, *codes)).replace("*", "p")
            used[symbol] = module_of(name, codes, symbol)
            kinds = [ctx.get_value_type(o) for o in sig.args]
            result = ir.VoidType() if call.result == "void" else ctx.get_value_type(sig.return_type)
            function = cgutils.get_or_insert_function(b.module, ir.FunctionType(result, kinds), symbol)
            value = b.call(function, values)
            return ctx.get_dummy_value() if call.result == "void" else value

        return TYPES[call.result](*operands), generate

    # Numba wants the number of operands from the signature.
    names = [f"x{place}" for place in range(arity(name))]
    scope = {"typed": typed}
    return intrinsic(eval(f"lambda {', '.join(['context', *names])}: typed({', '.join(names)})", scope))


def arity(name: str) -> int:
    """The number of operands of a function of generated text."""
    if name in FUNCTIONS:
        return FUNCTIONS[name].arity
    parameters = inspect.signature(LIBRARY.get(name) or NATIVES[name]).parameters.values()
    return sum(p.default is p.empty for p in parameters)


def namespace() -> dict[str, Any]:
    """The names that generated code uses."""
    names: dict[str, Any] = {"nan": math.nan, "inf": math.inf, "stack_new": stack_new}
    for code in SCALARS.keys() - {"i64", "b1"}:  # literals are these
        names[code] = {"f32": np.float32, "f64": np.float64}.get(code) or getattr(
            np, f"{'u' * (code[0] == 'u')}int{code[1:]}"
        )
    return names | {name: embedded(name) for name in (*LIBRARY, *FUNCTIONS)}


NAMESPACE: dict[str, Callable[..., Any]] = namespace()


def assembly_of(entry: Callable[..., None]) -> tuple[str, list[str]]:
    """Return the symbol of a generated function, and LLVM assembly of Numba to be linked into one module."""
    used.clear()
    operands = (types.int64, types.int64, types.CPointer(types.int64))
    symbol, modules = compiled_by_numba(entry, operands, error_model="numpy")
    return symbol, [*modules, *used.values()]


MANGLED = "_ZN"
"""The prefix of functions that Numba compiles."""


def compiled_by_numba(
    function: Callable[..., None], operands: tuple[Any, ...], *, error_model: str
) -> tuple[str, list[str]]:
    """Return the symbol of a function without a result, and LLVM assembly of it and of what it calls.

    Numba links the functions of its own that it calls when it loads code; here they stand beside it.

    Raises:
        NumbaError: It cannot be compiled.
    """
    registry.cpu_target.typing_context.refresh()
    registry.cpu_target.target_context.refresh()
    flags = compiler.Flags()
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.error_model = error_model
    result = compiler.compile_extra(
        registry.cpu_target.typing_context,
        registry.cpu_target.target_context,
        function,
        operands,
        types.void,
        flags,
        {},
    )
    beside = {id(other): other for other in result.library._linking_libraries}
    modules = [result.library._final_module, *(other._get_module_for_linking() for other in beside.values())]
    functions = [function for module in modules for function in module.functions]
    defined = {function.name for function in functions if not function.is_declaration}
    missing = {f.name for f in functions if f.name.startswith(MANGLED)} - defined
    if missing:  # LLVM would call address 0
        raise LoweringError(f"Numba did not give the code of {', '.join(sorted(missing))}")
    return result.fndesc.llvm_func_name, [str(module) for module in modules]
