"""Notes of kernels: what changes a kernel changes its identity, and a second process lowers nothing."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler import fingerprint, objects, pipeline
from tapedebug.compiler.kernel import Kernel
from tests.compiler.generator import program
from tests.compiler.harness import run
from tests.compiler.test_generated import load

ROOT = Path(__file__).parents[2]
NUMBERS = itertools.count()
PROGRAM = """
import enum
import math
import types

import numpy as np
import tapedebug as wp

K = 2.0
OTHER = 5.0
SHIFT = wp.vec3(1.0, 2.0, 3.0)
TABLE = [1.0, 2.0]
SIZES = {"one": 1, "two": 2}
Real = wp.float32
space = types.SimpleNamespace(rate=0.5, other=1)


class Mode(enum.IntEnum):
    FAST = 3


class Settings:
    rate = 0.25
    other = 1.0


@wp.struct
class State:
    q: wp.vec3
    mass: float


@wp.func
def inner(x: float):
    return x * OTHER


@wp.func
def outer(x: float, by: float = 1.5):
    return inner(x) + by


@wp.func
def own(x: float):
    return wp.sin(x)


@wp.func_grad(own)
def adj_own(x: float, adj_ret: float):
    wp.adjoint[x] += adj_ret * 2.0


@wp.func_replay(own)
def replay_own(x: float):
    return wp.sin(x)


def factory(scale):
    @wp.kernel
    def made(x: wp.array(dtype=float), y: wp.array(dtype=wp.vec3), s: State):
        i = wp.tid()
        v = y[i] + SHIFT
        part: Real = x[i] * K + TABLE[1] + float(SIZES["two"])
        x[i] = outer(part) + own(v.x) * scale + s.mass
        x[i] += Settings.rate + space.rate + math.pi + float(Mode.FAST)
        x[i] *= wp.static(K + 1.0)

    return made


kernel = factory(3.0)
"""

CHANGES = {
    "its body": ("v = y[i] + SHIFT", "v = y[i] - SHIFT"),
    "a global": ("K = 2.0", "K = 3.0"),
    "the type of a global": ("K = 2.0", "K = 2"),
    "a global in float64": ("K = 2.0", "K = np.float64(2.0)"),
    "a vector": ("SHIFT = wp.vec3(1.0, 2.0, 3.0)", "SHIFT = wp.vec3(1.0, 2.0, 3.5)"),
    "a list": ("TABLE = [1.0, 2.0]", "TABLE = [1.0, 2.5]"),
    "a dictionary": ('"two": 2', '"two": 3'),
    "a closure": ("factory(3.0)", "factory(4.0)"),
    "a function": ("return inner(x) + by", "return inner(x) - by"),
    "a default": ("by: float = 1.5", "by: float = 1.75"),
    "a function that a function calls": ("return x * OTHER", "return x / OTHER"),
    "a global of such a function": ("OTHER = 5.0", "OTHER = 6.0"),
    "a gradient of one's own": ("adj_ret * 2.0", "adj_ret * 2.5"),
    "a replay of one's own": (
        "    return wp.sin(x)\n\n\ndef factory",
        "    return wp.sin(x + 0.0)\n\n\ndef factory",
    ),
    "that there is a replay": ("@wp.func_replay(own)", "@wp.func"),
    "the type of an array": ("x: wp.array(dtype=float)", "x: wp.array(dtype=wp.float64)"),
    "the dimensions of an array": ("y: wp.array(dtype=wp.vec3)", "y: wp.array2d(dtype=wp.vec3)"),
    "a field of a struct": ("mass: float", "mass: wp.float64"),
    "the name of a field": ("q: wp.vec3", "p: wp.vec3"),
    "a type alias of a local variable": ("Real = wp.float32", "Real = wp.float64"),
    "an attribute of a class": ("rate = 0.25", "rate = 0.75"),
    "an attribute of a namespace": ("SimpleNamespace(rate=0.5", "SimpleNamespace(rate=0.75"),
    "an enumeration": ("FAST = 3", "FAST = 4"),
    "an option": ("    @wp.kernel\n", "    @wp.kernel(enable_backward=False)\n"),
}
SAME = {
    "lines above": ("K = 2.0", "# one\n# two\nK = 2.0"),
    "a constant that it does not name": ("OTHER = 5.0", "OTHER = 5.0\nUNUSED = 1"),
    "a name that is an attribute in it": ("OTHER = 5.0", "OTHER = 5.0\nx = object()\nrate = object()"),
    "what it does not take of a class": ("other = 1.0", "other = 2.0"),
}


def kernel_of(source: str, folder: Path) -> Kernel:
    path = folder / f"program_{next(NUMBERS)}.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def digest(source: str, folder: Path) -> str:
    found = fingerprint.fingerprint_of(kernel_of(source, folder))
    assert found is not None
    return found.digest


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_another_kernel(what: str, tmp_path: Path) -> None:
    before, after = CHANGES[what]
    assert PROGRAM.count(before) == 1
    assert digest(PROGRAM, tmp_path) != digest(PROGRAM.replace(before, after), tmp_path)


@pytest.mark.parametrize("what", SAME)
def test_no_change_is_the_same_kernel(what: str, tmp_path: Path) -> None:
    before, after = SAME[what]
    assert PROGRAM.count(before) == 1
    assert digest(PROGRAM, tmp_path) == digest(PROGRAM.replace(before, after), tmp_path)


def test_constants_of_a_module_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "constants_of_identity.py").write_text("K = 1.0\nOTHER = 2.0\n")
    source = """
