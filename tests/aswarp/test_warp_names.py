"""Names that only programs for Warp use: attributes, settings, queries, logging, functions of arrays."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tapedebug as td
from tapedebug.aswarp import WarpImportError, as_warp, kernel_functions
from tests.processes import ROOT

pytestmark = pytest.mark.unoptimized


@pytest.fixture
def wp() -> Iterator[Any]:
    with as_warp():
        yield importlib.import_module("warp")


@td.kernel
def square(x: td.array(dtype=td.vec3), y: td.array(dtype=float), scale: float):  # type: ignore[valid-type]
    i = td.tid()
    y[i] = scale * td.dot(x[i], x[i])


def test_types_have_the_attributes_of_warp(wp: Any) -> None:
    assert (wp.vec3._shape_, wp.vec3._length_, wp.vec3._wp_scalar_type_) == ((3,), 3, wp.float32)
    assert (wp.mat22d._shape_, wp.mat22d._length_, wp.mat22d._type_) == ((2, 2), 4, wp.float64._type_)
    assert wp.vec3(1.0, 2.0, 3.0)._length_ == 3
    assert wp.int16._type_.__name__ == "c_short"
    assert not hasattr(wp.types.vector, "_shape_")
    with pytest.raises(AttributeError, match="'Compound' is a family of types, not a type"):
        td.types.Compound._shape_


def test_types_of_vectors_take_their_dtype_and_len_counts_components(wp: Any) -> None:
    @wp.kernel
    def count(y: wp.array(dtype=wp.vec3i)):  # type: ignore[valid-type]
        cell = wp.vec3i(4, 5, 6, dtype=wp.int32)
        cell[0] = wp.len(cell)
        y[0] = cell

    y = wp.zeros(1, dtype=wp.vec3i)
    wp.launch(count, 1, [y])
    assert y.numpy().tolist() == [[3, 5, 6]]

    @wp.kernel
    def wide(y: wp.array(dtype=wp.vec3)):  # type: ignore[valid-type]
        y[0] = wp.vec3(1.0, 2.0, 3.0, dtype=wp.float64)

    with pytest.raises(td.KernelTypeError, match="kernel `wide`: vec3 holds float32, not float64") as caught:
        wp.launch(wide, 1, [wp.zeros(1, dtype=wp.vec3)])
    assert "hint: leave dtype out, or name another type" in str(caught.value)
    first = wide.module.hash_module()
    assert wide.module.hash_module() == first, "a module with a kernel that is refused has a hash, too"


def test_types_are_described_and_told_apart(wp: Any) -> None:
    types = wp.types
    assert types.type_repr(wp.vec3) == "vector(length=3, dtype=float32)"
    assert types.type_repr(wp.mat22d) == "matrix(shape=(2, 2), dtype=float64)"
    assert (
        types.type_repr(wp.array(dtype=wp.quat, ndim=2)) == "array(ndim=2, dtype=quaternion(dtype=float32))"
    )
    assert types.type_repr(wp.zeros(4, dtype=int)) == "array(shape=(4,), dtype=int32)"
    assert (types.type_size(float), types.type_size(wp.transform)) == (1, 7)
    assert (types.type_size_in_bytes(wp.vec3d), types.type_size_in_bytes(wp.float16)) == (24, 2)
    assert types.types_equal(wp.array(dtype=float), wp.array(dtype=wp.float32))
    assert not types.types_equal(wp.vec3, wp.vec3d)
    assert types.is_vector(wp.vec3())
    assert not types.is_vector(wp.vec3)
    assert types.type_is_vector(wp.vec3)
    assert types.is_array(wp.zeros(1))
    assert not types.is_int(True)
    assert types.is_int(3)
    with pytest.raises(AttributeError, match="is not a type of the kernel language"):
        types.type_size(str)


def test_kernels_show_their_source_parameters_and_options(wp: Any) -> None:
    assert [(each.label, td.types.type_name(each.type)) for each in square.adj.args] == [
        ("x", "array(dtype=vec3)"),
        ("y", "array(dtype=float32)"),
        ("scale", "float32"),
    ]
    assert square.adj.fun_name == square.func.__name__ == "square"
    assert "td.dot(x[i], x[i])" in square.adj.source
    assert square.overloads == {}
    options = square.module.options
    assert (options["enable_backward"], options["max_unroll"], options["fast_math"]) == (True, 16, False)
    before = square.module.hash_module()
    options["enable_backward"] = False
    try:
        assert options["enable_backward"] is square.enable_backward is False
        assert square.module.hash_module() != before
        with pytest.raises(AttributeError, match="module `.*test_warp_names` has no setting 'fast_mathe'"):
            options["fast_mathe"] = True
    finally:
        options["enable_backward"] = None
    assert square.enable_backward
    assert square.module.hash_module() == before


def test_settings_are_read_back_and_checked(wp: Any) -> None:
    config = wp.config
    assert (config.lineinfo, config.optimization_level, config.version) == (False, None, wp.__version__)
    config.deterministic = config.DeterministicMode.RUN_TO_RUN
    assert config.deterministic is wp.DeterministicMode.RUN_TO_RUN
    with pytest.raises(
        ValueError, match=r"warp.config.deterministic must be a DeterministicMode value; got 1"
    ):
        config.deterministic = 1
    config.max_unroll = 4
    assert td.config.max_unroll == 4


def test_errors_of_kernels_are_caught_by_the_names_of_warp(wp: Any) -> None:
    codegen = importlib.import_module("warp._src.codegen")
    assert codegen.WarpCodegenError is wp.WarpCodegenTypeError

    @td.kernel
    def wrong(x: td.array(dtype=float)):  # type: ignore[valid-type]
        x[0] = td.dot(x, x)

    for kind in (wp.WarpCodegenError, RuntimeError):
        with pytest.raises(kind, match="kernel `wrong`"):
            wp.launch(wrong, dim=1, inputs=[wp.zeros(1)])


class Heard:
    """A logger that keeps what it gets."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def debug(self, message: str) -> None:
        self.lines.append(f"debug {message}")

    def info(self, message: str) -> None:
        self.lines.append(f"info {message}")

    def warning(self, message: str, category: Any = None, stacklevel: int = 1) -> None:
        self.lines.append(f"warning {message}")

    def error(self, message: str) -> None:
        self.lines.append(f"error {message}")


