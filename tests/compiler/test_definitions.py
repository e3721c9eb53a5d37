"""Origins of kernels (closures, factories, cells, postponed annotations), and how kernels show them."""

# ruff: noqa: PLC2401

from __future__ import annotations

import linecache
import pickle
import re
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tests.compiler.harness import check_gradient, run

SCALE = 3.0
COUNT = 2
ORIGIN = wp.vec3(1.0, 2.0, 3.0)
EXACT = wp.float64(0.1)
NUMPY = np.float32(0.25)
MARKED = wp.constant(4)


class Settings:
    gain = 0.5
    nested = type("Nested", (), {"offset": -1.0})


settings = Settings()


@wp.func
def scaled(a: float):
    return a * SCALE


@wp.kernel
def captured(x: wp.array(dtype=float), y: wp.array(dtype=float), d: wp.array(dtype=wp.float64)):
    i = wp.tid()
    s = scaled(x[i]) * settings.gain + Settings.nested.offset + ORIGIN.y * NUMPY
    for k in range(COUNT):
        s += float(MARKED + k)
    y[i] = s + ORIGIN[2] + wp.pi
    d[i] = EXACT * wp.float64(0.1) + wp.float64(x[i])


def test_captured_numbers_vectors_and_attributes():
    x, y, d = np.ones(2, np.float32), np.zeros(2, np.float32), np.zeros(2)
    run(captured, 2, [x, y, d])
    np.testing.assert_allclose(y, 3.0 * 0.5 - 1.0 + 0.5 + 9.0 + 3.0 + np.pi, rtol=1e-6)
    assert d.tolist() == [0.1 * 0.1 + 1.0] * 2
    check_gradient(captured, 2, [x, y, d])


def make(factor: float, kind: Any):
    @wp.func
    def helper(a: kind):
        return a * factor

    @wp.kernel
    def made(x: wp.array(dtype=kind), y: wp.array(dtype=kind)):
        i = wp.tid()
        y[i] = helper(x[i]) + x[i] * factor

    return made


@pytest.mark.parametrize(("factor", "kind"), [(2.0, float), (5.0, float), (2.0, wp.vec3)])
def test_factory_makes_kernels_of_its_own_constants_and_types(factor, kind):
    """Annotations are postponed in this module: they are read where the kernel is made, in its closure."""
    made = make(factor, kind)
    assert made.key == "make__made"
    shape = (2, 3) if kind is wp.vec3 else (2,)
    x, y = np.ones(shape, np.float32), np.zeros(shape, np.float32)
    run(made, 2, [x, y])
    assert (y == 2 * factor).all()


def test_a_captured_number_is_read_when_the_kernel_is_first_compiled():
    box = {"k": 2.0}
    k = box["k"]

    @wp.kernel
    def uses(x: wp.array(dtype=float)):
        x[0] = k

    k = 7.0
    x = np.zeros(1, np.float32)
    run(uses, 1, [x])
    assert x[0] == 7.0


def cell(number: int, text: str) -> Any:
    """Compile code as a notebook does, under a file name that only `linecache` has."""
    name = f"/tmp/ipykernel_1/{number}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {"wp": wp}
    exec(compile(text, name, "exec"), names)
    return names


CELL = """
@wp.kernel
def step(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] {operation}
"""


def test_kernel_of_a_notebook_cell_and_its_redefinition():
    x = np.full(1, 3.0, np.float32)
    one = cell(1, CELL.format(operation="* 2.0"))["step"]
    run(one, 1, [x])
    two = cell(2, CELL.format(operation="+ 1.0"))["step"]
    run(two, 1, [x])
    run(one, 1, [x])
    assert x[0] == 14.0
    with pytest.raises(wp.KernelTypeError) as info:
        _ = cell(3, CELL.format(operation="+ 1"))["step"].analysis
    assert str(info.value).splitlines()[1:4] == [
        "  --> /tmp/ipykernel_1/3.py:5, in step",
        "   |     x[i] = x[i] + 1",
        "   |            ^^^^^^^^",
    ]


