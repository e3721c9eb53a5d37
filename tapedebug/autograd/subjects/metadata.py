"""Names, shapes and types of the arguments of a kernel or function, for plots and messages."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from tapedebug._dataclass import dataclass
from tapedebug.autograd.array_types import ValueType
from tapedebug.autograd.subjects.entry_names import value_type
from tapedebug.autograd.subjects.program import Place
from tapedebug.contract import is_array
from tapedebug.lang.types import ArrayType, float32, is_generic
from tapedebug.runtime.launch.argument_flattening import named_parts

if TYPE_CHECKING:
    from tapedebug.compiler.kernel import Kernel


Strides = tuple[int, ...] | None
Named = tuple[int, str, Any]
"""Place, name and value of an argument."""


@dataclass
class FunctionMetadata:
    """Labels and element types of the inputs and outputs of a kernel or function.

    Lists have the arguments in order, followed by the fields of arguments that are structs.

    Attributes:
        key: Name of the kernel or function; None if nothing is known yet.
        input_labels, output_labels: Names.
        input_strides, output_strides: Byte strides of arrays, None for other arguments.
        input_dtypes, output_dtypes: Element types of arrays, None for other arguments.
    """

    key: str | None = None
    input_labels: list[str] = field(default_factory=list)
    output_labels: list[str] = field(default_factory=list)
    input_strides: list[Strides] = field(default_factory=list)
    output_strides: list[Strides] = field(default_factory=list)
    input_dtypes: list[Any] = field(default_factory=list)
    output_dtypes: list[Any] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """True if nothing is known yet."""
        return self.key is None

    def input(self, place: Place) -> tuple[str, Any]:
        """Return label and element type of an input."""
        index = self.input_labels.index(place) if isinstance(place, str) else place
        return self.input_labels[index], self.input_dtypes[index]

    def output(self, place: Place) -> tuple[str, Any]:
        """Return label and element type of an output."""
        index = self.output_labels.index(place) if isinstance(place, str) else place
        return self.output_labels[index], self.output_dtypes[index]

    @classmethod
    def of_kernel(cls, kernel: Kernel, inputs: Sequence[Any]) -> FunctionMetadata:
        """Return the metadata of a kernel whose first arguments are `inputs`.

        If these are all its arguments, the outputs are the arrays that it writes.
        """
        count = len(inputs)
        names = [param.name for param in kernel.signature]
        further = [p for p in kernel.params if p.declared >= count]
        if not further:
            further = [p for p in kernel.params if p.index in kernel.analysis.writes]
        places = {p: place for place, p in enumerate(dict.fromkeys(p.declared for p in further))}
        given = _Side(names[:count])
        for place, (name, value) in enumerate(zip(names, inputs, strict=False)):
            given.add(place, name, value)
        wanted = _Side([names[p] for p in places])
        for param in further:
            dtype = param.type.dtype if isinstance(param.type, ArrayType) else None
            if dtype is not None and is_generic(dtype):
                dtype = float32  # what it will be depends on the arrays; scalars have no inner grid
            wanted.put(places[param.declared], param.name, dtype, None)
        return cls._of(kernel.key, given, wanted)

    @classmethod
    def of_launch(cls, kernel: Kernel, inputs: Sequence[Named], outputs: Sequence[Named]) -> FunctionMetadata:
        """Return the metadata of a kernel with flat arguments, given as (place, name, value)."""
        declared = {p.name: kernel.signature[p.declared].name for p in kernel.params}
        count = 1 + max((place for place, _, _ in inputs), default=-1)
        given = _Side([param.name for param in kernel.signature[:count]])
        wanted = _Side(list(dict.fromkeys(declared[name] for _, name, _ in outputs)))
        for side, named in ((given, inputs), (wanted, outputs)):
            for place, name, value in named:
                side.add(place, name, value)
        return cls._of(kernel.key, given, wanted)

    @classmethod
    def of_call(cls, name: str, inputs: Sequence[Named], outputs: Sequence[Named]) -> FunctionMetadata:
        """Return the metadata of a call of a Python function, with flattened arguments and results."""
        given, wanted = _Side(_owners(inputs)), _Side(_owners(outputs))
        for side, named in ((given, inputs), (wanted, outputs)):
            for place, label, value in named:
                side.add(place, label, value)
        return cls._of(name, given, wanted)

    @classmethod
    def _of(cls, key: str, given: _Side, wanted: _Side) -> FunctionMetadata:
        return cls(
            key=key,
            input_labels=given.labels,
            output_labels=wanted.labels,
            input_strides=given.strides,
            output_strides=wanted.strides,
            input_dtypes=given.dtypes,
            output_dtypes=wanted.dtypes,
        )


class _Side:
    """The inputs or the outputs: the declared arguments, then the fields of structs."""

    def __init__(self, declared: Sequence[str]) -> None:
        self.labels = list(declared)
        self.strides: list[Strides] = [None] * len(self.labels)
        self.dtypes: list[Any] = [None] * len(self.labels)

    def add(self, place: int, name: str, value: object) -> None:
        """Return a value, flattened."""
        for part, inner in named_parts(name, value):
            known = is_array(inner)
            self.put(place, part, value_type(inner) if known else None, inner.strides if known else None)

    def put(self, place: int, name: str, dtype: ValueType | None, strides: Strides) -> None:
        """Return one argument, or a field of one."""
        if name == self.labels[place]:
            self.dtypes[place], self.strides[place] = dtype, strides
            return
        self.labels.append(name)
        self.dtypes.append(dtype)
        self.strides.append(strides)


def _owners(named: Sequence[Named]) -> list[str]:
    """Return the names of the arguments that named values are, or are parts of."""
    owners = {place: re.split(r"[.\[]", name)[0] for place, name, _ in named}
    return [owners.get(place, "") for place in range(max(owners, default=-1) + 1)]


def input_names(function: Callable[..., Any], count: int) -> list[str]:
    """Return the names of a Python function's first `count` arguments; `rest_0`, `rest_1` for `*rest`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    if rest is not None:
        names += [f"{rest}_{i}" for i in range(count - len(names))]
    return [names[i] if i < len(names) else f"input_{i}" for i in range(count)]
