"""Compile generated text to machine code once; later it comes from the cache."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from tapedebug import _time_limit
from tapedebug._config import config
from tapedebug.compiler import objects
from tapedebug.lang.lowering import Misfit

if TYPE_CHECKING:
    import ast

    from tapedebug.compiler.generated_source import GeneratedSource, SimdLoop


optimization = 3
"""LLVM's level of optimization for kernels. Tests marked `unoptimized` set 0, which compiles long code many
times as fast."""


class CompilerError(Exception):
    """Generated code that is refused: a bug of this compiler; carries the code and what is wrong with it."""


def with_llvm(code: str, symbol: str, lanes: SimdLoop | None = None, level: int = 3) -> bytes:
    """Object code of a generated text, translated to LLVM directly; where it can be, in lanes if asked for.

    Raises:
        CompilerError: The text was refused.
    """
    from tapedebug._syntax import parsed
    from tapedebug.compiler.llvm.expressions import TranslationError
    from tapedebug.compiler.llvm.machine import object_code
    from tapedebug.compiler.llvm.simd.gathered_indices import has_plain
    from tapedebug.compiler.llvm.translate import translated
    from tapedebug.compiler.llvm.vectorizer_limits import is_searchable
    from tapedebug.compiler.numba_versions import linked_with

    tree = parsed(code)
    assembly = None if lanes is None else _in_lanes(tree, symbol, lanes)
    if assembly is not None:
        plain = has_plain(assembly)
        return object_code(assembly, *linked_with(code), vectorise=plain, lanes=True, level=level)
    try:
        modules = translated(tree, symbol), *linked_with(code)
        return object_code(*modules, searchable=level > 0 and is_searchable(tree), level=level)
    except (TranslationError, Misfit, RuntimeError) as error:
        raise CompilerError(f"the generated code was refused:\n{code}\n{error}") from None


def _in_lanes(tree: ast.Module, symbol: str, lanes: SimdLoop) -> str | None:
    """LLVM assembly in lanes; None where something has no form in lanes, or is not worth it."""
    from tapedebug.compiler.llvm.expressions import TranslationError
    from tapedebug.compiler.llvm.simd.vectorize import vectorize

    try:
        return vectorize(tree, symbol, lanes)
    except TranslationError:
        return None


def is_in_lanes(text: GeneratedSource) -> bool:
    """True if a generated function is compiled to vector code, one thread a lane."""
    from tapedebug._syntax import parsed

    return text.lanes is not None and _in_lanes(parsed(text.code), "entry", text.lanes) is not None


WRAPPER = """declare i32 @{inner}(ptr, ptr, i64, i64, ptr)
define void @{symbol}(i64 %lo, i64 %hi, ptr %args) {{
  %result = alloca ptr
  %exception = alloca ptr
  %status = call i32 @{inner}(ptr %result, ptr %exception, i64 %lo, i64 %hi, ptr %args)
  ret void
}}
"""
"""Numba's calling convention has places for a result and an exception; kernels have neither."""


def with_numba(code: str, symbol: str, lanes: SimdLoop | None = None, level: int = 3) -> bytes:
    """Object code of a generated text, compiled by Numba, which vectorises as it can.

    Raises:
        CompilerError: Numba refused the text.
    """
    import linecache

    from numba.core.errors import NumbaError

    from tapedebug._syntax import parsed
    from tapedebug.compiler.llvm.library import NATIVES
    from tapedebug.compiler.llvm.machine import object_code
    from tapedebug.compiler.llvm.vectorizer_limits import is_searchable
    from tapedebug.compiler.numba_library import NAMESPACE, assembly_of, embedded
    from tapedebug.compiler.numba_versions import linked_with

    filename = f"<tapedebug {symbol}>"
    linecache.cache[filename] = (len(code), None, code.splitlines(keepends=True), filename)
    names: dict[str, Any] = NAMESPACE | {name: embedded(name) for name in NATIVES}
    exec(compile(code, filename, "exec"), names)
    try:
        inner, assembly = assembly_of(names["entry"])
    except NumbaError as error:
        raise CompilerError(f"the generated code was refused:\n{code}\n{error}") from None
    wrapper = WRAPPER.format(symbol=symbol, inner=inner)
    modules = wrapper, *assembly, *linked_with(code)
    return object_code(*modules, searchable=level > 0 and is_searchable(parsed(code)), level=level)


COMPILERS: dict[str, Callable[[str, str, SimdLoop | None, int], bytes]] = {
    "llvm": with_llvm,
    "numba": with_numba,
}
"""By the name that `config.compiler` has."""


class CompileTimes:
    """Estimates the time to compile generated text, from its length and from the times measured so far."""

    SECONDS = 4e-4
    """Seconds for each line of text until some are measured: 2e-4 in lanes, up to 7e-4 if LLVM vectorises."""
    LEAST = 0.02
    """Seconds of a compilation from which on it is a measure of this machine."""

    def __init__(self) -> None:
        self.factor = 1.0

    def estimate(self, code: str) -> float:
        """Return the estimated seconds."""
        return self.factor * self._usual(code)

    def learn(self, code: str, seconds: float) -> None:
        """Take a measured duration into account."""
        if seconds > self.LEAST:
            self.factor += 0.5 * (seconds / self._usual(code) - self.factor)

    def _usual(self, code: str) -> float:
        return self.SECONDS * (code.count("\n") + 1)


times = CompileTimes()
"""The estimates of this process."""


def compiled(text: GeneratedSource, what: str = "a kernel") -> tuple[str, objects.Entry]:
    """The machine code of a generated function, from the cache where it is there; and its key.

    Args:
        text: The function.
        what: Its name in messages.

    Raises:
        CompilerError: The text was refused.
        OutOfTime: It is not in the cache, and to compile it would exceed the time limit of a diagnosis.
    """
    code, level = text.code, optimization
    key = objects.key_of(f"{text.lanes}\n{code}" if text.lanes else code, config.compiler, level)
    found = cached(key)
    if found is None:
        _time_limit.ensure(times.estimate(code), f"compiling {what}")
        start = perf_counter()
        content = COMPILERS[config.compiler](code, symbol_of(key), text.lanes, level)
        times.learn(code, perf_counter() - start)
        if "njit0_" not in code:
            objects.write(key, content)
        found = objects.load(key, symbol_of(key), content)
    return key, found


def assembled(assembly: str) -> objects.Entry:
    """The machine code of LLVM assembly with one function, `{symbol}`, from the cache if it is there."""
    key = objects.key_of(assembly, "llvm")
    found = cached(key)
    if found is None:
        from tapedebug.compiler.llvm.machine import object_code

        content = object_code(assembly.replace("{symbol}", symbol_of(key)))
        objects.write(key, content)
        found = objects.load(key, symbol_of(key), content)
    return found


def cached(key: str) -> objects.Entry | None:
    """The machine code that is kept under this key, or None."""
    content = objects.read(key)
    return None if content is None else objects.load(key, symbol_of(key), content)


def symbol_of(key: str) -> str:
    """The name of an entry: objects that different processes made are linked into one."""
    return f"entry_{key[:20]}"
