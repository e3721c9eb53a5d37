"""The functions that kernels call: `wp.sin`, `wp.dot`, `wp.tid`, `wp.atomic_add` and so on.

Each is a small object that the compiler recognises. Calling one outside a kernel raises an error.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

from tapedebug._errors import TapedebugError
from tapedebug.lang.rules import COMPOSITES, DRAWS, RULES

SPECIAL = {
    "tid": "The index of the current thread: `i = tid()`, or `i, j = tid()` for two to four axes.",
    "atomic_add": "Add to an array element, safely when several threads do; returns the value before.",
    "atomic_sub": "Subtract from an array element, safely when several threads do; returns the value before.",
    "atomic_min": "Let an array element hold the smaller of its value and another; returns the value before.",
    "atomic_max": "Let an array element hold the larger of its value and another; returns the value before.",
    "atomic_exch": "Write to an array element; returns the value before.",
    "atomic_cas": "Write `value` to an array element that equals `compare`; returns the value before.",
    "atomic_and": "Keep those bits of an array element that another integer has; returns the value before.",
    "atomic_or": "Set the bits of another integer in an array element; returns the value before.",
    "atomic_xor": "Flip the bits of another integer in an array element; returns the value before.",
    "expect_eq": "Print a message where two values are not equal; the kernel runs on.",
    "expect_neq": "Print a message where two values are equal; the kernel runs on.",
    "expect_near": "Print a message where two floats, or components, differ by more than a tolerance.",
    "print": "Print values and text, as Python's print does; shown after the launch, in thread order.",
    "view": "Part of an array, without a copy: `view(a, i)` is `a[i]`.",
    "printf": "Print values by a format, as in C; shown after the launch, in thread order.",
    "lower_bound": "First index (int32) of a sorted array whose element is not below a value; else the last.",
    "cast": "The number of another type of the same size that has the same bits; no derivative passes.",
    "identity": "Square matrix of `n` rows with 1 on its diagonal; `n` is known when the kernel is compiled.",
    "matrix": "Matrix of numbers, row by row, or zeros; or of a position, a rotation and a scale.",
    "quat_identity": "The quaternion of no rotation: 0, 0, 0, 1.",
    "quaternion": "Quaternion of x, y, z, w, of a vector and w, of another quaternion, or zeros.",
    "transform_identity": "The transform that moves nothing.",
    "transform_set_rotation": "Give a variable that holds a transform another rotation, as `t.q = q`.",
    "transform_set_translation": "Give a variable that holds a transform another translation, as `t.p = p`.",
    "transformation": "Transform of a translation and a rotation, of seven numbers, or the identity.",
    "vector": "Vector of these numbers, of one number `length` times, or zeros.",
}

SCALAR_FUNCTIONS = sorted(name for name, rule in RULES.items() if rule.public)
"""Rules that users call by name; the others are what operators and conversions mean."""
OPERATORS = {"add", "sub", "neg", "mul", "div", "matmul", "eq", "ne"}
OPERATORS |= {"bit_and", "bit_or", "bit_xor", "invert", "lshift", "rshift"}
"""Composites that are written as operators."""
BOTH = OPERATORS - {"eq", "ne", "matmul"}
"""Operators that are functions, too: `mul(a, b)`."""
COMPOSITE_FUNCTIONS = [name for name in COMPOSITES if name not in OPERATORS or name in BOTH]


class Builtin:
    """A function of the kernel language; those that compute may be called outside kernels, too.

    Attributes:
        name: Its name in kernels.
        __doc__: What it computes.
    """

    def __init__(self, name: str, doc: str) -> None:
        self.name = name
        self.__name__ = name
        self.__doc__ = doc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The value on numbers, vectors and other compound values.

        Raises:
            TapedebugError: It means nothing outside a kernel: there is no thread.
            TypeError: The arguments do not fit.
        """
        from tapedebug.lang import numpy_eval

        return numpy_eval.call(self.name, args, kwargs)

    def __repr__(self) -> str:
        return f"<kernel function {self.name}>"


BUILTINS: dict[str, Builtin] = {
    **{name: Builtin(name, RULES[name].doc) for name in SCALAR_FUNCTIONS},
    **{name: Builtin(name, COMPOSITES[name].doc) for name in COMPOSITE_FUNCTIONS},
    **{name: Builtin(name, draw.doc) for name, draw in DRAWS.items()},
    **{name: Builtin(name, doc) for name, doc in SPECIAL.items()},
}

CONSTANTS = {
    "pi": math.pi,
    "tau": math.tau,
    "e": math.e,
    "half_pi": math.pi / 2,
    "ln2": math.log(2),
    "ln10": math.log(10),
    "log2e": math.log2(math.e),
    "log10e": math.log10(math.e),
    "phi": (1 + math.sqrt(5)) / 2,
    "inf": math.inf,
    "nan": math.nan,
}
CONSTANTS |= {name.upper(): number for name, number in CONSTANTS.items()}
"""Numbers that kernels and scripts may use by name (float32 in kernels)."""


class AdjointOf:
    """`adjoint[x]`: in a gradient function, the derivative by its input `x` as gathered so far."""

    __name__ = "adjoint"

    def __getitem__(self, key: Any) -> NoReturn:
        """Refuse: there is no reverse pass outside a gradient function."""
        raise TapedebugError(
            "adjoint[…] belongs to the kernel language and was used outside a kernel",
            hint="use it inside a function decorated with @func_grad(f); an array's gradient is its .grad",
        )

    def __repr__(self) -> str:
        return "<adjoint of gradient functions>"


adjoint = AdjointOf()


def static(expression: Any) -> Any:
    """Compute a Python expression when a kernel is compiled, and use its result in the kernel.

    Outside kernels it is its argument.
    """
    return expression


def constant(value: Any) -> Any:
    """Mark a Python value as a constant that kernels may capture; returns it unchanged."""
    return value