def test_messages_go_to_the_logger_of_the_program(wp: Any, capsys: pytest.CaptureFixture[str]) -> None:
    log = importlib.import_module("warp._src.logger")
    heard = Heard()
    with wp.ScopedLogger(heard), wp.ScopedLogLevel(wp.LOG_WARNING):
        log.log_info("not now")
        log.log_warning("once", DeprecationWarning)
        log.log_warning("once", DeprecationWarning)
        td._config.LOG.error("of the engine")
        assert wp.get_logger() is heard
    assert heard.lines == ["warning once", "error of the engine"]
    log.log_info("shown")
    assert capsys.readouterr().out == "shown\n"
    with pytest.raises(TypeError, match="lacks debug, info, warning, error"):
        wp.set_logger(object())


def test_sums_scans_and_sorting(wp: Any) -> None:
    utils = wp.utils
    a = wp.array([1.0, 2.0, 3.0], dtype=float)
    assert (utils.array_sum(a), utils.array_inner(a, a)) == (6.0, 14.0)
    assert utils.array_sum(wp.array([[1, 2, 3], [3, 4, 5]], dtype=wp.vec3)).tolist() == [4.0, 6.0, 8.0]
    total = utils.array_sum(wp.array([[1.0, 2.0], [3.0, 4.0]], dtype=float), axis=0)
    assert total.numpy().tolist() == [[4.0, 6.0]]
    running = wp.zeros(3, dtype=float)
    utils.array_scan(a, running, inclusive=False)
    assert running.numpy().tolist() == [0.0, 1.0, 3.0]
    keys = wp.array([3, -1, 2, 0, 0, 0], dtype=int)
    values = wp.array([0, 1, 2, 9, 9, 9], dtype=int)
    utils.radix_sort_pairs(keys, values, 3)
    assert keys.numpy().tolist()[:3] == [-1, 2, 3]
    assert values.numpy().tolist() == [1, 2, 0, 9, 9, 9]
    keys = wp.array([3, 1, 2, 0, 0, 0, 0, 0], dtype=int)
    utils.segmented_sort_pairs(keys, wp.zeros(8, dtype=int), 4, wp.array([0, 2, 4], dtype=int))
    assert keys.numpy().tolist()[:4] == [1, 3, 0, 2]
    runs, lengths = wp.zeros(4, dtype=int), wp.zeros(4, dtype=int)
    assert utils.runlength_encode(wp.array([7, 7, 5, 7], dtype=int), runs, lengths) == 3
    assert (runs.numpy().tolist()[:3], lengths.numpy().tolist()[:3]) == ([7, 5, 7], [2, 1, 1])
    with pytest.raises(RuntimeError, match=r"at least 2 \* count = 8 elements; got 4 keys and 4 values"):
        utils.radix_sort_pairs(wp.zeros(4, dtype=int), wp.zeros(4, dtype=int), 4)