import constants_of_identity as c
import tapedebug as wp

@wp.kernel
def kernel(x: wp.array(dtype=float)):
    x[wp.tid()] = c.K
"""
    kernel = kernel_of(source, tmp_path)
    module = sys.modules["constants_of_identity"]
    found = [fingerprint.fingerprint_of(kernel)]
    for name in ("OTHER", "K"):
        setattr(module, name, 7.0)
        found.append(fingerprint.fingerprint_of(kernel))
    digests = [each.digest for each in found if each is not None]
    assert digests[0] == digests[1] != digests[2] and len(digests) == 3


def test_settings_and_toolchain_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest(PROGRAM, tmp_path)
    monkeypatch.setattr(fingerprint, "toolchain", lambda: "another version")
    assert digest(PROGRAM, tmp_path) != before
    kernel = kernel_of(PROGRAM, tmp_path)
    chosen = fingerprint.settings(kernel)
    monkeypatch.setattr(wp.config, "max_unroll", 3)
    assert fingerprint.settings(kernel) != chosen


UNIDENTIFIED = {
    "a plain Python function": "wp.static(helper(2.0))",
    "an object": "wp.static(thing.value)",
    "a file": "wp.static(float(len(open(__file__).name) > 0))",
    "any attribute": "wp.static(Holder.__dict__['value'])",
    "random numbers": "wp.static(float(np.random.rand()))",
}


@pytest.mark.parametrize("what", UNIDENTIFIED)
def test_what_may_differ_in_another_process_has_no_identity(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAPEDEBUG_CACHE_DIR", str(tmp_path / "cache"))
    source = f"""
import numpy as np
import tapedebug as wp

def helper(x):
    return x + 1.0

class Holder:
    value = 2.0

thing = Holder()

@wp.kernel
def kernel(x: wp.array(dtype=float)):
    x[wp.tid()] = {UNIDENTIFIED[what]} * 0.0 + 1.0
"""
    kernel = kernel_of(source, tmp_path)
    assert fingerprint.fingerprint_of(kernel) is None
    x = np.zeros(2, np.float32)
    run(kernel, 2, [x])
    assert x.tolist() == [1.0, 1.0]
    assert not list((tmp_path / "cache").glob("*.json"))


def test_words_of_comments_are_no_builtins_that_code_uses(tmp_path: Path) -> None:
    source = """
import tapedebug as wp

@wp.kernel
def kernel(x: wp.array(dtype=float)):
    # the input: open, next and hash are words here
    value: float = 1.0
    x[wp.tid()] = value
"""
    plain = source.replace("float = 1.0", "float = 1.0  # id: next")
    assert fingerprint.fingerprint_of(kernel_of(plain, tmp_path)) is not None


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TAPEDEBUG_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def never_lowered(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Call it, and lowering is an error from then on."""

    def refuse(*args: Any) -> Any:
        raise AssertionError("this was to be known from notes")

    return lambda: monkeypatch.setattr(pipeline, "lowered", refuse)


def facts(kernel: Kernel) -> list[Any]:
    active = pipeline.differentiable(kernel.params)
    less = frozenset(sorted(active)[:1])
    infos = [kernel.adjoint_info(a, replay=r) for a in (active, less) for r in (frozenset(), active)]
    return [kernel.analysis, kernel.axes, *infos]


@pytest.mark.parametrize("seed", range(600, 612))
def test_notes_say_what_lowering_says(seed: int, cache: Path, never_lowered: Any) -> None:
    first = load(program(seed, 9))
    lowered = facts(first)
    forward, adjoint = first.forward(), first.adjoint(pipeline.differentiable(first.params))
    never_lowered()
    again = Kernel(first.python)
    assert facts(again) == lowered
    assert again.forward().address == forward.address
    assert again.adjoint(pipeline.differentiable(again.params)).address == adjoint.address


