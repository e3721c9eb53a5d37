"""Versions of functions that users compile with Numba (`@numba.njit`), as kernels call them.

A function takes numbers and returns a number, or a tuple of numbers. Each version of it, for the types of its
arguments, has what a native function has: a frame of words, variants (forward and adjoint), and a symbol for
each. Its code is linked into the object code of the kernels that call it. It is kept beside these, under the
function's fingerprint: a process that finds it there compiles nothing with Numba.

Numba is imported only when a function has to be typed or compiled.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.compiler import objects
from tapedebug.compiler.fingerprint import numba_fingerprint
from tapedebug.compiler.function import Function
from tapedebug.compiler.llvm.native import enter_native, enter_value
from tapedebug.compiler.native.function import CALLED, Called
from tapedebug.compiler.native.unit import ADJOINT, FORWARD, Signature, Snippets, Word
from tapedebug.compiler.numba_functions import version
from tapedebug.lang import types as t
from tapedebug.lang.lowering import SHORT_FLOATS, llvm_type

SUFFIX = ".njit"
"""The suffix of files with the code of a version."""
SYMBOL = re.compile(r"\bnjit0?_\w+")
"""Those of versions; a 0 stands in those that no other process knows by the same name."""
RAISES = re.compile(r"@\.const\.picklebuf|@PyErr_")
"""A symbol that optimized code refers to if it can raise an exception."""
Parameters = tuple[tuple[str, type[t.Scalar]], ...]
BY_CODE: dict[str, type[t.Scalar]] = {s.code: s for s in t.SCALARS if s not in SHORT_FLOATS}


def version_of(function: Function, parameters: Parameters) -> NumbaVersion:
    """Return the version of a function for arguments of these types, compiled unless the cache has it.

    Raises:
        NotCompiled: Numba refuses it, or it returns what kernels cannot take.
    """
    assert function.numba is not None
    dispatcher = function.numba()
    known = _versions.setdefault(dispatcher, {})
    if parameters not in known:
        known[parameters] = NumbaVersion(dispatcher, parameters)
    return known[parameters]


_versions: weakref.WeakKeyDictionary[Any, dict[Parameters, NumbaVersion]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class NumbaSignature(Signature):
    """The parameters of a version, and the types of its results, of which there may be several or none."""

    results: tuple[type[t.Scalar], ...] = ()

    def words(self, variant: str) -> list[Word]:
        """Return the frame of a variant.

        Forward, the last word says where an exception is, if one was raised. Of the adjoint, it says which
        word is wanted: the adjoint of one argument.
        """
        found = [Word(name, "value", 0, kind) for name, kind in self.parameters]
        if variant == FORWARD:
            found += [Word("ret", "result", k, kind) for k, kind in enumerate(self.results)]
            return [*found, Word("ret", "status", 0, t.int64)]
        found += [Word(name, "adjoint", 0, kind) for name, kind in self.parameters if kind in t.FLOATS]
        found += [Word("ret", "seed", k, kind) for k, kind in enumerate(self.results) if kind in t.FLOATS]
        return [*found, Word("which", "which", 0, t.int64)]


@dataclass(frozen=True)
class _Unit:
    """The code of one variant.

    Attributes:
        results: The types of the results, as Numba finds them for the types of the variant.
        single: It returns one value, and no tuple.
        assembly: LLVM assembly of the wrapper, in which `{symbol}` stands for its symbol.
    """

    results: tuple[str, ...]
    single: bool
    assembly: str


class NumbaVersion:
    """A function of Numba's for arguments of certain types; to the compiler, a native function.

    Attributes:
        name: The function's name.
        signature: Its parameters and results.
        snippets: Has an adjoint if it is differentiable.
        raises: It can raise an exception.
        single: It returns one value, and no tuple.
    """

    is_numba = True

    def __init__(self, dispatcher: Any, parameters: Parameters) -> None:
        self._dispatcher = weakref.ref(dispatcher)
        self.name: str = dispatcher.py_func.__name__
        self._fingerprint = numba_fingerprint(dispatcher)
        self._made_of = self._fingerprint or f"{os.getpid()} {os.urandom(16).hex()}"
        self._units: dict[tuple[str, bool], _Unit] = {}
        self.signature = NumbaSignature(self.name, parameters)
        first = self._unit(FORWARD, f64=False)
        results = tuple(BY_CODE[code] for code in first.results)
        self.signature = NumbaSignature(self.name, parameters, results=results)
        self.single = first.single
        self.raises = RAISES.search(first.assembly) is not None
        floats = any(kind in t.FLOATS for _, kind in parameters) and any(kind in t.FLOATS for kind in results)
        self.snippets = Snippets("", "finite differences" if floats else None)

    def symbol(self, variant: str, *, f64: bool = False) -> str:
        """Return the symbol of a variant, with which generated code calls it.

        Raises:
            NotCompiled: Numba refuses it.
        """
        unit, key = self._unit(variant, f64=f64), self._key(variant, f64)
        name = re.sub(r"[^0-9A-Za-z_]", "_", self.name)
        symbol = f"njit{'' if self._fingerprint else '0'}_{name}_{key[:20]}"
        if symbol not in MODULES:
            MODULES[symbol] = (unit.assembly.replace("{symbol}", symbol),)
            written = [
                (place, code)
                for place, (word, code) in enumerate(self._words(variant, f64))
                if word.kind in ("result", "adjoint", "status")
            ]
            CALLED[symbol] = Called(tuple(written), lambda: _loaded(symbol, key))
            enter_native(symbol)
        return symbol

    def value_symbol(self, variant: str, place: int, *, f64: bool = False) -> str:
        """Return the symbol of one result of a variant, as a function of its arguments without a frame.

        It is for functions that raise nothing. Threads in lanes call it one after the other.

        Raises:
            NotCompiled: Numba refuses it.
        """
        frame = self.symbol(variant, f64=f64)
        symbol = f"{frame}_{place}"
        if symbol not in MODULES:
            words = self._words(variant, f64)
            given = {k: code for k, (word, code) in enumerate(words) if word.kind in GIVEN}
            result = words[place][1]
            MODULES[symbol] = (
                _value_module(symbol, frame, given, place, result, len(words)),
                *MODULES[frame],
            )
            called = CALLED[frame]
            CALLED[symbol] = Called(called.results, called.function, tuple(given), place, len(words) - 1)
            enter_value(symbol, tuple(given.values()), result)
        return symbol

    @property
    def _function(self) -> Any:
        found = self._dispatcher()
        assert found is not None, self.name
        return found

    @property
    def narrows(self) -> bool:
        """True if it computes some result in float32 also for float64 arguments, as its types say."""
        return "f32" in self._unit(FORWARD, f64=True).results

    def called(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return its results for values of NumPy, those of its float64 twin for float64 in place of float32.

        Raises:
            Exception: It raised one.
        """
        from tapedebug.compiler.numba_float64 import float64_twin

        function = self._function
        kinds = [kind for _, kind in self.signature.parameters]
        if any(
            kind is t.float32 and isinstance(v, np.float64) for kind, v in zip(kinds, values, strict=True)
        ):
            function = float64_twin(function)
        found = function(*values)
        return (found,) if self.single else tuple(found)

    def read(self, variant: str) -> frozenset[str]:
        """Return the arrays that it reads: it is given none."""
        return frozenset()

    written = mentioned = read

    def _words(self, variant: str, f64: bool) -> list[tuple[Word, str]]:
        return [
            (word, "f64" if f64 and word.scalar is t.float32 else word.scalar.code)
            for word in self.signature.words(variant)
            if word.scalar is not None
        ]

    def _key(self, variant: str, f64: bool) -> str:
        types = [(name, kind.code) for name, kind in self.signature.parameters]
        made_of = (objects.processor(), version(), self._made_of, variant, f64, types)
        return hashlib.sha256(repr(made_of).encode()).hexdigest()

    def _unit(self, variant: str, *, f64: bool) -> _Unit:
        if (variant, f64) not in self._units:
            self._units[variant, f64] = self._cached_unit(variant, f64) or self._compiled(variant, f64)
        return self._units[variant, f64]

    def _cached_unit(self, variant: str, f64: bool) -> _Unit | None:
        content = objects.read(self._key(variant, f64), SUFFIX) if self._fingerprint else None
        if content is not None:
            with suppress(ValueError, TypeError, KeyError, RecursionError):
                stored = json.loads(content)
                return _Unit(tuple(stored["results"]), bool(stored["single"]), str(stored["assembly"]))
        return None

    def _compiled(self, variant: str, f64: bool) -> _Unit:
        from tapedebug.compiler import numba_wrappers as wrappers
        from tapedebug.compiler.numba_float64 import float64_twin

        wide = f64 or variant == ADJOINT
        parameters = self.signature.parameters
        codes = ["f64" if wide and kind is t.float32 else kind.code for _, kind in parameters]
        dispatcher = self._function
        if wide:
            dispatcher = float64_twin(dispatcher)
        results, single = wrappers.typed(dispatcher, codes)
        if variant == FORWARD and not f64:  # which says what the results are
            kinds = tuple(BY_CODE[code] for code in results)
            self.signature = NumbaSignature(self.name, parameters, results=kinds)
        words = self._words(variant, f64)
        wrappers.require_same(results, [kind.code for kind in self.signature.results], codes)
        make = wrappers.forward_text if variant == FORWARD else wrappers.adjoint_text
        unit = _Unit(results, single, wrappers.assembly(dispatcher, make(words, single), words))
        if self._fingerprint:
            objects.write(self._key(variant, f64), json.dumps(asdict(unit)).encode(), SUFFIX)
        return unit


