"""Random programs on an array of structs give, bit by bit, what they give on one array a field."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tests.sweeps import cases

FIELDS = ("a", "b", "inner.x")
HEAD = """import tapedebug as wp


@wp.struct
class Inner:
    x: float


@wp.struct
class Body:
    a: float
    n: int
    v: wp.vec3
    b: float
    inner: Inner
    flag: wp.uint8


@wp.kernel
"""
TYPES = {"a": float, "n": int, "v": wp.vec3, "b": float, "inner_x": float}


class Writer:
    """Writes one program twice, from the same seed: with structs and without."""

    def __init__(self, seed: int, structs: bool) -> None:
        self.rng = random.Random(seed)
        self.structs = structs
        self.lines: list[str] = []

    def program(self) -> str:
        if self.structs:
            self.lines += ["def k(p: wp.array(dtype=Body), out: wp.array(dtype=float)):", "    i = wp.tid()"]
            self.lines += ["    m = p.shape[0]", "    s = p[i]"]
        else:
            kinds = {float: "float", int: "int", wp.vec3: "wp.vec3"}
            arrays = ", ".join(f"{n}: wp.array(dtype={kinds[kind]})" for n, kind in TYPES.items())
            self.lines += [f"def k({arrays}, out: wp.array(dtype=float)):", "    i = wp.tid()"]
            self.lines += ["    m = a.shape[0]", *(f"    s_{n} = {n}[i]" for n in ("a", "b", "inner_x"))]
        self.statements("    ", 0)
        self.statements("    ", 0)
        self.lines.append(f"    out[i] += {self.local('a')} + {self.local('b')} * {self.element('i', 'a')}")
        return HEAD + "\n".join(self.lines) + "\n"

    def element(self, index: str, field: str) -> str:
        return f"p[{index}].{field}" if self.structs else f"{field.replace('.', '_')}[{index}]"

    def local(self, field: str) -> str:
        return f"s.{field}" if self.structs else f"s_{field.replace('.', '_')}"

    def expression(self, depth: int = 0) -> str:
        choice = self.rng.randrange(7 if depth < 2 else 3)
        index = self.rng.choice(["i", "i", "0", "(i + 1) % m"])
        field, part = self.rng.choice(FIELDS), self.rng.choice([".x", ".y", "[2]"])
        number = f"{self.rng.uniform(-1, 1):.3f}"
        if choice in (3, 4, 5):
            one, two = self.expression(depth + 1), self.expression(depth + 1)
            return (f"({one} * {two})", f"({one} - {two})", f"wp.sin({one})")[choice - 3]
        simple = (self.element(index, field), self.local(field), number)
        return simple[choice] if choice < 3 else self.element(index, "v") + part

    def statements(self, indent: str, depth: int) -> None:
        for _ in range(self.rng.randrange(1, 4)):
            choice, field = self.rng.randrange(8), self.rng.choice(FIELDS)
            part = self.rng.choice([".x", ".y", "[2]"])
            if choice in (5, 6) and depth < 2:
                heads = (
                    f"if {self.expression()} > 0.1:",
                    f"for j{depth} in range({self.element('i', 'n')} % 4):",
                )
                self.lines.append(indent + heads[choice - 5])
                self.statements(indent + "    ", depth + 1)
                continue
            target = {
                0: f"{self.local(field)} =",
                1: f"{self.local(field)} +=",
                2: f"{self.element('i', field)} = 0.5 *",
                3: f"{self.element('i', field)} +=",
                4: f"{self.element('i', 'v')}{part} =",
            }.get(choice, "out[i] =")
            self.lines.append(f"{indent}{target} {self.expression()}")


def module(path: Path, text: str) -> Any:
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(cases(full=20, sample=12)))
def test_structs_are_their_fields(seed: int, tmp_path: Path) -> None:
    with_structs = module(tmp_path / "structs.py", Writer(seed, True).program())
    without = module(tmp_path / "arrays.py", Writer(seed, False).program())
    rng = np.random.default_rng(seed)
    given = {n: rng.normal(size=(4, 3) if kind is wp.vec3 else 4) for n, kind in TYPES.items()}
    given["n"] = rng.integers(0, 6, 4)
    flat = {n: wp.array(given[n], dtype=kind, requires_grad=True) for n, kind in TYPES.items()}
    packed = np.zeros(4, with_structs.Body.numpy_dtype())
    for name in "anvb":
        packed[name] = given[name]
    packed["inner"]["x"] = given["inner_x"]
    p = wp.array(packed, dtype=with_structs.Body, requires_grad=True)
    fields = {"a": p["a"], "n": p["n"], "v": p["v"], "b": p["b"], "inner_x": p["inner"]["x"]}
    seeds = rng.normal(size=(2, 4)).astype(np.float32)
    outs = []
    for kernel, args, a in ((with_structs.k, [p], fields["a"]), (without.k, [*flat.values()], flat["a"])):
        out = wp.zeros(4, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(kernel, dim=4, inputs=args, outputs=[out])
        tape.backward(grads={out: seeds[0], a: seeds[1]})
        outs.append(out.numpy())
    assert np.array_equal(*outs, equal_nan=True)
    for name, array in flat.items():
        assert np.array_equal(fields[name].numpy(), array.numpy(), equal_nan=True), name
        if name != "n":
            one, two = fields[name].grad.numpy(), array.grad.numpy()
            np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5, err_msg=name)
