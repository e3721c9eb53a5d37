"""Native functions as kernels call them: checked, compiled, and what each call touches."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, NoReturn

from tapedebug._dataclass import dataclass
from tapedebug._errors import KernelSyntaxError, KernelTypeError, TapedebugError
from tapedebug._files import file_lines
from tapedebug._source import Origin, Span
from tapedebug.compiler import objects
from tapedebug.compiler.native import build
from tapedebug.compiler.native.consume import write_only
from tapedebug.compiler.native.source import C_NAMES, TITLES, source_of
from tapedebug.compiler.native.unit import (
    ADJOINT,
    COMMENTS,
    FORWARD,
    REPLAY,
    ForeignFunction,
    Signature,
    Snippets,
    Word,
)
from tapedebug.lang import types as t

CUDA = re.compile(r"\b(__shared__|__syncthreads|__device__|__global__|threadIdx|blockIdx|blockDim|gridDim)\b")
KNOWN = {
    "assignment of read-only": "an adjoint changes adjoints only: add to adj_… names",
    "undeclared": "a snippet sees its parameters, what it declares, and the C library",
}
"""Hints for some messages of C compilers."""


class Native:
    """The C of one function of the kernel language.

    Args:
        python: The stub: its parameters and annotations are the signature.
        snippets: The C.
        origin: Gives the stub's source.
        declared: Gives the types of its parameters, of its result (None where it has none), and the names of
            its parameters by reference.
    """

    is_numba = raises = narrows = False

    def __init__(
        self,
        python: Callable[..., Any],
        snippets: Snippets,
        origin: Callable[[], Origin],
        declared: Callable[[], tuple[dict[str, Any], Any, tuple[str, ...]]],
    ) -> None:
        self.python = python
        self.snippets = snippets
        self._origin = origin
        self._declared = declared
        self._stems: dict[bool, str] = {}

    @property
    def name(self) -> str:
        """The function's name."""
        return self.python.__name__

    @cached_property
    def signature(self) -> Signature:
        """The parameters and the result, which C must have types for.

        Raises:
            KernelTypeError, KernelSyntaxError: The stub is none.
        """
        tree = self._origin().tree
        nodes = [*tree.args.posonlyargs, *tree.args.args]
        types, result, references = self._declared()
        for node in nodes:
            if node.arg not in types:
                self._fail(
                    node, f"the parameter `{node.arg}` has no type", "annotate it: C has to know its type"
                )
            self._check_type(node, types[node.arg], f"the parameter `{node.arg}`")
        if result is not None:
            self._check_type(tree.returns or tree, result, "the result")
        stub = (ast.Pass, ast.Expr)
        for statement in tree.body:
            constant = isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Constant)
            nothing = isinstance(statement, ast.Return) and statement.value is None
            if constant or not (nothing or isinstance(statement, stub)):
                self._fail(statement, "the body of a native function is its snippet", "write `...` here")
        for name in references:
            if self.snippets.adjoint and self.snippets.mentions(ADJOINT, name):
                self._fail(
                    next(n for n in nodes if n.arg == name),
                    f"`adj_snippet` reads `{name}`, which is passed by reference and may have changed",
                    f"pass the value that the adjoint needs as another parameter; adj_{name} is there",
                )
        return Signature(self.name, tuple((n.arg, types[n.arg]) for n in nodes), result, references)

    def _check_type(self, node: ast.AST, kind: Any, what: str) -> None:
        element = kind.dtype if isinstance(kind, t.ArrayType) else kind
        scalar = t.scalar_of(element) if t.is_scalar(element) or t.is_compound(element) else None
        if scalar not in C_NAMES or (isinstance(kind, t.ArrayType) and what == "the result"):
            shown = t.type_name(kind) if not isinstance(kind, tuple) else "several values"
            hint = "numbers, vectors, matrices, quaternions and arrays of them have types in C"
            if what == "the result":
                hint = "return one number, vector, matrix or quaternion; write others into arrays"
            self._fail(node, f"{what} is {shown}, which has no type in C here", hint)

    def _fail(self, node: ast.AST, message: str, hint: str) -> NoReturn:
        raise KernelTypeError(
            f"function `{self.name}`: {message}", span=self._origin().span(node), hint=hint
        ) from None

    # Compiling

    def symbol(self, variant: str, *, f64: bool = False) -> str:
        """The symbol of a snippet's function, compiled and loaded.

        Raises:
            KernelSyntaxError: The C compiler refuses a snippet.
            TapedebugError: There is no C compiler.
        """
        stem = self._stems.get(f64)
        if stem is None:
            source = source_of(self.signature, self.snippets, f64=f64)
            stem = self._guarded(lambda: f"native_{self.name}_{build.key_of(source)}")
            self._guarded(lambda: build.provide(stem, source))
            self._stems[f64] = stem
        symbol = f"{stem}_{variant}"
        _enter(symbol, self, variant, f64)
        return symbol

    def value_symbol(self, variant: str, place: int, *, f64: bool = False) -> NoReturn:
        """Refuse: C is called with frames."""
        raise TypeError(self.name)

    def called(self, values: Sequence[Any]) -> NoReturn:
        """Refuse: Python does not call C."""
        raise TypeError(self.name)

    def _guarded(self, compile: Callable[[], Any]) -> Any:
        self._refuse_cuda()
        try:
            return compile()
        except build.NoCompiler as error:
            raise TapedebugError(
                f"function `{self.name}` is native, and {error}",
                span=self._origin().span(self._origin().tree),
                hint="install a C compiler (gcc or clang), or let CC name one",
            ) from None
        except build.Refused as error:
            self._refused(error)

    def _refused(self, error: build.Refused) -> NoReturn:
        variant = next((v for v, title in TITLES.items() if title == error.title), None)
        what = f"`{error.title}`" if variant else "the function"
        hint = next((m for words, m in KNOWN.items() if words in error.message), "correct the snippet")
        raise KernelSyntaxError(
            f"function `{self.name}`: the C compiler refuses {what}: {error.message}",
            span=self.span(variant or FORWARD, error.line, error.column),
            hint=hint,
        ) from None

    def _refuse_cuda(self) -> None:
        for variant in self.snippets.variants:
            found = CUDA.search(self.snippets.of(variant))
            if found is not None:
                before = self.snippets.of(variant)[: found.start()]
                column = len(before) - (before.rfind("\n") + 1) + 1
                raise KernelSyntaxError(
                    f"function `{self.name}`: `{found[0]}` belongs to CUDA; kernels run on the processor",
                    span=self.span(variant, before.count("\n") + 1, column),
                    hint="write it in C, where threads run one after another",
                )

    def span(self, variant: str, line: int, column: int) -> Span:
        """A place in a snippet, counted from 1: where the user wrote it, if the file has it as it is."""
        origin, text = self._origin(), self.snippets.of(variant)
        lines = file_lines(origin.file)
        start = "".join(lines).find(text) if text.strip() else -1
        if start < 0 or line < 1:
            return origin.span((*origin.tree.decorator_list, origin.tree)[0])
        before = "".join(lines)[:start]
        first = before.count("\n") + 1
        shift = len(before) - (before.rfind("\n") + 1) if line == 1 else 0
        at = first + line - 1
        shown = lines[at - 1].rstrip("\n") if at <= len(lines) else ""
        word = re.match(r"\w+|.", shown[shift + column - 1 :])
        end = shift + column - 1 + (len(word[0]) if word else 1)
        return Span(origin.file, at, shift + column - 1, at, end, self.name, shown)

    # What it touches

    def mentioned(self, variant: str) -> frozenset[str]:
        """The arrays that a snippet names: it can read no others."""
        arrays = self.signature.arrays
        return frozenset(name for name in arrays if self.snippets.mentions(variant, name))

    def read(self, variant: str) -> frozenset[str]:
        """The arrays that a snippet may read: those that it names, but for those that it only assigns to."""
        code = self.snippets.of(variant)
        return frozenset(name for name in self.mentioned(variant) if not write_only(name, code))

    @cached_property
    def overwritten(self) -> frozenset[str]:
        """The parameters by reference that the snippet assigns at its start, without reading them."""
        code = COMMENTS.sub(" ", self.snippets.forward)
        first, end, _ = code.partition(";")
        assigned = re.fullmatch(r"\s*(\w+)\s*=(?!=)(.*)", first, re.DOTALL)
        if not end or assigned is None or re.search(rf"\b{assigned[1]}\b", assigned[2]):
            return frozenset()
        return frozenset({assigned[1]} & {*self.signature.references})

    def written(self, variant: str) -> frozenset[str]:
        """The arrays that a snippet may write to: those that the C compiler does not let be constant."""
        return self._written.get(variant, frozenset())

    @cached_property
    def _written(self) -> dict[str, frozenset[str]]:
        variants = [v for v in (FORWARD, REPLAY) if v in self.snippets.variants]
        key = self.symbol(FORWARD).rpartition("_")[0]
        content = objects.read(key, ".json")
        if content is not None:
            with suppress(ValueError, TypeError, KeyError, RecursionError):
                stored = json.loads(content)
                written = {variant: frozenset(stored[variant]) for variant in variants}
                if all(written[variant] <= self.mentioned(variant) for variant in variants):
                    return written
        found = {variant: self._probed(variant) for variant in variants}
        text = json.dumps({variant: sorted(names) for variant, names in found.items()})
        objects.write(key, text.encode(), ".json")
        return found

    def _probed(self, variant: str) -> frozenset[str]:
        names = sorted(self.mentioned(variant))

        def source(constant: list[str]) -> str:
            only = (variant,)
            return source_of(self.signature, self.snippets, variants=only, constant=frozenset(constant))

        if not names or build.accepts([source(names)])[0]:
            return frozenset()
        taken = build.accepts([source([name]) for name in names])
        return frozenset(name for name, constant in zip(names, taken, strict=True) if not constant)


