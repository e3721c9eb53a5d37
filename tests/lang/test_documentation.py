"""The page on the kernel language is current: its table is that of the rules, its examples compile.

`python -m tests.lang.test_documentation` writes the table anew.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tapedebug.compiler.kernel import Kernel
from tapedebug.compiler.lower import keywords
from tapedebug.lang import types as t
from tapedebug.lang.builtins import BUILTINS, OPERATORS, SPECIAL
from tapedebug.lang.rules import COMPOSITES, DRAWS, RULES
from tests.lang.probe import families

PAGE = Path(__file__).parents[2] / "docs" / "language.md"
TABLE = re.compile(r"(<!-- table: .*? -->\n).*?(<!-- end of table -->)", re.DOTALL)
SIGNATURES = {
    "tid": "",
    "atomic_add": "arr, i, …, value",
    "atomic_sub": "arr, i, …, value",
    **{f"atomic_{name}": "arr, i, …, value" for name in ("min", "max", "exch", "and", "or", "xor")},
    "atomic_cas": "arr, i, …, compare, value",
    "expect_eq": "a, b",
    "expect_neq": "a, b",
    "expect_near": "a, b, tolerance=1e-6",
    "print": "*values, sep=' ', end='\\n'",
    "printf": "format, *values",
    "cast": "a, dtype",
    "curlnoise": "state, x, octaves=1, lacunarity=2.0, gain=0.5",
    "identity": "n, dtype=float",
    "lower_bound": "arr, arr_begin, arr_end, value",
    "matrix": "x, …, shape=…, dtype=…",
    "pnoise": "state, x, px, …",
    "quat_identity": "dtype=float",
    "quaternion": "x, y, z, w, dtype=…",
    "rand_init": "seed, offset",
    "transform_identity": "dtype=float",
    "transform_set_rotation": "xform, q",
    "transform_set_translation": "xform, p",
    "transformation": "p, q, dtype=…",
    "view": "arr, i, …",
    "vector": "x, …, length=…, dtype=…",
    **{name: draw.signature for name, draw in DRAWS.items()},
}
CONSTANT = {
    "tid",
    "identity",
    "lower_bound",
    "quat_identity",
    "cast",
    "transform_identity",
    "atomic_and",
    "atomic_or",
    "atomic_xor",
    *(name for name in DRAWS if name != "randf"),
}
CONSTANT |= {"print", "printf", "expect_eq", "expect_near", "expect_neq"}


def operands(name: str) -> str:
    if name in SIGNATURES:
        return SIGNATURES[name]
    if name in COMPOSITES:
        return ", ".join(COMPOSITES[name].operands)
    return ", ".join(keywords.signatures(name)[0])


def differentiable(name: str) -> bool:
    entry = COMPOSITES.get(name) or RULES.get(name)
    return entry.differentiable if entry is not None else name not in CONSTANT


def taken(name: str) -> str:
    """The kinds of operands that an entry of the rule table takes, found by asking it."""
    if name not in COMPOSITES and name not in RULES:
        return ""
    floats, integers = (families(name, scalar) for scalar in (t.float32, t.int32))
    if not floats | integers:
        return ""
    word = "numbers" if floats & integers else "floats" if floats else "integers"
    order = sorted(floats or integers, key=lambda letters: (len(letters), *map("svmqx".index, letters)))
    return f"{', '.join(order)} of {word}"


def table() -> str:
    lines = ["| Function | Gives | Takes | Derivative |", "|---|---|---|---|"]
    for name in sorted(BUILTINS):
        doc = SPECIAL.get(name) or BUILTINS[name].__doc__
        yes = "yes" if differentiable(name) else "—"
        lines.append(f"| `wp.{name}({operands(name)})` | {doc} | {taken(name)} | {yes} |")
    for name in sorted(OPERATORS):
        entry = COMPOSITES[name]
        yes = "yes" if entry.differentiable else "—"
        lines.append(f"| `{SIGNS[name]}` | {entry.doc} | {taken(name)} | {yes} |")
    return "\n".join(lines) + "\n"


SIGNS = {
    "add": "x + y",
    "sub": "x - y",
    "neg": "-x",
    "mul": "x * y",
    "div": "x / y",
    "matmul": "x @ y",
    "eq": "x == y",
    "ne": "x != y",
    "bit_and": "x & y",
    "bit_or": "x \\| y",
    "bit_xor": "x ^ y",
    "invert": "~x",
    "lshift": "x << y",
    "rshift": "x >> y",
}


def test_table_is_that_of_the_rules():
    found = TABLE.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    assert found.group(0) == found.group(1) + table() + found.group(2)


def test_examples_compile(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for number, block in enumerate(blocks):
        path = tmp_path / f"example_{number}.py"
        path.write_text(block, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        kernels = [k for k in vars(module).values() if isinstance(k, Kernel)]
        assert kernels
        for kernel in kernels:
            assert kernel.analysis.accesses


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_every_function_has_one_line_of_documentation(name):
    doc = BUILTINS[name].__doc__ or ""
    assert doc.endswith(".") and "\n" not in doc
    assert doc[0].isupper() or doc[0] in "-0123456789`"


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(TABLE.sub(lambda m: m.group(1) + table() + m.group(2), text), encoding="utf-8")
