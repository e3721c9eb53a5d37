"""The C of a native function: one translation unit with a function for each snippet."""

from __future__ import annotations

from typing import Any

from tapedebug.compiler.native.consume import consumed
from tapedebug.compiler.native.unit import ADJOINT, FORWARD, REPLAY, Signature, Snippets, Word
from tapedebug.lang import types as t

C_NAMES: dict[Any, str] = {
    t.float32: "float",
    t.float64: "double",
    t.bool: "bool",
    **{s: f"{s.__name__}_t" for s in t.INTEGERS},
}
SINGLE = """sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp exp2 expm1 log log2 log10 log1p
    sqrt cbrt erf erfc tgamma lgamma fabs floor ceil trunc round rint nearbyint pow fmod hypot atan2 fmin fmax
    fdim fma copysign remainder ldexp"""
"""Functions of <math.h> whose names end in `f` for float: in the float64 twin they are those of double."""
PRELUDE = """#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* Threads run one after another: what is read, changed and written back needs no lock. */
#define td_atomic(p, becomes) __extension__ ({ \\
    __typeof__(p) td_p = (p); __typeof__(*(p)) td_old = *td_p; *td_p = (becomes); td_old; })
#define atomicAdd(p, v) td_atomic(p, td_old + (v))
#define atomicSub(p, v) td_atomic(p, td_old - (v))
#define atomicMin(p, v) td_atomic(p, (v) < td_old ? (v) : td_old)
#define atomicMax(p, v) td_atomic(p, (v) > td_old ? (v) : td_old)
#define atomicExch(p, v) td_atomic(p, (v))
#define atomicCAS(p, c, v) td_atomic(p, td_old == (c) ? (v) : td_old)
#define atomicAnd(p, v) td_atomic(p, td_old & (v))
#define atomicOr(p, v) td_atomic(p, td_old | (v))
#define atomicXor(p, v) td_atomic(p, td_old ^ (v))
"""
TWIN = "#define float double\n" + "".join(f"#define {name}f {name}\n" for name in SINGLE.split())
TITLES = {FORWARD: "snippet", ADJOINT: "adj_snippet", REPLAY: "replay_snippet"}
"""The file names of the snippets in messages of the C compiler."""
SYMBOL = "TD_SYMBOL"
"""Stands for the symbols' common beginning until the source, and so its key, is known."""


def source_of(
    signature: Signature,
    snippets: Snippets,
    *,
    f64: bool = False,
    variants: tuple[str, ...] = (),
    constant: frozenset[str] = frozenset(),
) -> str:
    """The translation unit.

    Args:
        signature: The parameters and result.
        snippets: The bodies.
        f64: Whether `float` is double throughout, as in the twin that checks refer to.
        variants: Which snippets it has; by default all.
        constant: The arrays that snippets must not write to: the compiler then refuses what does.
    """
    compounds = {kind: None for kind in _types(signature) if t.is_compound(kind)}
    parts = [PRELUDE, TWIN if f64 else "", *(_union(kind) for kind in compounds)]
    chosen = variants or tuple(snippets.variants)
    return "\n".join(parts + [_function(signature, snippets, variant, constant) for variant in chosen])


def _types(signature: Signature) -> list[Any]:
    kinds = [kind.dtype if isinstance(kind, t.ArrayType) else kind for _, kind in signature.parameters]
    return kinds + ([signature.result] if signature.result is not None else [])


def c_name(kind: Any) -> str:
    """The C name of a type."""
    return C_NAMES.get(kind) or t.type_name(kind)


def _union(kind: Any) -> str:
    """A value with components: `v.x` and `v.c[0]` of a vector, `m.m[i][j]` and `m.c[k]` of a matrix."""
    scalar = c_name(kind.scalar)
    if len(kind.shape) > 1:
        named = f" {scalar} m[{kind.shape[0]}][{kind.shape[1]}];"
    else:
        letters = getattr(kind, "letters", "") if kind.length <= len("xyzw") else ""
        named = f" struct {{ {scalar} {', '.join(letters)}; }};" if letters else ""
    return f"typedef union {{{named} {scalar} c[{kind.length}]; }} {c_name(kind)};\n"


