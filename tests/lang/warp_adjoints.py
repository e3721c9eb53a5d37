"""Measures the adjoints of warp-lang's functions: `python -m tests.lang.warp_adjoints` writes the table.

Every case of the rule table's checker, and what has no case there, becomes a kernel that both engines run.
Where warp-lang computes the same values, its gradient with respect to each operand is compared with ours.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.lang.cases import HEADERS, TABLES
from tests.lang.cases import KINDS as OPERANDS
from tests.lang.cases.base import WIDE, Case, Domain

KINDS = OPERANDS | {"y": ("mat22_t", lambda n: (2, 2))}
THREADS = 12
SCALARS = {"float32": np.float32, "float64": np.float64}
INTERNAL = {"norm_of_square", "sign0"}
"""Rules that no program calls."""
FLAT = {
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "and",
    "or",
    "not",
    "isnan",
    "isinf",
    "isfinite",
    "argmin",
    "argmax",
}
FLAT |= {"bit_count", "rand_init", "select", *(f"to_{s}{n}" for s in "iub" for n in (1, 8, 16, 32, 64))}
"""Operations of integers and conditions, which have no adjoint anywhere; `select` is no function of warp-lang any more."""
TYPES = """vec1 = wp.types.vector(1, scalar)
vec2_t = wp.types.vector(2, scalar)
vec3_t = wp.types.vector(3, scalar)
mat22_t = wp.types.matrix((2, 2), scalar)
mat44_t = wp.types.matrix((4, 4), scalar)
quat_t = wp.types.quaternion(scalar)
transform_t = wp.types.transformation(scalar)
"""
EXTRA_HEADER = """
@wp.func
def axis_of(q: quat_t):
    axis, angle = wp.quat_to_axis_angle(q)
    return axis


@wp.func
def angle_of(q: quat_t):
    axis, angle = wp.quat_to_axis_angle(q)
    return angle


@wp.func
def position_of(m: mat44_t):
    p, q, s = wp.transform_decompose(m)
    return p


@wp.func
def rotation_of(m: mat44_t):
    p, q, s = wp.transform_decompose(m)
    return q


@wp.func
def scale_of(m: mat44_t):
    p, q, s = wp.transform_decompose(m)
    return s


@wp.func
def sine(x: scalar):
    return wp.sin(x)


@wp.func
def with_translation(x: transform_t, p: vec3_t):
    wp.transform_set_translation(x, p)
    return x


@wp.func
def with_rotation(x: transform_t, q: quat_t):
    wp.transform_set_rotation(x, q)
    return x


