"""The inverse error function: a rough start, and two steps of Halley's method, in double precision.

`python_library` has the same in Python, step by step. The start beyond one half is formula 26.2.22 of
Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964).
"""

from __future__ import annotations

import math
import struct

from tapedebug.compiler.llvm.library import PURE, Call, c_function, defined, entry, fitting, llvm_type

START = (2.30753, 0.27061, 0.99229, 0.04481)
NEAR = (0.886227, 0.232014)
"""The first two coefficients of the series at 0."""


def erfinv(x: float) -> float:
    """The number whose error function is `x`; infinite at 1 and -1, NaN beyond."""
    a = abs(x)
    if not a < 1.0:
        return math.copysign(math.inf, x) if a == 1.0 else math.nan
    y = a * (NEAR[0] + NEAR[1] * a * a)
    if a >= 0.5:
        s = math.sqrt(-2.0 * math.log((1.0 - a) * 0.5))
        y = (s - (START[0] + s * START[1]) / (1.0 + s * (START[2] + s * START[3]))) * math.sqrt(0.5)
    for _ in range(2):
        # Near 1 what is left of it has all the digits.
        off = (1.0 - a) - math.erfc(y) if a >= 0.5 else math.erf(y) - a
        u = off / (math.exp(-(y * y)) * (2.0 / math.sqrt(math.pi)))
        y = y - u / (1.0 + y * u)
    return math.copysign(y, x)


class _Body:
    """Instructions on doubles, written one after the other."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.needs: list[str] = []

    def add(self, text: str) -> str:
        """An instruction; the name of its value."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def of(self, kind: str, *operands: str) -> str:
        """An operation on doubles."""
        return self.add(f"{kind} double {', '.join(operands)}")

    def call(self, name: str, operand: str) -> str:
        """A function of the C library."""
        call = c_function(name, "f64", ("f64",), PURE)
        self.needs.extend(call.needs)
        return self.add(call.text.replace("{r} = ", "").format(operand))


def _start(b: _Body, a: str) -> str:
    """The rough value at `a`, of [0, 1]."""
    square = b.of("fmul", a, a)
    slope = b.of("fadd", b.of("fmul", square, _number(NEAR[1])), _number(NEAR[0]))
    left = b.of("fmul", b.of("fsub", _number(1.0), a), _number(0.5))
    s = b.call("sqrt", b.of("fmul", b.call("log", left), _number(-2.0)))
    above = b.of("fadd", b.of("fmul", s, _number(START[1])), _number(START[0]))
    inner = b.of("fadd", b.of("fmul", s, _number(START[3])), _number(START[2]))
    below = b.of("fadd", b.of("fmul", s, inner), _number(1.0))
    far = b.of("fmul", b.of("fsub", s, b.of("fdiv", above, below)), _number(math.sqrt(0.5)))
    return _chosen(b, a, far, b.of("fmul", a, slope))


def _chosen(b: _Body, a: str, beyond: str, within: str) -> str:
    """One of two values by whether `a` is at least one half."""
    large = b.add(f"fcmp oge double {a}, {_number(0.5)}")
    return b.add(f"select i1 {large}, double {beyond}, double {within}")


def _step(b: _Body, a: str, y: str) -> str:
    """A step of Halley's method."""
    left = b.of("fsub", _number(1.0), a)
    beyond, within = b.of("fsub", left, b.call("erfc", y)), b.of("fsub", b.call("erf", y), a)
    density = b.call("exp", b.of("fneg", b.of("fmul", y, y)))
    slope = b.of("fmul", density, _number(2.0 / math.sqrt(math.pi)))
    u = b.of("fdiv", _chosen(b, a, beyond, within), slope)
    return b.of("fsub", y, b.of("fdiv", u, b.of("fadd", b.of("fmul", y, u), _number(1.0))))


@entry("m_erfinv")
def _erfinv(x: str) -> Call:
    fitting(x in ("f32", "f64"), x)
    b, kind = _Body(), llvm_type(x)
    wide = b.add("fpext float %0 to double") if x == "f32" else "%0"
    fabs, copysign = "@llvm.fabs.f64", "@llvm.copysign.f64"
    a = b.add(f"call double {fabs}(double {wide})")
    y = _step(b, a, _step(b, a, _start(b, a)))
    inside = b.add(f"fcmp olt double {a}, {_number(1.0)}")
    end = b.add(f"fcmp oeq double {a}, {_number(1.0)}")
    outside = b.add(f"select i1 {end}, double {_number(math.inf)}, double {_number(math.nan)}")
    size = b.add(f"select i1 {inside}, double {y}, double {outside}")
    value = b.add(f"call double {copysign}(double {size}, double {wide})")
    value = b.add(f"fptrunc double {value} to float") if x == "f32" else value
    needs = (f"declare double {fabs}(double)", f"declare double {copysign}(double, double)", *b.needs)
    return defined("m_erfinv", x, (x,), "\n".join([*b.lines, f"ret {kind} {value}"]), *needs)


def _number(value: float) -> str:
    """A double, as LLVM writes it."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