def _function(signature: Signature, snippets: Snippets, variant: str, constant: frozenset[str]) -> str:
    words = signature.words(variant)
    # An adjoint changes adjoints only: what it reads may be a copy that others need.
    read_only = frozenset(signature.arrays) if variant == ADJOINT else constant
    declared, passed = [], []
    lvalues = []
    for name, kind in signature.parameters:
        array = isinstance(kind, t.ArrayType)
        refers = name in signature.references
        star = "*" if array else "*td_" if refers else ""
        const = "const " if name in read_only else ""
        declared.append(f"{const}{c_name(kind.dtype if array else kind)} {star}{name}")
        passed.append(f"&{name}" if refers else name)
        lvalues += [name] if refers else []
    for name, kind in _with_adjoint(words, signature):
        array = isinstance(kind, t.ArrayType)
        declared.append(f"{c_name(kind.dtype if array else kind)} *{'' if array else 'td_'}adj_{name}")
        passed.append(f"{'' if array else '&'}adj_{name}")
        lvalues += [] if array else [f"adj_{name}"]
    if any(w.kind == "seed" for w in words):
        declared.append(f"{c_name(signature.result)} adj_ret")
        passed.append("adj_ret")
    gives = signature.result is not None and variant != ADJOINT
    result = c_name(signature.result) if gives else "void"
    return "\n".join(
        [
            *(f"#define {name} (*td_{name})" for name in lvalues),
            f"static inline {result} td_{variant}({', '.join(declared) or 'void'})",
            "{",
            f'#line 1 "{TITLES[variant]} of {signature.name}"',
            snippets.of(variant),
            ";",
            "}",
            '#line 1 "td_wrapper"',
            *(f"#undef {name}" for name in lvalues),
            *_wrapper(signature, variant, words, passed, gives, _used_up(signature, snippets, variant)),
            "",
        ]
    )


def _with_adjoint(words: list[Word], signature: Signature) -> list[tuple[str, Any]]:
    named = {w.name for w in words if w.kind in ("adjoint", "array_adjoint")}
    return [(name, kind) for name, kind in signature.parameters if name in named]


def _used_up(signature: Signature, snippets: Snippets, variant: str) -> list[str]:
    """Return code that sets the adjoints of overwritten elements to 0, after an adjoint snippet."""
    if variant != ADJOINT:
        return []
    places = consumed(signature, snippets)
    return [
        f"    memset(&adj_{name}{place}, 0, sizeof(adj_{name}{place}));"
        for name, found in places.items()
        for place in found
    ]


def _wrapper(
    signature: Signature,
    variant: str,
    words: list[Word],
    passed: list[str],
    gives: bool,
    after: list[str],
) -> list[str]:
    """`void symbol(frame)`: takes the arguments from the frame and leaves the results there."""
    kinds = dict(signature.parameters) | {"ret": signature.result}
    lines = [f"void {SYMBOL}_{variant}(char *td_frame)", "{"]
    done: set[str] = set()
    back = []
    for place, word in enumerate(words):
        kind = kinds[word.name]
        name = word.name if word.kind in ("value", "array") else f"adj_{word.name}"
        at = f"td_frame + {8 * place}"
        if word.kind in ("array", "array_adjoint"):
            lines.append(f"    {c_name(kind.dtype)} *{name} = *({c_name(kind.dtype)} **)({at});")
            continue
        assert word.scalar is not None
        cell = f"*({c_name(word.scalar)} *)({at})"
        part = name if t.is_scalar(kind) else f"{name}.c[{word.component}]"
        if word.kind == "result":
            back.append(f"    {cell} = {part.replace('adj_ret', 'td_ret', 1)};")
            continue
        if name not in done:
            lines.append(f"    {c_name(kind)} {name};")
            done.add(name)
        lines.append(f"    {part} = {cell};")
        if word.kind == "adjoint" or (word.name in signature.references and variant != ADJOINT):
            back.append(f"    {cell} = {part};")
    call = f"td_{variant}({', '.join(passed)});"
    lines.append(f"    {c_name(signature.result)} td_ret = {call}" if gives else f"    {call}")
    return [*lines, *after, *back, "}"]