"""
NUMBER = re.compile(r"(?<![\w.])(?<!scalar\()(\d+\.\d+)")
LAST: Domain = (3.0, 4.0)


def _more(name: str, spelling: str, value: Any, domains: tuple[Domain, ...], kinds: str) -> Case:
    return Case(name, spelling, value, domains, kinds, (3,))


def _joined(*parts: Any) -> Any:
    return np.concatenate([p if p.ndim > 1 else p[:, None] for p in parts], -1)


EXTRA = [
    _more("grad", "wp.grad(sine)({0})", np.cos, (WIDE,), "s>s"),
    _more("vector", "vec3_t({0}, {1}, {2})", _joined, (WIDE,) * 3, "sss>v"),
    _more(
        "matrix",
        "mat22_t({0}, {1}, {2}, {3})",
        lambda *a: _joined(*a).reshape(-1, 2, 2),
        (WIDE,) * 4,
        "ssss>y",
    ),
    _more("quaternion", "quat_t({0}, {1}, {2}, {3})", _joined, (WIDE,) * 4, "ssss>q"),
    _more("quaternion", "quat_t({0}, {1})", _joined, (WIDE, WIDE), "vs>q"),
    _more("transformation", "transform_t({0}, {1})", _joined, (WIDE, WIDE), "vq>x"),
    _more(
        "transform_set_translation",
        "with_translation({0}, {1})",
        lambda x, p: _joined(p, x[:, 3:]),
        (WIDE, WIDE),
        "xv>x",
    ),
    _more(
        "transform_set_rotation",
        "with_rotation({0}, {1})",
        lambda x, q: _joined(x[:, :3], q),
        (WIDE, WIDE),
        "xq>x",
    ),
    _more("component", "{0}[1]", lambda v: v[:, 1], (WIDE,), "v>s"),
    _more("component", "{0}[1, 2]", lambda m: m[:, 1, 2], (WIDE,), "r>s"),
    _more("component", "{0}[1]", lambda q: q[:, 1], (WIDE,), "q>s"),
    _more("component", "{0}[1]", lambda x: x[:, 1], (WIDE,), "x>s"),
    _more("randf", "wp.randf(wp.rand_init(7, i), {0}, {1})", None, (WIDE, LAST), "ss>s"),
]
"""Functions without an entry in the rule table. `randf` is linear in its bounds: its values say with which weights."""


ATOMICS = ("atomic_add", "atomic_sub", "atomic_min", "atomic_max", "atomic_exch", "atomic_cas")
OPERANDS_OF_ATOMICS = ("element", "value", "result")
"""Adjoints of an atomic: of the old element, of the value, and of the result by the element."""
SPELLED = {
    "wp.quat_to_axis_angle({0})[0]": "axis_of({0})",
    "wp.quat_to_axis_angle({0})[1]": "angle_of({0})",
    "wp.transform_decompose({0})[0]": "position_of({0})",
    "wp.transform_decompose({0} * 0.25 + wp.identity(n=4, dtype=scalar))[1]": (
        "rotation_of({0} * 0.25 + wp.identity(n=4, dtype=scalar))"
    ),
    "wp.transform_decompose({0})[2]": "scale_of({0})",
}
"""As warp-lang wants several results written."""


@dataclass(frozen=True)
class Probe:
    """One kernel.

    Attributes:
        key: Its name.
        case: What it computes.
        scalar: The type of its numbers.
        size: The length of its vectors.
        header: The functions that it needs.
    """

    key: str
    case: Case
    scalar: str
    size: int
    header: str = ""

    def text(self) -> str:
        """Its source; `scalar` is a name in its module."""
        case = self.case
        arrays = [f"a{k}: wp.array(dtype={self._type(letter)})" for k, letter in enumerate(case.operands)]
        values = SPELLED.get(case.spelling, case.spelling).format(
            *(f"a{k}[i]" for k in range(len(case.operands))), n=self.size
        )
        values = NUMBER.sub(r"scalar(\1)", values)
        return (
            f"@wp.kernel\ndef {self.key}({', '.join(arrays)}, out: wp.array(dtype={self._type(case.result)})):\n"
            f"    i = wp.tid()\n    out[i] = {values}\n\n\n"
        )

    def _type(self, letter: str) -> str:
        return KINDS[letter][0].format(n=self.size)

    def operands(self) -> list[Any]:
        """Random operands; unit quaternions and transforms of such where values would differ otherwise."""
        rng = np.random.default_rng(abs(hash_of(self.key)))
        found = []
        for letter, (low, high) in zip(self.case.operands, self.case.domains, strict=True):
            values = rng.uniform(low, high, (THREADS, *KINDS[letter][1](self.size)))
            if letter == "q":
                values /= np.linalg.norm(values, axis=-1, keepdims=True)
            if letter == "x":
                values[:, 3:] /= np.linalg.norm(values[:, 3:], axis=-1, keepdims=True)
            found.append(values.astype(SCALARS[self.scalar]))
        return found


@dataclass(frozen=True)
class Atomic(Probe):
    """An atomic, as a statement and used as a value."""

    def text(self) -> str:
        """Two kernels."""
        name, kind = self.case.name, self._type(self.case.operands[0])
        arrays = ", ".join(f"a{k}: wp.array(dtype={kind})" for k in range(3))
        call = f"wp.{name}(a0, i, {'a2[i], ' if name == 'atomic_cas' else ''}a1[i])"
        return (
            f"@wp.kernel\ndef {self.key}({arrays}):\n    i = wp.tid()\n    {call}\n\n\n"
            f"@wp.kernel\ndef {self.key}_used({arrays}, out: wp.array(dtype={kind})):\n"
            f"    i = wp.tid()\n    out[i] = {call}\n\n\n"
        )


def hash_of(text: str) -> int:
    """The same in every process."""
    return sum(ord(letter) * (k + 1) for k, letter in enumerate(text))


def probes() -> Iterator[Probe]:
    """All kernels."""
    for scalar in SCALARS:
        seen: set[str] = set()
        for table, cases in {**TABLES, "extra": EXTRA}.items():
            for case in cases:
                if case.name in INTERNAL | FLAT:
                    continue
                size = 3 if 3 in case.lengths else case.lengths[0]
                what = f"{case.name} {case.kinds} {case.spelling}"
                if what in seen:
                    continue
                seen.add(what)
                key = f"k{len(seen)}_{case.name}_{scalar}"
                header = HEADERS.get(table, EXTRA_HEADER)
                yield Probe(key, case, scalar, size, header)
        for name in ATOMICS:
            for kind in "sv" if name != "atomic_cas" else "s":
                case = Case(name, "", lambda *a: None, (WIDE, WIDE), f"{kind}{kind}>{kind}")
                yield Atomic(f"k{len(seen)}_{name}_{kind}_{scalar}", case, scalar, 3, EXTRA_HEADER)


def module_text(scalar: str, chosen: Sequence[Probe]) -> str:
    """The source of a module."""
    headers = dict.fromkeys(probe.header for probe in chosen if probe.header)
    start = f"import warp as wp\n\nscalar = wp.{scalar}\n{TYPES}\n\n"
    functions = NUMBER.sub(r"scalar(\1)", "".join(headers))
    for n in (2, 3):  # in functions warp-lang wants a name for the type
        functions = functions.replace(f"wp.types.vector({n}, scalar)(", f"vec{n}_t(")
    return start + functions + "".join(probe.text() for probe in chosen)


# ------------------------------------------------------------------- measuring

STEP = 1e-4
CLOSE = {"float32": 2e-3, "float64": 1e-5}
"""Tolerance of gradients, as a part of the largest entry, with the error bar of differences."""
NARROWER = ("to_f16", "to_bf16", "to_f32")
"""Conversions that round the adjoint, too."""
Status = str


def differences(probe: Probe, operands: Sequence[Any], seed: Any) -> tuple[list[Any], Any]:
    """The gradient of ⟨seed, value⟩ by differences in NumPy, and which threads stand clear of a kink."""
    value = probe.case.value

    def weighted(moved: Sequence[Any]) -> Any:
        with np.errstate(all="ignore"):
            return (np.asarray(value(*moved), float) * seed).reshape(THREADS, -1).sum(-1)

    clear = np.ones(THREADS, bool)
    gradients = []
    for k, operand in enumerate(operands):
        flat = operand.reshape(THREADS, -1)
        found = np.zeros_like(flat)
        for j in range(flat.shape[1]):
            slopes = []
            for step in (STEP, STEP / 2):
                sides = []
                for sign in (1, -1):
                    moved = flat.copy()
                    moved[:, j] += sign * step
                    changed = list(operands)
                    changed[k] = moved.reshape(operand.shape)
                    sides.append(weighted(changed))
                slopes.append((sides[0] - sides[1]) / (2 * step))
            found[:, j] = (4 * slopes[1] - slopes[0]) / 3
            clear &= np.abs(slopes[0] - slopes[1]) <= 1e-5 * (1 + np.abs(slopes[1]))
        gradients.append(found.reshape(operand.shape))
    return gradients, clear


def judged(warps: Any, right: Any, clear: Any, tolerance: float) -> Status:
    """Return what warp-lang's gradient is."""
    a, b = warps[clear], right[clear]
    scale = max(1e-3, float(np.abs(b).max(initial=0.0)))
    if np.abs(a - b).max(initial=0.0) <= tolerance * scale:
        return "right"
    return "wrong" if np.any(np.abs(a) > 1e-6 * scale) else "none"