def test_a_sum_on_a_tape_is_refused_because_its_gradient_would_be_lost(wp: Any) -> None:
    a = wp.ones(3, dtype=float, requires_grad=True)
    with wp.Tape(), pytest.raises(td.TapeError) as caught:
        wp.utils.array_sum(a)
    assert str(caught.value) == (
        "array_sum() runs outside of kernels: no tape records it, and the gradient of its arrays would be "
        "lost\n"
        "  = hint: compute it in a kernel (for a sum, wp.atomic_add), or call it after the tape's block"
    )


def test_cuda_is_absent_or_the_cpu(wp: Any) -> None:
    assert (wp.get_cuda_device_count(), wp.get_cuda_devices(), wp.get_cuda_driver_version()) == (0, [], None)
    assert not wp.is_mempool_supported("cpu")
    assert not wp.get_device("cpu").is_capturing
    with pytest.raises(td.DeviceError, match="Stream needs a CUDA device; this engine runs on the CPU"):
        wp.Stream("cpu")
    with wp.ScopedStream(None):
        pass
    td.config.cuda_on_cpu = True
    assert (wp.get_cuda_device_count(), wp.get_cuda_devices()) == (1, [wp.get_device("cpu")])
    stream = wp.Stream("cuda:0")
    with wp.ScopedStream(stream):
        assert wp.get_stream("cuda:0") is stream
        first, last = stream.record_event(), wp.record_event()
    assert wp.get_event_elapsed_time(first, last) >= 0


def test_what_the_page_for_users_of_warp_calls_missing_is_missing(wp: Any) -> None:
    page = (ROOT / "docs" / "warp.md").read_text(encoding="utf-8")
    section = page[page.index("## What is not here") :].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    names = [name for cell in cells for name in re.findall(r"`(?:wp\.)?(\w+)`", cell)]
    assert {"Mesh", "launch_tiled", "timing_begin"} <= set(names)
    assert [name for name in names if hasattr(wp, name)] == []


def test_internal_modules_have_public_names_only(wp: Any) -> None:
    context, types = (importlib.import_module(f"warp._src.{name}") for name in ("context", "types"))
    assert context.Kernel is wp.Kernel
    assert context.Module is type(square.module)
    assert types.vector is wp.types.vector
    assert wp._src.types is types
    assert types.np_dtype_to_warp_type[np.float32] is wp.float32
    with pytest.raises(AttributeError, match=r"warp\._src\.context has no name 'runtime'"):
        context.runtime
    with pytest.raises(WarpImportError, match=r"`warp\._src\.build` is not in tapedebug"):
        importlib.import_module("warp._src.build")


