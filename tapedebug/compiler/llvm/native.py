"""Calls of native functions, in LLVM: their symbols are entered when their C is compiled."""

from __future__ import annotations

from tapedebug.compiler.llvm.library import NATIVES, STACK, Call, entry, fitting


def enter_native(symbol: str) -> None:
    """Let generated code call a native function: `symbol(frame)`."""

    def call(frame: str) -> Call:
        fitting(frame == STACK, frame)
        text = "{r}.frame = load ptr, ptr {0}\ncall void @" + symbol + "(ptr {r}.frame)"
        return Call("void", text, (f"declare void @{symbol}(ptr) nounwind",))

    NATIVES[symbol] = call


@entry("stack_zeros")
def _stack_zeros(stack: str, count: str) -> Call:
    """Let an empty stack hold `count` words that are 0."""
    fitting((stack, count) == (STACK, "i64"), stack, count)
    text = "{r}.some = add i64 {1}, 1\n{r} = call ptr @calloc(i64 {r}.some, i64 8)\nstore ptr {r}, ptr {0}"
    return Call("void", text, ("declare ptr @calloc(i64, i64) nounwind",))


@entry("stack_address")
def _stack_address(stack: str) -> Call:
    """The address of the memory of a stack."""
    fitting(stack == STACK, stack)
    return Call("i64", "{r} = load i64, ptr {0}")