def weights_of(values: Any, operands: Sequence[Any]) -> list[Any]:
    """The derivatives of a number between two bounds, from where it lies."""
    low, high = operands
    share = (values - low) / (high - low)
    return [1 - share, share]


def measured(wp: Any, module: Any, probe: Probe) -> tuple[Status, ...] | str:
    """Return what warp-lang's adjoint is, operand by operand; or why that is not known."""
    if isinstance(probe, Atomic):
        return _of_atomic(wp, module, probe)
    case, scalar = probe.case, SCALARS[probe.scalar]
    operands = probe.operands()
    rng = np.random.default_rng(3)
    kernel = getattr(module, probe.key)
    arrays = [
        wp.array(values, dtype=arg.type.dtype, requires_grad=True)
        for values, arg in zip(operands, kernel.adj.args, strict=False)
    ]
    out = wp.zeros(THREADS, dtype=kernel.adj.args[-1].type.dtype, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=THREADS, inputs=arrays, outputs=[out])
    values = out.numpy().astype(float)
    seed = rng.uniform(0.5, 1.5, values.shape)
    out.grad = wp.array(seed.astype(scalar), dtype=out.dtype)
    tape.backward()
    exact = [o.astype(float) for o in operands]
    if case.name == "randf":
        rights = [w * seed for w in weights_of(values, exact)]
        clear = np.ones(THREADS, bool)
    else:
        with np.errstate(all="ignore"):
            ours = np.asarray(case.value(*exact), float)
        if not np.allclose(values, ours, rtol=1e-3, atol=1e-4):
            return "other values"
        rights, clear = differences(probe, exact, seed)
    if clear.sum() < 3:
        return "not smooth"
    tolerance = CLOSE["float32" if case.name in NARROWER else probe.scalar]
    return tuple(
        judged(a.grad.numpy().astype(float).reshape(right.shape), right, clear, tolerance)
        for a, right in zip(arrays, rights, strict=True)
    )