def test_spans_follow_the_source(tmp_path: Path, cache: Path, never_lowered: Any) -> None:
    first = kernel_of(PROGRAM, tmp_path)
    accesses = first.analysis.accesses
    never_lowered()
    moved = kernel_of("# a\n# b\n" + PROGRAM, tmp_path).analysis.accesses
    assert len(accesses) == len(moved) > 3
    for one, two in zip(accesses, moved, strict=True):
        assert one.span.file != two.span.file
        assert (one.span.line + 2, one.span.end_line + 2) == (two.span.line, two.span.end_line)
        nowhere = {"file": "", "line": 0, "end_line": 0}
        assert dataclasses.replace(one.span, **nowhere) == dataclasses.replace(two.span, **nowhere)


SCRIPT = """
import sys
import numpy as np
import tapedebug as wp
from tapedebug.compiler import pipeline
from tapedebug.compiler.llvm import translate

@wp.func
def f(x: float):
    return x * x

@wp.kernel
def kernel(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = f(x[i])

if sys.argv[1:] == ["again"]:
    pipeline.lowered = pipeline.emit = translate.translated = None

x = wp.array([3.0], dtype=float, requires_grad=True)
y = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    wp.launch(kernel, dim=1, inputs=[x], outputs=[y])
tape.backward(grads={y: wp.ones(1, dtype=float)})
print(y.numpy()[0], x.grad.numpy()[0])
"""