def test_a_transform_is_made_of_seven_numbers(wp: Any) -> None:
    assert wp.transform_expand((1, 2, 3, 0, 0, 0, 1)) == wp.transform(wp.vec3(1, 2, 3), wp.quat(0, 0, 0, 1))


def test_bfloat16_is_a_float_type(wp: Any) -> None:
    assert wp.bfloat16 is td.bfloat16 and wp.bfloat16 in wp.types.float_types
    assert wp.types.warp_type_to_np_dtype[wp.bfloat16] is np.uint16
    assert repr(wp.ref[wp.float32]) == "wp.ref[float32]"


@td.kernel
def edges(p: td.array2d(dtype=td.vec3), out: td.array(dtype=td.vec3)):  # type: ignore[valid-type]
    i = td.tid()
    out[i] = WARP_FUNCTIONS.closest_point_edge_edge(p[i, 0], p[i, 1], p[i, 2], p[i, 3], 1.0e-6)


class WARP_FUNCTIONS:
    closest_point_edge_edge = staticmethod(kernel_functions.closest_point_edge_edge)


def test_closest_points_of_edges_have_right_values_and_gradients(wp: Any) -> None:
    random = np.random.default_rng(5)
    ends = random.normal(size=(12, 4, 3))
    ends[0, 3], ends[1, 1] = ends[0, 2], ends[1, 0]  # segments that are points
    points = wp.array(ends, dtype=wp.vec3, requires_grad=True)
    out = wp.zeros(12, dtype=wp.vec3, requires_grad=True)
    wp.launch(edges, dim=12, inputs=[points, out])
    grid = np.linspace(0, 1, 401)
    for (p1, q1, p2, q2), (s, u, distance) in zip(ends, out.numpy(), strict=True):
        on_first, on_second = p1 + (q1 - p1) * grid[:, None], p2 + (q2 - p2) * grid[:, None]
        least = np.linalg.norm(on_first[:, None] - on_second[None], axis=2).min()
        assert 0 <= s <= 1
        assert 0 <= u <= 1
        assert distance == pytest.approx(np.linalg.norm(p1 + (q1 - p1) * s - p2 - (q2 - p2) * u), abs=1e-5)
        assert distance <= least + 1e-5
    assert wp.autograd.gradcheck(edges, 12, inputs=[points], outputs=[out], raise_exception=False)


def test_functions_and_numbers_have_the_names_of_warp(wp: Any) -> None:
    assert (wp.div_approx(3.0, 2.0), wp.block_dim(), wp.handle) == (1.5, 1, wp.uint64)
    assert wp.LN2 == wp.ln2 == pytest.approx(0.6931471805599453)
    assert pytest.approx((1 + 5**0.5) / 2) == wp.PHI


def test_a_unique_module_has_the_options_of_its_kernel(wp: Any) -> None:
    @wp.kernel(module="unique", module_options={"fast_math": True, "max_unroll": 4})
    def alone(x: wp.array(dtype=float)):  # type: ignore[valid-type]
        x[0] = 1.0

    assert alone.module is not square.module
    assert alone not in square.module.kernels
    assert (alone.module.options["fast_math"], alone.option("max_unroll")) == (True, 4)
    named = wp.kernel(module=square.module)(alone.python)
    assert named.module is square.module


def test_scalars_are_instances_of_their_types_and_wrap_around(wp: Any) -> None:
    assert isinstance(wp.float64(1.0), wp.float64)
    assert not isinstance(wp.float32(1.0), wp.float64)
    assert not isinstance(1.0, wp.float64)
    assert (wp.int8(300), wp.uint8(-1), wp.int8(-1234567890123456789)) == (44, 255, -21)


