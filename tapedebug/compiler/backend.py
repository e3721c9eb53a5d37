"""From generated text to machine code: Numba compiles it, once; afterwards it comes from the cache."""

from __future__ import annotations

import linecache
from typing import Any

from tapedebug.compiler import objects
from tapedebug.compiler.text import Text


class CompilerError(Exception):
    """Generated code that Numba refuses: a bug of this compiler; carries the code and Numba's words."""


def compiled(text: Text) -> objects.Entry:
    """The machine code of a generated function, from the cache where it is there."""
    code = text.code
    key = objects.key_of(code)
    kept = objects.read(key)
    if kept is None:
        kept = compile_with_numba(code, key)
        objects.write(key, *kept)
    return objects.load(key, *kept)


def compile_with_numba(code: str, key: str) -> tuple[str, bytes]:
    """Symbol and object code of a generated text.

    Raises:
        CompilerError: Numba refused the text.
    """
    import numba
    from numba.core.errors import NumbaError

    from tapedebug.compiler.numba_library import NAMESPACE

    filename = f"<tapedebug {key[:12]}>"
    linecache.cache[filename] = (len(code), None, code.splitlines(keepends=True), filename)
    names: dict[str, Any] = dict(NAMESPACE)
    exec(compile(code, filename, "exec"), names)
    # The symbol comes from the name: objects that different processes made are linked into one.
    names["entry"].__qualname__ = names["entry"].__name__ = f"entry_{key[:20]}"
    int64 = numba.types.int64
    signature = numba.types.void(int64, int64, numba.types.CPointer(int64))
    options = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    try:
        function = numba.njit(signature, **options)(names["entry"])
    except NumbaError as error:
        raise CompilerError(f"the generated code was refused:\n{code}\n{error}") from None
    result = function.overloads[function.signatures[0]]
    return result.fndesc.llvm_func_name, bytes(result.library._get_compiled_object())
