"""Stacks of words in LLVM, in which adjoints keep the values that reversing a loop needs."""

from __future__ import annotations

from collections.abc import Callable

from tapedebug.compiler.llvm.library import STACK, entry, in_memory
from tapedebug.lang.lowering import SCALARS, Instructions, defined, fitting, llvm_type

GROW = """define internal ptr @td.grow(ptr %old, i64 %words) noinline cold nounwind {
  %bytes = mul i64 %words, 8
  %new = call ptr @realloc(ptr %old, i64 %bytes)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %none, label %some
none:
  call void @abort()
  unreachable
some:
  ret ptr %new
}"""
"""More memory; what cannot be had ends the process, as in C."""


@entry("stack_ensure")
def _stack_ensure(stack: str, count: str) -> Instructions:
    """Room for `count` words; what is kept stays."""
    fitting((stack, count) == (STACK, "i64"), stack, count)
    body = """
  %place = getelementptr i64, ptr %0, i64 1
  %capacity = load i64, ptr %place
  %short = icmp sgt i64 %1, %capacity
  br i1 %short, label %grow, label %done
grow:
  %double = mul i64 %1, 2
  %size = add i64 %double, 64
  %old = load ptr, ptr %0
  %new = call ptr @td.grow(ptr %old, i64 %size)
  store ptr %new, ptr %0
  store i64 %size, ptr %place
  br label %done
done:
  ret void"""
    needs = ("declare ptr @realloc(ptr, i64) nounwind", "declare void @abort() noreturn nounwind", GROW)
    return defined("stack_ensure", "void", (stack, count), body, *needs)


@entry("stack_free")
def _stack_free(stack: str) -> Instructions:
    """Give the stack's memory back."""
    fitting(stack == STACK, stack)
    text = "{r}.at = load ptr, ptr {0}\ncall void @free(ptr {r}.at)"
    return Instructions("void", text, ("declare void @free(ptr) nounwind",))


def _put(kind: str) -> Callable[..., Instructions]:
    def put(stack: str, place: str, value: str) -> Instructions:
        fitting((stack, place, value) == (STACK, "i64", kind), stack, place, value)
        text = "{r}.base = load ptr, ptr {0}\n{r}.word = getelementptr i64, ptr {r}.base, i64 {1}\n"
        stored = "{2}"
        if kind == "b1":
            text, stored = text + "{r}.byte = zext i1 {2} to i8\n", "{r}.byte"
        return Instructions("void", f"{text}store {llvm_type(in_memory(kind))} {stored}, ptr {{r}}.word")

    return put


def _get(kind: str) -> Callable[..., Instructions]:
    def get(stack: str, place: str) -> Instructions:
        fitting((stack, place) == (STACK, "i64"), stack, place)
        text = "{r}.base = load ptr, ptr {0}\n{r}.word = getelementptr i64, ptr {r}.base, i64 {1}\n"
        if kind == "b1":
            text += "{r}.byte = load i8, ptr {r}.word\n{r} = trunc i8 {r}.byte to i1"
            return Instructions(kind, text)
        return Instructions(kind, f"{text}{{r}} = load {llvm_type(kind)}, ptr {{r}}.word")

    return get


for _code in SCALARS:
    entry(f"put_{_code}")(_put(_code))
    entry(f"get_{_code}")(_get(_code))