def test_memory_is_that_of_the_host(wp: Any) -> None:
    assert wp.zeros(3).memory_kind is wp.MemoryKind.HOST
    assert wp.get_device("cpu").total_memory >= wp.get_device("cpu").free_memory >= 0
    assert wp.can_access("cpu", wp.zeros(1))


def test_a_function_is_passed_where_the_annotation_is_the_class_of_functions(wp: Any) -> None:
    @wp.func
    def double(x: float):
        return 2.0 * x

    @wp.func
    def apply(f: wp.Function, x: float):  # type: ignore[name-defined]
        return f(x)

    @wp.kernel
    def kernel(x: wp.array(dtype=float)):  # type: ignore[valid-type]
        x[0] = apply(double, 3.0)

    x = wp.zeros(1, dtype=float)
    wp.launch(kernel, dim=1, inputs=[x])
    assert x.numpy().tolist() == [6.0]
    assert isinstance(double, wp.Function)


def test_scalars_of_older_versions_are_python_numbers(wp: Any) -> None:
    assert wp.config.legacy_scalar_return_types is False
    wp.config.legacy_scalar_return_types = True
    try:
        assert type(wp.vec3d(1.0, 2.0, 3.0)[0]) is float
        assert type(wp.sin(wp.float16(1.0))) is float
    finally:
        wp.config.legacy_scalar_return_types = False
    assert type(wp.vec3d(1.0, 2.0, 3.0)[0]) is np.float64


def test_functions_of_arrays_refuse_what_would_be_rounded_or_left_out(wp: Any) -> None:
    one, two = wp.ones(3, dtype=float), wp.ones(2, dtype=float)
    whole, long = wp.zeros(8, dtype=int), wp.zeros(1, dtype=wp.float64)
    for kind, message, act in (
        (RuntimeError, "the result is float32; got out=array", lambda: wp.utils.array_sum(one, out=long)),
        (ValueError, r"one shape; got \(3,\) and \(2,\)", lambda: wp.utils.array_inner(one, two)),
        (
            TypeError,
            "the count is an integer; got 1.5",
            lambda: wp.utils.segmented_sort_pairs(whole, whole, 1.5, whole),
        ),
        (
            RuntimeError,
            "as many ends of segments as starts; got 8 starts and 4 ends",
            lambda: wp.utils.segmented_sort_pairs(whole, whole, 4, whole, whole[:4]),
        ),
        (
            RuntimeError,
            "run_lengths is an array of int32; got array",
            lambda: wp.utils.runlength_encode(whole, whole, one),
        ),
    ):
        with pytest.raises(kind, match=message):
            act()


def test_decorators_refuse_values_that_mean_nothing(wp: Any) -> None:
    with pytest.raises(ValueError, match="the name is an identifier; got '1st'"):
        wp.kernel(name="1st")
    with pytest.raises(ValueError, match="entry_point_abi='external' is for kernels that another program"):
        wp.kernel(entry_point_abi="external")
    with pytest.raises(TypeError, match="inline is True, False or None; got 'yes'"):
        wp.func(inline="yes")
    a = wp.zeros(2)
    with pytest.raises(ValueError, match=r"retain_grad=True needs requires_grad=True; array\(shape=\(2,\)"):
        a.retain_grad = True
    a.requires_grad = a.retain_grad = True
    a.requires_grad = False
    assert not a.retain_grad
    assert np.dtype(wp.float32) == np.float32 or np.lib.NumpyVersion(np.__version__) < "2.4.0"


def test_an_address_in_a_kernel_is_refused_with_what_to_write(wp: Any) -> None:
    @td.kernel
    def k(a: td.array(dtype=float), p: td.array(dtype=td.uint64)):  # type: ignore[valid-type]
        p[0] = wp.address_of(a[0])

    with pytest.raises(td.KernelError, match=r"annotate the parameter of the @func as wp.ref\[float\]"):
        wp.launch(k, 1, [wp.zeros(1), wp.zeros(1, dtype=wp.uint64)])