def test_options_of_the_decorators():
    @wp.kernel(name="doubling", module="unique", launch_bounds=(256, 1), module_options={"max_unroll": 4})
    def k(x: wp.array(dtype=float)):
        x[0] = twice(x[0])

    assert k.key == "doubling"
    assert twice.name == "doubled"
    assert k.option("max_unroll") == 4
    x = np.ones(1, np.float32)
    run(k, 1, [x])
    assert x[0] == 2.0
    with pytest.raises(TypeError, match=r"^kernel\(\) has no option 'grid'$"):
        wp.kernel(grid=1)


@wp.func(name="doubled", module="unique", inline=True)
def twice(a: float):
    return a * 2.0


def test_two_kernels_of_one_name_in_one_module():
    kernels = []
    for factor in (2.0, 3.0):

        @wp.kernel
        def same(x: wp.array(dtype=float)):
            x[0] = x[0] * factor  # noqa: B023  (read when it is first compiled, in the next line)

        kernels.append(same)
        run(same, 1, [np.zeros(1, np.float32)])
    x = np.ones(1, np.float32)
    for k in kernels:
        run(k, 1, [x])
    assert x[0] == 6.0


class Holder:
    """A kernel may be an attribute of a class."""

    @wp.kernel
    def inside(x: wp.array(dtype=float)):
        x[0] = 2.0


def test_kernel_in_a_class():
    assert Holder.inside.key == "Holder__inside"
    x = np.zeros(1, np.float32)
    run(Holder.inside, 1, [x])
    assert x[0] == 2.0


@wp.kernel(enable_backward=False)
def forward_only(x: wp.array(dtype=float)):
    """A docstring is no statement."""
    x[0] = 1.0


def test_decorator_with_options():
    assert not forward_only.enable_backward
    assert forward_only.__doc__ == "A docstring is no statement."
    assert repr(forward_only) == "<kernel forward_only>"
    assert repr(scaled) == "<func scaled>"
    assert scaled(2.0) == 6.0  # outside kernels: plain Python


def test_annotations_of_every_kind():
    @wp.kernel
    def every(
        a: wp.array(dtype=float),
        b: wp.array[wp.vec3],
        c: wp.array2d(dtype=int),
        d: wp.array(dtype=wp.float64, ndim=3),
        e: wp.array4d(dtype=wp.vec2),
        f: float,
        g: int,
        h: bool,
        i: wp.vec3,
        j: wp.float64,
        k: np.float32,
        m: wp.array(dtype=bool),
    ) -> None:
        a[0] = f

    shown = {p.name: wp.types.type_name(p.type) for p in every.params}
    assert shown == {
        "a": "array(dtype=float32)",
        "b": "array(dtype=vec3)",
        "c": "array(dtype=int32, ndim=2)",
        "d": "array(dtype=float64, ndim=3)",
        "e": "array(dtype=vec2, ndim=4)",
        "f": "float32",
        "g": "int32",
        "h": "bool",
        "i": "vec3",
        "j": "float64",
        "k": "float32",
        "m": "array(dtype=bool)",
    }


def test_arguments_of_every_kind_reach_the_thread():
    @wp.kernel
    def every(
        out: wp.array(dtype=wp.float64),
        flags: wp.array(dtype=bool),
        f: float,
        g: int,
        h: bool,
        v: wp.vec3,
        d: wp.float64,
        w: wp.types.vector(2, wp.int64),
    ):
        i = wp.tid()
        s = wp.float64(f) + wp.float64(g) + d + wp.float64(v.z) + wp.float64(w[1])
        if h:
            s += wp.float64(1000.0)
        if flags[i]:
            s = -s
        flags[i] = not flags[i]
        out[i] = s

    out, flags = np.zeros(2), np.array([False, True])
    run(every, 2, [out, flags, 0.5, -3, True, [1.0, 2.0, 4.0], 0.1, [7, 2**40]])
    expected = 0.5 - 3 + 0.1 + 4.0 + 2.0**40 + 1000.0
    assert out.tolist() == pytest.approx([expected, -expected], rel=1e-15)
    assert flags.tolist() == [True, False]


# What kernels show -----------------------------------------------------------------------------------------


