"""Functions that no target provides: formulas in double precision, lowered to each target.

The formula is a Python function of `Double` values, with Python's operators. On NumPy scalars it computes;
for LLVM it writes the instructions, so that both do the same operations in the same order.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from tapedebug.lang.lowering import (
    PURE,
    Function,
    Instructions,
    c_function,
    defined,
    double,
    fitting,
    function,
    llvm_type,
)

OPERATORS = {"fadd": operator.add, "fsub": operator.sub, "fmul": operator.mul, "fdiv": operator.truediv}
COMPARISONS = {"oge": operator.ge, "olt": operator.lt, "oeq": operator.eq}


class Double(ABC):
    """A number of float64 in a formula."""

    @abstractmethod
    def constant(self, value: float) -> Double:
        """A number that is known."""

    @abstractmethod
    def operate(self, kind: str, other: Double) -> Double:
        """`fadd`, `fsub`, `fmul` or `fdiv`."""

    @abstractmethod
    def negated(self) -> Double:
        """The number with the other sign."""

    @abstractmethod
    def compared(self, how: str, other: Double) -> Any:
        """Return a flag: `oge`, `olt` or `oeq` holds."""

    @abstractmethod
    def chosen(self, condition: Any, other: Double) -> Double:
        """This number where a condition holds, else the other; both are computed."""

    @abstractmethod
    def of(self, symbol: str) -> Double:
        """A function of the C library: `sqrt`, `exp`, `log`, `erf` or `erfc`."""

    @abstractmethod
    def size(self) -> Double:
        """The absolute value."""

    @abstractmethod
    def with_sign_of(self, other: Double) -> Double:
        """The number with the sign of another."""

    def _lift(self, other: Double | float) -> Double:
        return other if isinstance(other, Double) else self.constant(other)

    def __add__(self, other: Double | float) -> Double:
        return self.operate("fadd", self._lift(other))

    def __sub__(self, other: Double | float) -> Double:
        return self.operate("fsub", self._lift(other))

    def __mul__(self, other: Double | float) -> Double:
        return self.operate("fmul", self._lift(other))

    def __truediv__(self, other: Double | float) -> Double:
        return self.operate("fdiv", self._lift(other))

    def __rsub__(self, other: float) -> Double:
        return self.constant(other) - self

    def __neg__(self) -> Double:
        return self.negated()

    def __ge__(self, other: float) -> Any:
        return self.compared("oge", self.constant(other))

    def __lt__(self, other: float) -> Any:
        return self.compared("olt", self.constant(other))

    def equals(self, other: float) -> Any:
        """Return a flag: it equals this number."""
        return self.compared("oeq", self.constant(other))

    def where(self, condition: Any, other: Double | float) -> Double:
        """This number where a condition holds, else the other."""
        return self.chosen(condition, self._lift(other))


Formula = Callable[[Double], Double]


def formula(name: str, of: Formula) -> Function:
    """Enter a function of one float that is computed by a formula."""

    def python(x: Any) -> Any:
        with np.errstate(all="ignore"):
            found = of(_Number(np.float64(x)))
        assert isinstance(found, _Number)
        return x.dtype.type(found.value)

    def llvm(x: str) -> Instructions:
        fitting(x in ("f32", "f64"), x)
        lines: list[str] = []
        needs: list[str] = []
        kind = llvm_type(x)
        wide = _Register(lines, needs, "%0")
        if x == "f32":
            wide = wide.written("fpext float %0 to double")
        found = of(wide)
        assert isinstance(found, _Register)
        if x == "f32":
            found = found.written(f"fptrunc double {found.name} to float")
        body = "\n".join([*lines, f"ret {kind} {found.name}"])
        return defined(name, x, (x,), body, *dict.fromkeys(needs))

    return function(name, python, llvm)


class _Number(Double):
    """A number that is known when the formula runs."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def constant(self, value: float) -> _Number:
        return _Number(np.float64(value))

    def operate(self, kind: str, other: Any) -> _Number:
        return _Number(OPERATORS[kind](self.value, other.value))

    def negated(self) -> _Number:
        return _Number(-self.value)

    def compared(self, how: str, other: Any) -> bool:
        return bool(COMPARISONS[how](self.value, other.value))

    def chosen(self, condition: bool, other: Any) -> Any:
        return self if condition else other

    def of(self, symbol: str) -> _Number:
        try:
            return _Number(np.float64(getattr(math, symbol)(self.value)))
        except (ValueError, OverflowError):  # where C gives an infinity or NaN
            return _Number(getattr(np, symbol)(self.value))

    def size(self) -> _Number:
        return _Number(abs(self.value))

    def with_sign_of(self, other: Any) -> _Number:
        return _Number(np.copysign(self.value, other.value))


class _Register(Double):
    """A register of LLVM; operations write instructions."""

    def __init__(self, lines: list[str], needs: list[str], name: str) -> None:
        self.lines, self.needs, self.name = lines, needs, name

    def written(self, instruction: str) -> _Register:
        """The value of one more instruction."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {instruction}")
        return _Register(self.lines, self.needs, name)

    def constant(self, value: float) -> _Register:
        return _Register(self.lines, self.needs, double(value))

    def operate(self, kind: str, other: Any) -> _Register:
        return self.written(f"{kind} double {self.name}, {other.name}")

    def negated(self) -> _Register:
        return self.written(f"fneg double {self.name}")

    def compared(self, how: str, other: Any) -> str:
        return self.written(f"fcmp {how} double {self.name}, {other.name}").name

    def chosen(self, condition: str, other: Any) -> _Register:
        return self.written(f"select i1 {condition}, double {self.name}, double {other.name}")

    def of(self, symbol: str) -> _Register:
        call = c_function(symbol, "f64", ("f64",), PURE)
        self.needs.extend(call.needs)
        return self.written(call.text.removeprefix("{r} = ").format(self.name))

    def size(self) -> _Register:
        self.needs.append("declare double @llvm.fabs.f64(double)")
        return self.written(f"call double @llvm.fabs.f64(double {self.name})")

    def with_sign_of(self, other: Any) -> _Register:
        self.needs.append("declare double @llvm.copysign.f64(double, double)")
        return self.written(f"call double @llvm.copysign.f64(double {self.name}, double {other.name})")