def test_a_second_process_neither_lowers_nor_emits(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    environment = os.environ | {"TAPEDEBUG_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}

    def output(*words: str) -> str:
        command = [sys.executable, str(path), *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return (done.stdout + done.stderr).strip()

    assert "NoneType" in output("again"), "without notes it must fail: otherwise the rest shows nothing"
    assert output() == "9.0 6.0"
    assert output("again") == "9.0 6.0"


@pytest.mark.parametrize("damage", [b"", b"{", json.dumps(["Analysis", 1]).encode(), b'["unknown", 2]'])
def test_damaged_notes_are_made_again(damage: bytes, tmp_path: Path, cache: Path) -> None:
    first = kernel_of(PROGRAM, tmp_path)
    analysis = first.analysis
    (path,) = cache.glob("*.json")
    whole = path.read_bytes()
    path.write_bytes(damage)  # neither magic nor digest
    again = Kernel(first.python)
    assert again.analysis == analysis and "_lowered" in vars(again)
    assert path.read_bytes() == whole
    objects.write(path.stem, damage, ".json")  # whole, and of another format
    again = Kernel(first.python)
    assert again.analysis == analysis and "_lowered" in vars(again)
    assert path.read_bytes() == whole


CHANGING = """
import tapedebug as wp

K = 2.0

class Settings:
    rate = 1.0

@wp.kernel
def kernel(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * K * Settings.rate
"""


def slope(kernel: Kernel) -> tuple[float, float]:
    """The value at 1, and then the gradient."""
    x, y = np.ones(1, np.float32), np.zeros(1, np.float32)
    run(kernel, 1, [x, y])
    kernel.python.__globals__["K"] = 5.0
    adj_x, adj_y = np.zeros(1, np.float32), np.ones(1, np.float32)
    run(kernel, 1, [x, y], adjoints=[adj_x, adj_y])
    return float(y[0]), float(adj_x[0])


def test_forward_and_adjoint_see_the_same_constant(tmp_path: Path, cache: Path) -> None:
    """Also where one of them comes from the cache and the other is compiled after the constant changed."""
    kernel = kernel_of(CHANGING, tmp_path)
    assert kernel.analysis and kernel.forward()
    assert slope(Kernel(kernel.python)) == (2.0, 2.0)
    kernel.python.__globals__["K"] = 2.0
    assert slope(Kernel(kernel.python)) == (2.0, 2.0)
    assert slope(Kernel(kernel.python)) == (5.0, 5.0)


def test_what_changed_between_is_refused_where_it_cannot_be_kept(tmp_path: Path, cache: Path) -> None:
    kernel = kernel_of(CHANGING, tmp_path)
    assert kernel.analysis and kernel.forward()
    again = Kernel(kernel.python)
    assert again.forward()
    kernel.python.__globals__["Settings"].rate = 3.0
    with pytest.raises(wp.KernelNameError) as caught:
        again.adjoint(frozenset({0, 1}))
    assert str(caught.value) == (
        "kernel `kernel`: what it captured has changed since it was launched\n"
        "  = hint: define the kernel again after a change"
    )


def test_a_gradient_of_ones_own_that_comes_later_counts(tmp_path: Path, cache: Path) -> None:
    source = """
import tapedebug as wp

@wp.func
def f(x: float):
    return x

@wp.kernel
def kernel(x: wp.array(dtype=float)):
    x[0] = f(x[0])

def more():
    @wp.func_grad(f)
    def adj_f(x: float, adj_ret: float):
        wp.adjoint[x] += 7.0 * adj_ret
"""
    first = kernel_of(source, tmp_path)
    assert first.adjoint(frozenset({0}))
    again = kernel_of(source, tmp_path)
    assert again.adjoint(frozenset({0})) and "_lowered" not in vars(again), "known from notes"
    again.python.__globals__["more"]()
    x, adj_x = np.ones(1, np.float32), np.ones(1, np.float32)
    run(again, 1, [x], adjoints=[adj_x])
    assert adj_x[0] == 7.0


def test_many_kernels_live_in_one_process(tmp_path: Path, cache: Path) -> None:
    source = "import tapedebug as wp\n\nkernels = []\n" + "".join(
        f"""
@wp.kernel
def k{n}(x: wp.array(dtype=float)):
    x[wp.tid()] = {n}.0
kernels.append(k{n})
"""
        for n in range(60)
    )
    kernels = kernel_of(source + "kernel = k0\n", tmp_path).python.__globals__["kernels"]
    for again in (kernels, [Kernel(k.python) for k in kernels]):
        for number, kernel in enumerate(again):
            x = np.full(1, -1, np.float32)
            run(kernel, 1, [x])
            assert x[0] == number


def test_remarks_are_known_from_notes(cache: Path, tmp_path: Path, capsys: Any, never_lowered: Any) -> None:
    source = """
import tapedebug as wp

@wp.kernel
def kernel(x: wp.array(dtype=float)):
    i = wp.tid()
    print("x is", x[i])
    assert x[i] > 0.0, f"negative: {x[i]}"
"""
    said = []
    for number in range(2):
        kernel = kernel_of("\n" * number + source, tmp_path)
        wp.launch(kernel, dim=1, inputs=[wp.array([2.0], dtype=float)])
        with pytest.raises(wp.TapedebugError) as caught:
            wp.launch(kernel, dim=1, inputs=[wp.array([-2.0], dtype=float)])
        said.append((capsys.readouterr().out, str(caught.value).partition("-->")[0]))
        assert f".py:{8 + number}" in str(caught.value)
        if number == 0:
            never_lowered()
    assert said[0] == said[1] and said[0][0].startswith("x is 2.0\n") and "negative" in said[0][1]


def test_versions_of_generic_kernels_are_kernels(tmp_path: Path, cache: Path, never_lowered: Any) -> None:
    source = """
from typing import Any
import tapedebug as wp

@wp.func
def twice(x: Any):
    return x + x

@wp.kernel
def kernel(x: wp.array(dtype=Any)):
    i = wp.tid()
    x[i] = twice(x[i])
"""
    for number in range(2):
        kernel = kernel_of(source, tmp_path)
        for dtype in (float, wp.float64):
            x = wp.array([2.0], dtype=dtype)
            wp.launch(kernel, dim=1, inputs=[x])
            assert x.numpy()[0] == 4.0
        if number == 0:
            never_lowered()
    digests = {found.digest for k in kernel.instances.values() if (found := fingerprint.fingerprint_of(k))}
    assert len(digests) == 2


def test_overloads_count(tmp_path: Path) -> None:
    source = """
import tapedebug as wp

@wp.func
def f(x: float):
    return x

@wp.func
def f(x: int):
    return x + 1

@wp.kernel
def kernel(x: wp.array(dtype=float)):
    x[0] = f(x[0])
"""
    assert digest(source, tmp_path) != digest(source.replace("return x\n", "return -x\n"), tmp_path)
    assert digest(source, tmp_path) != digest(source.replace("x + 1", "x + 2"), tmp_path)


def test_native_functions_are_provided_in_every_process(tmp_path: Path, cache: Path) -> None:
    source = """
import tapedebug as wp

@wp.func_native("return 3.0f * x;")
def f(x: float) -> float: ...

@wp.kernel
def kernel(x: wp.array(dtype=float)):
    x[0] = f(x[0])
"""
    assert fingerprint.fingerprint_of(kernel_of(source, tmp_path)) is None
