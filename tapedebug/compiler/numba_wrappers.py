"""Functions of Numba, typed and compiled by Numba into LLVM assembly that kernels are linked with.

Each is wrapped in a function of one frame, `symbol(frame)`: eight bytes for each argument and each result.
The adjoint of a function is wrapped likewise; it is made of finite differences. Imported only when something
is compiled with Numba.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from numba import njit, types
from numba.core import registry
from numba.core.errors import NumbaError

from tapedebug.compiler.llvm.machine import optimized
from tapedebug.compiler.native.unit import Word
from tapedebug.compiler.numba_library import SCALARS, compiled_by_numba, intrinsic

CODES = {kind: code for code, kind in SCALARS.items()}
LEVELS = 12
"""Step sizes that finite differences try, each a quarter of the one before."""
ENOUGH = 1e-11
"""The relative error, as estimated, at which they stop."""
NEEDS_PYTHON = "missing Environment"
"""A symbol that it refers to if it needs Python objects that Numba stores beside a function."""


class NotCompiled(Exception):
    """Numba refuses a function, or returns what kernels cannot take.

    Attributes:
        message: What is refused, as the rest of a sentence that begins with the function.
        hint: What to do.
    """

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


def typed(dispatcher: Any, operands: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """Return the types of a function's results for arguments of these types, and whether it returns just one.

    A function that returns a tuple, or nothing, has several results, or none. Numba compiles it.

    Raises:
        NotCompiled: Numba has no version of it for them, or its results are no scalars.
    """
    context = registry.cpu_target.typing_context
    context.refresh()
    registry.cpu_target.target_context.refresh()
    kinds = tuple(SCALARS[code] for code in operands)
    try:
        signature = context.resolve_function_type(types.Dispatcher(dispatcher), kinds, {})
    except NumbaError as error:
        raise NotCompiled(
            f"is refused by Numba: {reason(error)}",
            "call it from Python with such values: Numba says more there",
        ) from None
    if signature is None:
        shown = ", ".join(map(str, kinds))
        raise NotCompiled(f"has no version for ({shown})", "convert the arguments, or add a signature")
    given = types.unliteral(signature.return_type)
    if given == types.none:
        return (), False
    parts = tuple(given) if isinstance(given, types.BaseTuple) else (given,)
    codes = [CODES.get(types.unliteral(part)) for part in parts]
    if None in codes:
        raise NotCompiled(
            f"returns {given}, which kernels cannot take", "return a number, or a tuple of numbers"
        )
    return tuple(map(str, codes)), not isinstance(given, types.BaseTuple)


def require_same(results: Sequence[str], wanted: Sequence[str], operands: Sequence[str]) -> None:
    """Refuse a version whose results are other numbers than those of the version for narrower floats.

    Raises:
        NotCompiled: They differ in more than how wide floats are.
    """
    if [code[0] for code in results] != [code[0] for code in wanted]:
        shown = [", ".join(str(SCALARS[code]) for code in codes) for codes in (results, operands, wanted)]
        raise NotCompiled(
            f"returns ({shown[0]}) for ({shown[1]}), where kernels need the kind of ({shown[2]})",
            "let it return the same kinds of numbers for float32 and float64",
        )


def reason(error: BaseException) -> str:
    """Return the words of an error of Numba that say what is wrong: one line."""
    lines = [line.strip() for line in re.sub(r"\x1b\[[0-9;]*m", "", str(error)).splitlines()]
    skipped = ("Failed in", "During:", "File ", "There are", "-", "def ", "<source", "This error")
    said = [line for line in lines if line and not line.startswith(skipped) and "candidate" not in line]
    places = re.findall(r'File "[^"]*", line (\d+)', str(error))
    where = f" (line {places[-1]})" if places else ""
    return (said[0].rstrip(".") if said else type(error).__name__) + where


# Words of a frame -------------------------------------------------------------------------------------------


def _reader(code: str) -> Callable[..., Any]:
    kind = SCALARS[code]

    def read(context: Any, frame: Any, place: Any) -> Any:
        def generate(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
            model = ctx.data_model_manager[kind]
            word = b.bitcast(b.gep(values[0], [values[1]]), model.get_data_type().as_pointer())
            return model.from_data(b, b.load(word))

        return kind(frame, place), generate

    return intrinsic(read)


def _writer(code: str) -> Callable[..., Any]:
    kind = SCALARS[code]

    def write(context: Any, frame: Any, place: Any, value: Any) -> Any:
        def generate(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
            model = ctx.data_model_manager[kind]
            word = b.bitcast(b.gep(values[0], [values[1]]), model.get_data_type().as_pointer())
            b.store(model.as_data(b, ctx.cast(b, values[2], sig.args[2], kind)), word)
            return ctx.get_dummy_value()

        return types.void(frame, place, value), generate

    return intrinsic(write)


WORDS: dict[str, Any] = {f"read_{code}": _reader(code) for code in SCALARS}
WORDS |= {f"write_{code}": _writer(code) for code in SCALARS}


# Wrappers ---------------------------------------------------------------------------------------------------


def forward_text(words: Sequence[tuple[Word, str]], single: bool) -> str:
    """Return Python text of a wrapper: it reads arguments, calls `f`, and writes its results."""
    arguments = [f"read_{code}(frame, {k})" for k, (word, code) in enumerate(words) if word.kind == "value"]
    lines = [f"result = f({', '.join(arguments)})"]
    for place, (word, code) in enumerate(words):
        if word.kind == "result":
            value = "result" if single else f"result[{word.component}]"
            lines.append(f"write_{code}(frame, {place}, {value})")
    return _function("entry", ["frame"], lines)


def adjoint_text(words: Sequence[tuple[Word, str]], single: bool) -> str:
    """Return Python text of a wrapper that adds differences, in float64, to the adjoint of one argument.

    The step begins at a sixteenth of the argument's size, or of its square root where that is larger than 1,
    and is quartered. Of all differences, and their extrapolations to a step of zero, the one counts whose
    neighbours are nearest to it.
    """
    values = [(k, word, code) for k, (word, code) in enumerate(words) if word.kind == "value"]
    floats = [(k, word, code) for k, (word, code) in enumerate(words) if word.kind == "adjoint"]
    seeds = [(k, word, code) for k, (word, code) in enumerate(words) if word.kind == "seed"]
    names = {word.name: f"x{k}" for k, word, _ in values}
    inputs = [*names.values(), *(f"s{word.component}" for _, word, _ in seeds)]
    text = [_function("weighted", inputs, _weighted(names.values(), seeds, single))]
    lines = []
    for k, _, code in values:
        wide = code in ("f32", "f64")
        read = f"read_{code}(frame, {k})"
        lines.append(f"x{k} = float64({read})" if wide else f"x{k} = {read}")
    lines += [f"s{word.component} = float64(read_{code}(frame, {k}))" for k, word, code in seeds]
    lines.append(f"which = read_i64(frame, {len(words) - 1})")
    for place, word, code in floats:
        own = names[word.name]
        text.append(_function(f"slope_{own}", inputs, _slope(own, inputs)))
        added = f"float64(read_{code}(frame, {place})) + slope_{own}({', '.join(inputs)})"
        lines += [f"if which == {place}:", f"    write_{code}(frame, {place}, {added})"]
    return "\n\n".join([*text, _function("entry", ["frame"], lines)])


def _weighted(names: Any, seeds: Sequence[tuple[int, Word, str]], single: bool) -> list[str]:
    lines = [f"result = f({', '.join(names)})", "total = 0.0"]
    for _, word, _ in seeds:
        value = "result" if single else f"result[{word.component}]"
        lines += [f"if s{word.component} != 0.0:", f"    total += s{word.component} * float64({value})"]
    return [*lines, "return total"]


def _slope(own: str, inputs: Sequence[str]) -> list[str]:
    def moved(sign: str) -> str:
        return ", ".join(f"{own} {sign} h" if name == own else name for name in inputs)

    return [
        f"h = 0.0625 * max(1.0, math.sqrt(abs({own})))",
        "best, error = math.nan, math.inf",
        "before, once = math.nan, math.nan",
        f"for level in range({LEVELS}):",
        "    difference = math.nan",
        "    try:",
        f"        high, low = {own} + h, {own} - h",
        f"        difference = (weighted({moved('+')}) - weighted({moved('-')})) / (high - low)",
        "    except Exception:",
        "        pass",
        "    extrapolated = (16.0 * difference - before) / 15.0",
        "    again = (256.0 * extrapolated - once) / 255.0",
        "    off = max(abs(extrapolated - difference), abs(extrapolated - before))",
        "    if off < error:",
        "        best, error = extrapolated, off",
        "    off = max(abs(again - extrapolated), abs(again - once))",
        "    if off < error:",
        "        best, error = again, off",
        f"    if error <= {ENOUGH} * abs(best):",
        "        break",
        "    before, once = difference, extrapolated",
        "    h *= 0.25",
        "if math.isnan(best):",
        "    return before",
        "return best",
    ]


def _function(name: str, parameters: Sequence[str], lines: Sequence[str]) -> str:
    return "\n".join([f"def {name}({', '.join(parameters)}):", *(f"    {line}" for line in lines)])


FRAME = """declare i32 @{inner}(ptr, ptr, ptr)
define void @{symbol}(ptr %frame) {attributes} {{
  %result = alloca ptr
  %exception = alloca ptr
  store ptr null, ptr %exception
{begin}
  %code = call i32 @{inner}(ptr %result, ptr %exception, ptr %frame)
  %done = icmp eq i32 %code, 0
  %none = icmp eq i32 %code, -2
  %fine = or i1 %done, %none
  br i1 %fine, label %end, label %raised
raised:
{raised}
  br label %end
end:
  ret void
}}
"""
"""Numba's calling convention has places for a result and an exception."""
WRAPPER = "tapedebug.wrapper"