def _of_atomic(wp: Any, module: Any, probe: Atomic) -> tuple[Status, ...]:
    """The adjoints of what the element held, of the value, and of the result."""
    name, scalar = probe.case.name, SCALARS[probe.scalar]
    held, value = probe.operands()
    rng = np.random.default_rng(3)
    seed = rng.uniform(0.5, 1.5, held.shape).astype(scalar)
    dtype = getattr(module, probe.key).adj.args[0].type.dtype
    replaced = {"atomic_min": value < held, "atomic_max": value > held}.get(name, np.ones(held.shape, bool))
    sums = {"atomic_add": seed, "atomic_sub": -seed}
    of_held = seed if name in sums else np.where(replaced, 0, seed)
    of_value = sums.get(name, np.where(replaced, seed, 0))
    clear, tolerance = np.ones(THREADS, bool), CLOSE[probe.scalar]

    def run(used: bool) -> list[Any]:
        arrays = [wp.array(x, dtype=dtype, requires_grad=True) for x in (held, value, held)]
        outputs = [wp.zeros(THREADS, dtype=dtype, requires_grad=True)] if used else []
        with wp.Tape() as tape:
            kernel = getattr(module, probe.key + ("_used" if used else ""))
            wp.launch(kernel, dim=THREADS, inputs=arrays, outputs=outputs)
        (outputs or arrays)[0].grad = wp.array(seed, dtype=dtype)
        tape.backward()
        return [a.grad.numpy().astype(float) for a in arrays]

    plain, (of_result, *_) = run(False), run(True)
    return (
        judged(plain[0], of_held.astype(float), clear, tolerance),
        judged(plain[1], of_value.astype(float), clear, tolerance),
        judged(of_result, seed.astype(float), clear, tolerance),
    )


