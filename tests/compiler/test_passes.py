"""What passes keep and drop: verification, dead code, what adjoints need, what kernels touch."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._source import Span
from tapedebug.compiler.builder import Builder
from tapedebug.compiler.ir import Block, For, Function, If, Op, Param, Value, While, walk
from tapedebug.compiler.passes.dce import remove_dead_code
from tapedebug.compiler.passes.verify import InvalidIR, verify
from tapedebug.lang import types as t
from tests.compiler.harness import run

SPAN = Span("file.py", 1, 0, 1, 4, "k", "text")
X, Y = 0, 1
PARAMS = (Param("x", t.ArrayType(t.float32), X), Param("y", t.ArrayType(t.float32), Y))


class Sketch:
    """A function under construction: y[i] = x[i], to be broken or filled with dead code."""

    def __init__(self) -> None:
        self.b = Builder()
        self.b.span = SPAN
        self.place = self.b.offset(X, (self.b.thread(0),))
        self.x = self.b.load(X, 0, self.place, t.float32)

    def number(self, value: float, kind: type[t.Scalar] = t.float32) -> Value:
        return self.b.constant(value, kind)

    def finish(self) -> Function:
        return Function("k", PARAMS, self.b.root, 1)


def broken(sketch: Sketch) -> str:
    with pytest.raises(InvalidIR) as info:
        verify(sketch.finish())
    return str(info.value).split(": ")[1]


def test_verify_accepts_what_is_well_formed():
    s = Sketch()
    s.b.store(Y, 0, s.place, s.b.apply("mul", s.x, s.x))
    function = s.finish()
    assert verify(function) is function


def test_verify_finds_a_value_used_before_it_is_defined():
    s = Sketch()
    s.b.store(Y, 0, s.place, Value(t.float32))
    assert broken(s) == "a value is used before it is defined"


def test_verify_finds_a_value_that_leaves_its_block():
    s = Sketch()
    with s.b.block() as inner:
        inside = s.b.apply("mul", s.x, s.x)
    s.b.append(If(s.b.apply("gt", s.x, s.number(0)), inner, Block(), [], SPAN))
    s.b.store(Y, 0, s.place, inside)
    assert broken(s) == "a value is used before it is defined"


def test_verify_finds_a_value_assigned_twice():
    s = Sketch()
    s.b.append(s.x.op)
    assert broken(s) == "a value is assigned twice"


@pytest.mark.parametrize(
    ("yields", "message"),
    [
        ([], "yielded types do not fit"),
        (["int"], "yielded types do not fit"),
        (["unknown"], "a block yields an unknown value"),
    ],
)
def test_verify_finds_wrong_yields(yields, message):
    s = Sketch()
    made = {"int": s.number(1, t.int32), "unknown": Value(t.float32)}
    result = Value(t.float32)
    test = s.b.apply("gt", s.x, s.number(0))
    s.b.append(If(test, Block([], [made[y] for y in yields]), Block([], [s.x]), [result], SPAN))
    assert broken(s) == message


def test_verify_finds_a_condition_that_is_no_bool():
    s = Sketch()
    s.b.append(If(s.x, Block(), Block(), [], SPAN))
    assert broken(s) == "a condition is not bool"


def test_verify_finds_wrong_loops():
    s = Sketch()
    s.b.append(For(s.number(3, t.int32), Value(t.int64), [], [], Block(), [], SPAN))
    assert broken(s) == "a count is not int64"
    s = Sketch()
    s.b.append(While([], [], Block([], [s.x]), Block(), [], SPAN))
    assert broken(s) == "a test is not bool"
    s = Sketch()
    carried, result = Value(t.float32), Value(t.float32)
    loop = For(
        s.number(3, t.int64),
        Value(t.int64),
        [s.number(1, t.int32)],
        [carried],
        Block([], [carried]),
        [result],
        SPAN,
    )
    s.b.append(loop)
    assert broken(s) == "yielded types do not fit"


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (("frobnicate", (), t.float32, ()), "unknown operation 'frobnicate'"),
        (("mul", ("x", "x"), t.float64, ()), "a rule's result has the wrong type"),
        (("load", ("place",), t.float64, (X, 0)), "an element has the wrong type"),
        (("load", ("x",), t.float32, (X, 0)), "an offset is not int64"),
        (("store", ("place", "i"), None, (Y, 0)), "an element has the wrong type"),
    ],
)
def test_verify_finds_wrong_operations(op, message):
    s = Sketch()
    named = {"x": s.x, "place": s.place, "i": s.number(1, t.int32)}
    kind, args, result, data = op
    s.b.append(Op(kind, tuple(named[a] for a in args), Value(result) if result else None, SPAN, data))
    assert broken(s) == message


def test_verify_finds_an_operation_without_a_place_in_the_source():
    s = Sketch()
    s.b.append(Op("neg", (s.x,), Value(t.float32), None))
    assert broken(s) == "an operation has no span"


# Dead code -------------------------------------------------------------------------------------------------


def kinds(function: Function) -> list[str]:
    return [n.kind if isinstance(n, Op) else type(n).__name__ for n in walk(function.body)]


def test_dead_operations_go_and_effects_stay():
    s = Sketch()
    s.b.apply("sin", s.x)
    s.b.store(Y, 0, s.place, s.x)
    s.b.load(Y, 0, s.place, t.float32)
    assert kinds(remove_dead_code(s.finish())) == ["offset", "load", "store"]


def test_a_branch_keeps_only_the_results_that_are_used():
    s = Sketch()
    used, unused = Value(t.float32), Value(t.float32)
    with s.b.block() as then:
        then.yields = [s.b.apply("sin", s.x), s.b.apply("cos", s.x)]
    s.b.append(If(s.b.apply("gt", s.x, s.number(0)), then, Block([], [s.x, s.x]), [used, unused], SPAN))
    s.b.store(Y, 0, s.place, used)
    function = verify(remove_dead_code(s.finish()))
    assert kinds(function) == ["offset", "load", "gt", "If", "sin", "store"]


def test_a_loop_loses_carried_values_that_only_feed_themselves():
    s = Sketch()
    carried, results = [Value(t.float32), Value(t.float32)], [Value(t.float32), Value(t.float32)]
    with s.b.block() as body:
        body.yields = [s.b.apply("mul", carried[0], s.x), s.b.apply("sin", carried[1])]
    s.b.append(For(s.number(3, t.int64), Value(t.int64), [s.x, s.x], carried, body, results, SPAN))
    s.b.store(Y, 0, s.place, results[0])
    function = verify(remove_dead_code(s.finish()))
    assert kinds(function) == ["offset", "load", "For", "mul", "store"]
    (loop,) = (n for n in walk(function.body) if isinstance(n, For))
    assert (loop.carried, loop.results) == ([carried[0]], [results[0]])


def test_a_loop_without_effect_goes():
    s = Sketch()
    carried, result = Value(t.float32), Value(t.float32)
    s.b.append(
        For(s.number(3, t.int64), Value(t.int64), [s.x], [carried], Block([], [carried]), [result], SPAN)
    )
    assert kinds(remove_dead_code(s.finish())) == []


@pytest.mark.parametrize("restored", [True, False])
def test_a_save_lives_only_with_its_restore(restored):
    s = Sketch()
    zero = s.number(0, t.int64)
    s.b.effect("reserve", (zero,), (5,))
    s.b.effect("save", (zero, s.x), (5, 0))
    s.b.effect("save", (zero, s.x), (5, 1))
    s.b.effect("commit", (zero,), (5,))
    value = s.b.emit("restore", (zero,), t.float32, (5, 1))
    s.b.effect("release", (), (5,))
    s.b.store(Y, 0, s.place, value if restored else s.x)
    found = kinds(remove_dead_code(s.finish()))
    kept = ["offset", "load", "reserve", "save", "commit", "restore", "release", "store"]
    assert found == (kept if restored else ["offset", "load", "store"])


def test_dead_code_removal_is_idempotent():
    body = adjoint_body(spring, {0, 2})
    assert kinds(remove_dead_code(Function("k", spring.params, body, 1))) == [
        n.kind if isinstance(n, Op) else type(n).__name__ for n in walk(body)
    ]


def adjoint_body(kernel, active):
    kernel.adjoint_info(frozenset(active))
    return kernel._adjoints[frozenset(active), kernel.adjoint_info(frozenset(active)).replay].body


# What adjoints need ----------------------------------------------------------------------------------------


@wp.kernel
def spring(x: wp.array(dtype=wp.vec3), rest: wp.array(dtype=float), force: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    d = x[i + 1] - x[i]
    l = wp.length(d)  # noqa: E741
    force[i] = d * ((l - rest[i]) / l)


@wp.kernel
def integrate(
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    force: wp.array(dtype=wp.vec3),
    mass: wp.array(dtype=float),
    x_next: wp.array(dtype=wp.vec3),
    v_next: wp.array(dtype=wp.vec3),
    dt: float,
):
    i = wp.tid()
    v_new = v[i] + force[i] * (dt / mass[i])
    v_next[i] = v_new
    x_next[i] = x[i] + v_new * dt


@wp.kernel
def gathered(x: wp.array(dtype=float), index: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    y[index[i]] = x[index[i]] * 2.0


@wp.kernel
def switched(x: wp.array(dtype=float), y: wp.array(dtype=float), flag: wp.array(dtype=float)):
    i = wp.tid()
    if flag[i] > 0.0:
        y[i] = x[i] * 2.0


@wp.kernel
def scattered(x: wp.array(dtype=float), w: wp.array(dtype=float), out: wp.array(dtype=float)):
    wp.atomic_add(out, 0, x[wp.tid()] * w[wp.tid()])


@wp.kernel
def accumulated(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] += x[i]


@wp.kernel
def multiplied(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] *= x[i]


@wp.kernel
def squared_in_place(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] * x[i]


@wp.kernel
def scaled_in_place(x: wp.array(dtype=float), s: float):
    i = wp.tid()
    x[i] = x[i] * s


@wp.kernel
def summed(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    s = float(0.0)
    for k in range(n):
        s += x[k]
    y[wp.tid()] = s


@wp.kernel
def compacted(x: wp.array(dtype=float), counter: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    if x[i] > 0.0:
        y[wp.atomic_add(counter, 0, 1)] = x[i]


@wp.kernel
def only_shape(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = float(x.shape[0])


@wp.kernel
def rounded(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.floor(x[i]) + float(int(x[i]))


@wp.kernel
def half_component(p: wp.array(dtype=wp.vec3), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = p[i].x * 2.0 + p[i].y * p[i].z


NEEDS = [
    # kernel, arrays with gradients, arrays whose values the adjoint needs, arrays that are replayed
    (spring, "x rest force", "x rest", ""),
    (spring, "rest force", "x", ""),
    (spring, "x rest", "", ""),
    (spring, "force", "", ""),
    (integrate, "x v force x_next v_next", "mass", ""),
    (integrate, "x v force mass x_next v_next", "force mass", ""),
    (integrate, "x v x_next v_next", "", ""),
    (integrate, "mass v_next", "force mass", ""),
    (gathered, "x y", "index", ""),
    (gathered, "y", "index", ""),
    (gathered, "x", "", ""),
    (switched, "x y", "flag", ""),
    (switched, "x y flag", "flag", ""),
    (scattered, "x w out", "x w", ""),
    (scattered, "x out", "w", ""),
    (accumulated, "x y", "", ""),
    (multiplied, "x y", "x y", "y"),
    (multiplied, "y", "x", ""),
    (multiplied, "x", "", ""),
    (squared_in_place, "x", "x", "x"),
    (scaled_in_place, "x", "", ""),
    (summed, "x y", "", ""),
    (compacted, "x y", "x counter", "counter"),
    (only_shape, "x y", "", ""),
    (rounded, "x y", "", ""),
    (half_component, "p y", "p", ""),
]


@pytest.mark.parametrize(("kernel", "active", "needs", "replay"), NEEDS, ids=lambda v: getattr(v, "key", v))
def test_adjoint_needs_exactly(kernel, active, needs, replay):
    index = {p.name: p.index for p in kernel.params}
    info = kernel.adjoint_info(frozenset(index[n] for n in active.split()))
    assert {p.name for p in kernel.params if p.index in info.needs} == set(needs.split())
    assert {p.name for p in kernel.params if p.index in info.replay} == set(replay.split())
    assert set(info.need_spans) == {p for p in info.needs if p in info.need_spans}
    assert info is kernel.adjoint_info(frozenset(index[n] for n in active.split()))


def test_needs_say_where_they_are_read():
    info = spring.adjoint_info(frozenset({0, 1, 2}))
    first = spring.origin.first_line
    shown = {(s.line - first, s.text[s.column : s.end_column]) for s in info.need_spans[0]}
    assert shown == {(3, "x[i + 1]"), (3, "x[i]")}
    assert [s.text[s.column : s.end_column] for s in info.need_spans[1]] == ["rest[i]"]


def test_replay_that_is_asked_for_is_done():
    """An array that is written under another name is replayed too, although the kernel does not see it."""
    info = multiplied.adjoint_info(frozenset({0, 1}), replay=frozenset({0}))
    assert info.replay == {0, 1}


@wp.kernel
def twice(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]
    for _ in range(2):
        y[i] = y[i] * x[i] + x[i]


def test_one_array_under_two_names():
    """With x and y the same: a = x², b = a² + a, c = b² + b; and its derivative."""
    x, scratch = np.array([0.5, -1.25]), np.array([0.5, -1.25])
    run(twice, 2, [x, x], f64=True)
    a = scratch**2
    b = a * a + a
    np.testing.assert_allclose(x, b * b + b)
    adjoint, start = np.ones(2), scratch.copy()
    run(twice, 2, [scratch, scratch], f64=True, adjoints=[adjoint, adjoint], replay=frozenset({0, 1}))
    np.testing.assert_allclose(adjoint, (2 * b + 1) * (2 * a + 1) * 2 * start)


# What kernels touch ----------------------------------------------------------------------------------------


@wp.kernel
def covers_some(
    whole: wp.array(dtype=float),
    vector: wp.array(dtype=wp.vec3),
    one_component: wp.array(dtype=wp.vec3),
    all_components: wp.array(dtype=wp.vec3),
    conditional: wp.array(dtype=float),
    shifted: wp.array(dtype=float),
    both: wp.array(dtype=float),
    added: wp.array(dtype=float),
    read: wp.array(dtype=float),
    untouched: wp.array(dtype=float),
):
    i = wp.tid()
    whole[i] = read[i]
    vector[i] = wp.vec3()
    one_component[i].x = 1.0
    all_components[i].x = 1.0
    all_components[i].y = 1.0
    all_components[i].z = 1.0
    if i > 0:
        conditional[i] = 1.0
    shifted[i + 1] = 1.0
    both[i] = both[i] * 2.0
    added[i] += read[i]


def names(kernel, indices):
    return {kernel.params[i].name for i in indices}


def test_analysis():
    a = covers_some.analysis
    assert names(covers_some, a.reads) == {"read", "both"}
    assert names(covers_some, a.atomic) == {"added"}
    assert names(covers_some, a.writes) == {p.name for p in covers_some.params} - {"read", "untouched"}
    assert names(covers_some, a.covers) == {"whole", "vector", "all_components", "both"}
    assert not a.serial


def test_accesses_are_the_places_in_the_source():
    first = covers_some.origin.first_line
    shown = [
        (
            covers_some.params[a.param].name,
            a.kind,
            a.span.line - first,
            a.span.text[a.span.column : a.span.end_column],
        )
        for a in covers_some.analysis.accesses
    ]
    assert shown[:3] == [
        ("read", "read", 14, "read[i]"),
        ("whole", "write", 14, "whole[i]"),
        ("vector", "write", 15, "vector[i]"),
    ]
    assert shown[-2:] == [("read", "read", 24, "read[i]"), ("added", "atomic", 24, "added[i]")]


@wp.kernel
def covers_plane(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float), c: wp.array(dtype=float)):
    i, j = wp.tid()
    a[i, j] = 1.0
    b[j, i] = 1.0
    c[i] = 1.0


@wp.kernel
def early(x: wp.array(dtype=float)):
    i = wp.tid()
    if i > 3:
        return
    x[i] = 1.0


@wp.kernel
def used_result(x: wp.array(dtype=float), n: wp.array(dtype=int)):
    k = wp.atomic_add(n, 0, 1)
    x[k] = 1.0


@wp.kernel
def dead_read(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    unused = x[i] * 2.0  # noqa: F841
    y[i] = 1.0


def test_analysis_of_other_kernels():
    assert names(covers_plane, covers_plane.analysis.covers) == {"a"}
    assert early.analysis.covers == frozenset()
    assert used_result.analysis.serial
    assert names(dead_read, dead_read.analysis.reads) == set()
    assert names(dead_read, dead_read.analysis.covers) == {"y"}
    assert early.axes == 1 and covers_plane.axes == 2


# Axes and strides ------------------------------------------------------------------------------------------


@wp.kernel
def plane(a: wp.array2d(dtype=float), p: wp.array2d(dtype=wp.vec2), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    out[i, j] = wp.sin(a[i, j]) * a[j, i] + p[i, j].x * p[j, i].y + float(i * 10 + j)


@wp.kernel
def box(a: wp.array3d(dtype=float), out: wp.array3d(dtype=float)):
    i, j, k = wp.tid()
    out[i, j, k] = a[i, j, k] * a[i, j, k] + float(i * 100 + j * 10 + k)


@wp.kernel
def four(a: wp.array4d(dtype=float), out: wp.array4d(dtype=float)):
    i, j, k, l = wp.tid()  # noqa: E741
    out[i, j, k, l] = a[i, j, k, l] * a[i, j, k, l] + float(i * 1000 + j * 100 + k * 10 + l)


@pytest.mark.parametrize("interpreted", [False, True])
@pytest.mark.parametrize(("kernel", "shape"), [(box, (2, 3, 4)), (four, (2, 3, 2, 3))])
def test_threads_of_three_and_four_axes(kernel, shape, interpreted):
    a = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 8
    out = np.zeros_like(a)
    run(kernel, shape, [a, out], interpreted=interpreted)
    digits = sum(axis * 10 ** (len(shape) - 1 - n) for n, axis in enumerate(np.indices(shape)))
    assert np.array_equal(out, a * a + digits)
    da, seed = np.zeros_like(a), np.ones_like(a)
    run(kernel, shape, [a, out], adjoints=[da, seed], interpreted=interpreted)
    assert np.array_equal(da, 2 * a) and not seed.any()


def test_any_range_of_threads():
    """Chunks of a launch run the threads lo … hi-1 and no others, wherever rows end."""
    shape = (3, 4)
    for lo in range(0, 12):
        for hi in range(lo, 13):
            a, out = np.ones(shape, np.float32), np.full(shape, -1, np.float32)
            p = np.zeros((3, 4, 2), np.float32)
            pick(lo, hi, [a, p, out])
            expected = [(lo <= k < hi) for k in range(12)]
            assert (out.ravel() >= 0).tolist() == expected


def pick(lo, hi, args):
    import ctypes

    slots = [3, 4, 1, 1]
    for value in args:
        width = value.strides[1] // 4
        slots += [value.ctypes.data, 3, 4, 4 * width, width]
    packed = ctypes.create_string_buffer(square.layout.size)
    square.layout.struct.pack_into(packed, 0, *slots, 0, 0, 0)
    square.forward()(lo, hi, ctypes.addressof(packed))


@wp.kernel
def square(a: wp.array2d(dtype=float), p: wp.array2d(dtype=wp.vec2), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    out[i, j] = a[i, j] + p[i, j].x


LAYOUTS = {
    "contiguous": lambda a: a,
    "transposed": lambda a: np.ascontiguousarray(a.swapaxes(0, 1)).swapaxes(0, 1),
    "sliced": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
    "reversed": lambda a: np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("f64", [False, True])
def test_strides(layout, f64):
    rng = np.random.default_rng(2)
    dtype = np.float64 if f64 else np.float32
    plain = [rng.normal(size=s).astype(dtype) for s in ((4, 4), (4, 4, 2), (4, 4))]
    seeds = [np.zeros((4, 4), dtype), np.zeros((4, 4, 2), dtype), rng.normal(size=(4, 4)).astype(dtype)]
    results = []
    for arrange in (LAYOUTS["contiguous"], LAYOUTS[layout]):
        arrays, adjoints = ([arrange(a.copy()) for a in group] for group in (plain, seeds))
        run(plane, (4, 4), arrays, f64=f64)
        run(plane, (4, 4), arrays, f64=f64, adjoints=adjoints)
        results.append([arrays[2].copy(), *(a.copy() for a in adjoints)])
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)
    a, p, _ = plain
    i, j = np.indices((4, 4))
    expected = np.sin(a) * a.T + p[..., 0] * p.swapaxes(0, 1)[..., 1] + i * 10 + j
    np.testing.assert_allclose(results[0][0], expected, rtol=1e-5)


def test_broadcast_stride_reads_one_element():
    one = np.broadcast_to(np.float32(3.0), (4,))
    y = np.zeros(4, np.float32)
    run(accumulated, 4, [one, y])
    assert y.tolist() == [3.0] * 4


# The twin in float64 ---------------------------------------------------------------------------------------


@wp.kernel
def cancels(x: wp.array(dtype=float), y: wp.array(dtype=float), big: float):
    i = wp.tid()
    y[i] = (x[i] + big) - big


def test_the_twin_computes_in_float64_with_the_same_constants():
    x, y = np.array([0.1], np.float32), np.zeros(1, np.float32)
    run(cancels, 1, [x, y, 1e8])
    assert y[0] == 0.0
    wide = [x.astype(float), np.zeros(1)]
    run(cancels, 1, [*wide, 1e8], f64=True)
    assert abs(wide[1][0] - np.float32(0.1)) < 1e-7


@wp.kernel
def scaled(x: wp.array(dtype=float), y: wp.array(dtype=float), s: float):
    i = wp.tid()
    y[i] = x[i] * s * 0.1


def test_arguments_and_literals_of_the_twin_are_those_of_the_kernel():
    """0.1 is not a float32: the reference differentiates the program that ran, not another one."""
    x, y = np.ones(1), np.zeros(1)
    run(scaled, 1, [x, y, 0.1], f64=True)
    assert y[0] == float(np.float32(0.1)) ** 2