def _begin(words: Sequence[tuple[Word, str]]) -> str:
    """LLVM that is run first: nothing was raised yet."""
    places = [place for place, (word, _) in enumerate(words) if word.kind == "status"]
    lines = (
        f"  %status{k} = getelementptr i64, ptr %frame, i64 {k}\n  store i64 0, ptr %status{k}"
        for k in places
    )
    return "\n".join(lines)


def _raised(words: Sequence[tuple[Word, str]]) -> str:
    """LLVM that is run if the function raised: results are NaN or 0, the status is where the exception is."""
    lines = []
    for place, (word, code) in enumerate(words):
        if word.kind not in ("result", "adjoint", "status"):
            continue
        lines.append(f"%at{place} = getelementptr i64, ptr %frame, i64 {place}")
        if word.kind == "status":
            lines += [
                "%thrown = load ptr, ptr %exception",
                "%address = ptrtoint ptr %thrown to i64",
                f"store i64 %address, ptr %at{place}",
            ]
        else:
            nothing = {"f32": "float 0x7FF8000000000000", "f64": "double 0x7FF8000000000000"}.get(
                code, "i64 0"
            )
            lines.append(f"store {nothing}, ptr %at{place}")
    return "\n".join(f"  {line}" for line in lines)


def assembly(dispatcher: Any, text: str, words: Sequence[tuple[Word, str]]) -> str:
    """Return optimized LLVM assembly of a wrapper, called `{symbol}`, and of all that it calls.

    Raises:
        NotCompiled: Numba refuses it.
    """
    import math

    names: dict[str, Any] = {**WORDS, "f": dispatcher, "math": math, "float64": types.float64}
    exec(compile(text, f"<tapedebug, a call of {dispatcher.py_func.__name__}>", "exec"), names)
    for name in [name for name in names if name == "weighted" or name.startswith("slope_")]:
        names[name] = njit(names[name])
    try:
        inner, modules = compiled_by_numba(
            names["entry"], (types.CPointer(types.int64),), error_model="python"
        )
    except NumbaError as error:
        raise NotCompiled(
            f"is refused by Numba: {reason(error)}",
            "call it from Python with such values: Numba says more there",
        ) from None
    differences = any(word.kind == "seed" for word, _ in words)  # too long to stand in each lane
    attributes = "noinline nounwind" if differences else "nounwind"
    whole = FRAME.format(
        inner=inner, symbol=WRAPPER, attributes=attributes, begin=_begin(words), raised=_raised(words)
    )
    made = optimized(whole, *modules, keep=WRAPPER)
    if NEEDS_PYTHON in made:
        raise NotCompiled(
            "needs Python while it runs: it prints, raises a message made of values, or uses objmode",
            "leave that out: kernels run without the interpreter, and can print what the function returns",
        )
    return made.replace(f"@{WRAPPER}(", "@{symbol}(")
