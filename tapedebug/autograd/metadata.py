"""What plots and messages need to know of a kernel's or a function's arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tapedebug.autograd.pairs import is_array
from tapedebug.lang.types import ArrayType


@dataclass
class FunctionMetadata:
    """Labels and element types of the inputs and outputs of a kernel or function.

    Attributes:
        key: Name of the kernel or function; None where nothing is known yet.
        input_labels, output_labels: Names.
        input_strides, output_strides: Byte strides of arrays, None for other arguments.
        input_dtypes, output_dtypes: Element types of arrays, None for other arguments.
    """

    key: str | None = None
    input_labels: list[str] = field(default_factory=list)
    output_labels: list[str] = field(default_factory=list)
    input_strides: list[tuple[int, ...] | None] = field(default_factory=list)
    output_strides: list[tuple[int, ...] | None] = field(default_factory=list)
    input_dtypes: list[Any] = field(default_factory=list)
    output_dtypes: list[Any] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known yet."""
        return self.key is None

    @classmethod
    def of_kernel(cls, kernel: Any, inputs: Sequence[Any]) -> FunctionMetadata:
        """The metadata of a kernel whose first arguments are `inputs`."""
        count = len(inputs)
        types = [p.type for p in kernel.params]
        return cls(
            key=kernel.key,
            input_labels=[p.name for p in kernel.params[:count]],
            output_labels=[p.name for p in kernel.params[count:]],
            input_strides=[a.strides if is_array(a) else None for a in inputs],
            output_strides=[None] * (len(types) - count),
            input_dtypes=[t.dtype if isinstance(t, ArrayType) else None for t in types[:count]],
            output_dtypes=[t.dtype if isinstance(t, ArrayType) else None for t in types[count:]],
        )

    @classmethod
    def of_function(
        cls, function: Callable[..., Any], inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> FunctionMetadata:
        """The metadata of a Python function that maps `inputs` to `outputs`."""
        return cls(
            key=getattr(function, "__name__", type(function).__name__),
            input_labels=input_names(function, len(inputs)),
            output_labels=[f"output_{i}" for i in range(len(outputs))],
            input_strides=[a.strides if is_array(a) else None for a in inputs],
            output_strides=[a.strides for a in outputs],
            input_dtypes=[a.dtype if is_array(a) else None for a in inputs],
            output_dtypes=[a.dtype for a in outputs],
        )


def input_names(function: Callable[..., Any], count: int) -> list[str]:
    """The names of the first `count` arguments of a Python function."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [names[i] if i < len(names) else f"input_{i}" for i in range(count)]