def loaded(wp: Any, scalar: str, chosen: Sequence[Probe], folder: Path) -> tuple[Any, dict[str, str]]:
    """A module of these kernels, compiled by warp-lang without those that it refuses, and its reasons."""
    refused: dict[str, str] = {}
    while True:
        left = [probe for probe in chosen if probe.key not in refused]
        name = f"warp_adjoints_{scalar}_{len(left)}"
        path = folder / f"{name}.py"
        path.write_text(module_text(scalar, left), "utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        try:
            wp.load_module(module)
        except Exception as error:  # warp-lang raises many kinds
            found = [key for key in re.findall(r"k\d+_\w+", str(error)) if key not in refused]
            if not found:
                raise
            refused[found[0]] = str(error).strip().splitlines()[-1]
        else:
            return module, refused


# ruff: noqa: E501
# --------------------------------------------------------------------- the table

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "tapedebug" / "lang" / "_measured_in_warp.py"
PAGE = ROOT / "docs" / "warp-adjoints.md"
LETTERS = {"right": "r", "none": "n", "wrong": "w"}
Row = tuple[str, str]
"""A function and the kinds of its arguments."""


def row_of(probe: Probe) -> Row:
    """The row of a kernel."""
    return probe.case.name, probe.case.families


def everything(wp: Any, folder: Path) -> tuple[dict[Row, dict[str, str]], dict[Row, str]]:
    """For each row and scalar the letters of its arguments; and why others were not measured."""
    rows: dict[Row, dict[str, str]] = {}
    others: dict[Row, str] = {}
    for scalar in SCALARS:
        chosen = [probe for probe in probes() if probe.scalar == scalar]
        module, refused = loaded(wp, scalar, chosen, folder)
        for probe in chosen:
            found = "refused" if probe.key in refused else measured(wp, module, probe)
            if isinstance(found, str):
                others[row_of(probe)] = found
                continue
            letters = "".join(LETTERS[status] for status in found)
            before = rows.setdefault(row_of(probe), {}).setdefault(scalar, letters)
            if before != letters:
                raise AssertionError(f"{probe.key}: {letters}, and {before} before")
    return rows, {row: why for row, why in others.items() if row not in rows}


def table_text(version: str, rows: dict[Row, dict[str, str]]) -> str:
    """The module of the table."""
    found: dict[str, dict[str, str]] = {}
    for (name, kinds), letters in sorted(rows.items()):
        own = found.setdefault(name, {})
        own[kinds] = letters.get("float32") or letters["float64"]
        if letters.get("float64", own[kinds]) != own[kinds]:
            own[f"{kinds} float64"] = letters["float64"]
    entries = []
    for name, own in found.items():
        line = f'    "{name}": {{{_pairs(own, ", ")}}},\n'
        if len(line) > 111:  # as the formatter has it
            line = f'    "{name}": {{\n        {_pairs(own, f",{chr(10)}        ")},\n    }},\n'
        entries.append(line)
    return (
        '"""Warp\'s adjoints of functions, argument by argument: r (right), n (none), w (wrong).\n\n'
        "Written by `python -m tests.lang.warp_adjoints`. Arguments are a number s, vector v, matrix m,\n"
        'quaternion q or transform x; of atomics the element, the value, and the result.\n"""\n\n'
        f'VERSION = "{version}"\n"""The version of warp-lang with which this was measured, on the CPU."""\n\n'
        f"ADJOINTS: dict[str, dict[str, str]] = {{\n{''.join(entries)}}}\n"
    )


def _pairs(own: dict[str, str], between: str) -> str:
    return between.join(f'"{kinds}": "{letters}"' for kinds, letters in own.items())


def page_text(version: str, rows: dict[Row, dict[str, str]], others: dict[Row, str]) -> str:
    """The page of the table."""
    words = {letter: word for word, letter in LETTERS.items()}

    def shown(row: Row, letters: str) -> str:
        names = OPERANDS_OF_ATOMICS if row[0] in ATOMICS else [f"{k + 1} ({x})" for k, x in enumerate(row[1])]
        message = [f"**{words[x]}**" if x != "r" else "right" for x in letters]
        return ", ".join(f"{name} {word}" for name, word in zip(names, message, strict=True))

    def listed(chosen: Iterable[Row]) -> str:
        found: dict[str, list[str]] = {}
        for name, kinds in sorted(chosen):
            found.setdefault(name, []).append(kinds)
        return ", ".join(f"`{name}` ({', '.join(kinds)})" for name, kinds in found.items())

    gaps = [item for item in sorted(rows.items()) if any(set(v) != {"r"} for v in item[1].values())]
    kinds_of = lambda row: f"`{row[0]}`" if row[0] in ATOMICS else f"`{row[0]}` of {', '.join(row[1])}"  # noqa: E731
    lines = [
        f"| {kinds_of(row)}{'' if len(set(letters.values())) == 1 else f' ({scalar})'} | {shown(row, own)} |"
        for row, letters in gaps
        for scalar, own in letters.items()
        if len(set(letters.values())) > 1 or scalar == next(iter(letters))
    ]
    return PAGE_TEXT.format(
        version=version,
        gaps="\n".join(dict.fromkeys(lines)),
        right=listed(row for row, letters in rows.items() if all(set(v) == {"r"} for v in letters.values())),
        others=listed(row for row, why in others.items() if why != "refused"),
    )


PAGE_TEXT = """# Adjoints of Warp's functions

Which of the functions that tapedebug differentiates have an adjoint in Warp, argument by argument. Gradients of warp-lang {version} (on the CPU, in float32 and float64) at random arguments were compared with differences in float64.
`diagnose(tape, as_warp=True)` and `tapedebug run --as-warp` use this table: a gradient that needs an adjoint that Warp lacks is a [warp-limitation](findings/warp-limitation.md).

A test repeats the measurement with the installed warp-lang, and `python -m tests.lang.warp_adjoints` writes the table and this page. Arguments are a number s, vector v, matrix m, quaternion q or transform x.

## Not right

*None*: the gradient of that argument is 0. *Wrong*: it has another value.

| function | arguments |
| --- | --- |
{gaps}

`mod`
: is also the operator `%`.

`grad`
: is `wp.grad(f)(x)`: the derivative is computed, and no gradient goes through it.

`atomic_min`, `atomic_max`
: the value that the element holds in the end gets its adjoint, and what the element held before the launch gets it as well, which is right only if that remained. Of equal values, each gets the whole adjoint.

`atomic_exch`, `atomic_cas`
: the value gets nothing, and what the element held before the launch keeps the adjoint.

`transform_set_translation`, `transform_set_rotation`
: as with every part of a variable that is assigned, what the part held before gets its adjoint as well.

The result of an atomic passes nothing on.

## Right

{right}.

## Not compared

Warp computes other values for {others}. Functions that Warp does not have, or not for these arguments, are not listed.
"""


def main() -> None:
    """Measure, and write the table and its page."""
    import tempfile

    import warp as wp

    wp.config.quiet = True
    wp.config.mode = "debug"  # compiles in a fraction of the time
    with tempfile.TemporaryDirectory() as folder:
        rows, others = everything(wp, Path(folder))
    TABLE.write_text(table_text(wp.__version__, rows), "utf-8")
    PAGE.write_text(page_text(wp.__version__, rows, others), "utf-8")
    print(f"{len(rows)} rows measured; not measured: {others}")


if __name__ == "__main__":
    main()