@dataclass(frozen=True, eq=False)
class NativeCall:
    """One call of a native function in IR.

    Attributes:
        native: The function.
        variant: Which snippet runs.
        words: Its frame.
        params: The kernel's parameter behind each array of the function.
        active: In adjoints, the kernel's parameters that have an adjoint array.
    """

    native: ForeignFunction
    variant: str
    words: tuple[Word, ...]
    params: dict[str, int]
    active: frozenset[int] = frozenset()

    def _param_numbers(self, names: frozenset[str]) -> frozenset[int]:
        return frozenset(self.params[name] for name in names)

    @cached_property
    def reads(self) -> frozenset[int]:
        """The kernel's parameters that it may read."""
        return self._param_numbers(self.native.read(self.variant))

    @cached_property
    def writes(self) -> frozenset[int]:
        """The kernel's parameters that it may write to."""
        return (
            self._param_numbers(self.native.written(self.variant)) if self.variant != ADJOINT else frozenset()
        )

    @cached_property
    def adjoints(self) -> frozenset[int]:
        """The kernel's parameters whose adjoints it may read and change."""
        if self.variant != ADJOINT:
            return frozenset()
        named = (w.name for w in self.words if w.kind == "array_adjoint")
        used = frozenset(n for n in named if self.native.snippets.mentions(ADJOINT, f"adj_{n}"))
        return self._param_numbers(used)

    @property
    def by_value(self) -> bool:
        """True if a separate call computes each result from the arguments, so that no frame is needed."""
        return self.native.is_numba and not (self.native.raises and self.variant == FORWARD)

    @property
    def reads_final_values(self) -> bool:
        """True if it reads arrays as the launch left them."""
        return self.variant != FORWARD


# The library of generated code ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Called:
    """The properties of a symbol that plain Python needs to call it.

    Attributes:
        results: The words of the frame that hold results, each with its type.
        function: Gives the function, which takes the address of a frame.
        given: The words that are passed, if they are passed by themselves and one result is returned.
        place: And the word that is returned.
        last: The last word, which says the same.
    """

    results: tuple[tuple[int, str], ...]
    function: Callable[[], Any]
    given: tuple[int, ...] = ()
    place: int | None = None
    last: int = 0


CALLED: dict[str, Called] = {}
"""The functions that generated code of this process calls, by symbol."""


def _enter(symbol: str, native: Native, variant: str, f64: bool) -> None:
    if symbol in CALLED:
        return
    from tapedebug.compiler.llvm.native import enter_native

    results = []
    for place, word in enumerate(native.signature.words(variant)):
        changed = word.kind == "value" and word.name in native.signature.references and variant != ADJOINT
        if (changed or word.kind in ("result", "adjoint")) and word.scalar is not None:
            results.append((place, "f64" if f64 and word.scalar is t.float32 else word.scalar.code))
    CALLED[symbol] = Called(tuple(results), lambda: build.function(symbol))
    enter_native(symbol)