@wp.kernel
def shown(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    velocity = x[i] * 2.0
    y[i] = velocity * velocity


def test_source_shows_the_users_lines_and_names():
    first = shown.origin.first_line
    lines = shown.source().splitlines()
    assert lines[0] == f"# forward of shown ({__file__}:{first})"
    assert lines[1] == "# many threads: several at once, in lanes; in chunks on several processors"
    assert lines[2] == "def entry(lo, hi, args):"
    (line,) = [x for x in lines if "velocity_1 =" in x]
    assert line.split("  # ")[0].strip() == "velocity_1 = v_2 * f32(2.0)"
    assert line.endswith(f"  # {first + 3}: velocity = x[i] * 2.0")
    adjoint = shown.source("adjoint")
    assert adjoint.startswith("# adjoint of shown (")
    assert "adj_velocity_1 = " in adjoint
    assert re.search(r"\n +y_adj\[\w+\] = f32\(0.0\) +# \d+: y\[i\] = velocity \* velocity\n", adjoint)


def test_source_says_where_threads_depend_on_their_order():
    @wp.kernel
    def summed(x: wp.array(dtype=float)):
        i = wp.tid()
        if i > 0:
            x[i] = x[i] + x[i - 1]

    assert summed.source().splitlines()[1] == "# many threads: one after the other; on one processor"


def test_generated_text_runs_as_plain_python():
    x, y = np.array([1.5, -2.0], np.float32), np.zeros(2, np.float32)
    run(shown, 2, [x, y], interpreted=True)
    assert y.tolist() == [9.0, 16.0]
    dx, dy = np.zeros(2, np.float32), np.ones(2, np.float32)
    run(shown, 2, [x, y], adjoints=[dx, dy], interpreted=True)
    assert (dx.tolist(), dy.tolist()) == ([12.0, -16.0], [0.0, 0.0])


def test_names_of_python_and_of_the_generator_do_not_collide():
    @wp.kernel
    def awkward(
        lo: wp.array(dtype=float), hi: float, args: int, t: float, entry: float, i32: float, λ: float
    ):
        i = wp.tid()
        range_1 = hi + t
        top = entry * i32
        stack = range_1 * top * λ
        v_1 = stack + float(args)
        lo[i] = v_1

    x = np.zeros(3, np.float32)
    run(awkward, 3, [x, 1.0, 2, 3.0, 4.0, 5.0, 6.0])
    assert x.tolist() == [482.0] * 3


def test_params_that_differ_in_letters_python_would_drop():
    @wp.kernel
    def greek(
        α: wp.array(dtype=float),
        β: wp.array(dtype=float),
        a_n0: float,
        a: wp.array(dtype=float),
        p0: float,
        aα: float,
    ):
        i = wp.tid()
        β[i] = α[i] * a_n0 + float(a.shape[0]) + p0 + aα

    one, two, three = (np.full(2, v, np.float32) for v in (2.0, 0.0, 0.0))
    run(greek, 2, [one, two, 3.0, three, 10.0, 20.0])
    assert two.tolist() == [38.0, 38.0]


def test_analysis_can_be_pickled_for_reports():
    assert pickle.loads(pickle.dumps(shown.analysis)) == shown.analysis


def test_comments_and_docstrings_may_begin_left_of_the_code():
    @wp.kernel
    def ragged(x: wp.array(dtype=float)):
        """A docstring
        that goes on at the left."""
        # and a comment
        x[0] = 2.0
        # another
        x[0] = x[0] * 3.0  # done

    x = np.zeros(1, np.float32)
    run(ragged, 1, [x])
    assert x[0] == 6.0
    first = ragged.origin.first_line
    read = next(a for a in ragged.analysis.accesses if a.kind == "read")
    assert (read.span.line - first, read.span.column) == (7, 15)


def test_columns_are_characters_not_bytes():
    text = "@wp.kernel\ndef greek(φ: wp.array(dtype=float)):\n    φ[0] = φ[0] + 1  # ∂φ\n"
    with pytest.raises(wp.KernelTypeError) as info:
        _ = cell(4, text)["greek"].analysis
    assert str(info.value).splitlines()[2:4] == ["   |     φ[0] = φ[0] + 1  # ∂φ", "   |            ^^^^^^^^"]