# Linking ----------------------------------------------------------------------------------------------------

MODULES: dict[str, tuple[str, ...]] = {}
"""The modules, in LLVM assembly, that define the symbols which generated code of this process calls."""


def linked_with(code: str) -> list[str]:
    """Return the modules that generated code has to be linked with."""
    symbols = (symbol for symbol in SYMBOL.findall(code) if symbol in MODULES)
    return list(dict.fromkeys(module for symbol in symbols for module in MODULES[symbol]))


GIVEN = ("value", "adjoint", "seed")
"""The kinds of words that hold arguments of a call."""


def _value_module(symbol: str, frame: str, given: dict[int, str], place: int, result: str, size: int) -> str:
    """Return LLVM assembly of a function of these words of a frame: calls `frame`, returns one word."""
    operands = ", ".join(f"{llvm_type(code)} %x{k}" for k, code in given.items())
    lines = [
        f"%frame = alloca [{size} x i64]",
        f"%last = getelementptr i64, ptr %frame, i64 {size - 1}",
        f"store i64 {place}, ptr %last",
    ]
    for k, code in given.items():
        value = f"{llvm_type(code)} %x{k}"
        if code == "b1":
            lines.append(f"%b{k} = zext i1 %x{k} to i8")
            value = f"i8 %b{k}"
        lines += [f"%at{k} = getelementptr i64, ptr %frame, i64 {k}", f"store {value}, ptr %at{k}"]
    lines += [f"call void @{frame}(ptr %frame)", f"%result = getelementptr i64, ptr %frame, i64 {place}"]
    if result == "b1":
        lines += ["%byte = load i8, ptr %result", "%value = trunc i8 %byte to i1"]
    else:
        lines.append(f"%value = load {llvm_type(result)}, ptr %result")
    kind = llvm_type(result)
    header = f"define linkonce_odr {kind} @{symbol}({operands}) alwaysinline nounwind"
    body = "\n".join(f"  {line}" for line in [*lines, f"ret {kind} %value"])
    return f"declare void @{frame}(ptr)\n{header} {{\n{body}\n}}\n"


def _loaded(symbol: str, key: str) -> Any:
    """Return a variant as a function of `ctypes`, for plain Python."""
    from tapedebug.compiler.llvm.machine import object_code

    assembly = MODULES[symbol][0].replace("define linkonce_odr void", "define void")
    address = objects.load(key, symbol, object_code(assembly)).address
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)
