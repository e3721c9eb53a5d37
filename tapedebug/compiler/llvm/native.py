"""Calls of native functions in LLVM: their symbols are defined when their C is compiled."""

from __future__ import annotations

from inspect import Parameter, Signature

from tapedebug.compiler.llvm.library import NATIVES, STACK, entry
from tapedebug.lang.lowering import Instructions, c_function, fitting


def enter_native(symbol: str) -> None:
    """Let generated code call a native function: `symbol(frame)`."""

    def call(frame: str) -> Instructions:
        fitting(frame == STACK, frame)
        text = "{r}.frame = load ptr, ptr {0}\ncall void @" + symbol + "(ptr {r}.frame)"
        return Instructions("void", text, (f"declare void @{symbol}(ptr) nounwind",))

    NATIVES[symbol] = call


def enter_value(symbol: str, operands: tuple[str, ...], result: str) -> None:
    """Let generated code call a function of numbers: `symbol(x, y)`."""

    def call(*given: str) -> Instructions:
        fitting(given == operands, *given)
        return c_function(symbol, result, operands)

    names = [Parameter(f"x{k}", Parameter.POSITIONAL_ONLY) for k, _ in enumerate(operands)]
    call.__signature__ = Signature(names)  # type: ignore[attr-defined]
    NATIVES[symbol] = call


@entry("stack_zeros")
def _stack_zeros(stack: str, count: str) -> Instructions:
    """Let an empty stack hold `count` words that are 0."""
    fitting((stack, count) == (STACK, "i64"), stack, count)
    text = "{r}.some = add i64 {1}, 1\n{r} = call ptr @calloc(i64 {r}.some, i64 8)\nstore ptr {r}, ptr {0}"
    return Instructions("void", text, ("declare ptr @calloc(i64, i64) nounwind",))


@entry("stack_address")
def _stack_address(stack: str) -> Instructions:
    """The address of the memory of a stack."""
    fitting(stack == STACK, stack)
    return Instructions("i64", "{r} = load i64, ptr {0}")
