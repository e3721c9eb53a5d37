"""Coloured Jacobians against dense ones, and what happens where the traced sparsity is wrong."""
# mypy: disable-error-code="valid-type, no-untyped-def, no-untyped-call, untyped-decorator"

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import FunctionMetadata, jacobian, jacobian_fd
from tapedebug.autograd.sparse import assembly, coloured_jacobian
from tapedebug.autograd.sparse.pattern import Pattern, forget
from tests.autograd import kernels
from tests.autograd import sparse_kernels as k


def dense(method: Any, monkeypatch: pytest.MonkeyPatch, *args: Any, **options: Any) -> Any:
    """Return the Jacobian row by row, or column by column."""
    with monkeypatch.context() as patch:
        patch.setattr(assembly, "_fill_coloured", lambda *_: False)
        return method(*args, **options)


def same(one: Any, other: Any, tolerance: float = 2e-6) -> None:
    assert list(one) == list(other)
    for key, value in one.items():
        first, second = (m.toarray() if hasattr(m, "toarray") else m.numpy() for m in (value, other[key]))
        second = second.reshape(first.shape)
        scale = max(1.0, float(np.nanmax(np.abs(second), initial=0.0)))
        np.testing.assert_allclose(first, second, rtol=0, atol=tolerance * scale)


@pytest.mark.sweep
@pytest.mark.parametrize("mode", ["adjoint", "tangent", "fewest"])
@pytest.mark.parametrize("name", k.CASES)
def test_coloured_as_dense(name: str, mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    case = k.CASES[name]()
    args = case.kernel, case.dim, case.inputs, case.outputs
    half = 2e-3 if name == "halves" else 2e-6
    exact = dense(jacobian, monkeypatch, *args, mode=mode)
    found = jacobian(*args, mode=mode)
    same(found, exact, half)
    assert found.notes == []
    pytest.importorskip("scipy")
    same(jacobian(*args, sparse=True, mode=mode), exact, half)


@pytest.mark.parametrize("reference", ["float64", "float32"])
@pytest.mark.parametrize("name", [name for name in k.CASES if name not in ("maximum",)])
def test_coloured_differences_as_dense_ones(
    name: str, reference: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = k.CASES[name]()
    args = case.kernel, case.dim, case.inputs, case.outputs
    exact = dense(jacobian_fd, monkeypatch, *args, reference=reference)
    found = jacobian_fd(*args, reference=reference)
    same(found, exact, 1e-6 if reference == "float64" else 1e-12)
    assert found.notes == []


def test_few_runs() -> None:
    def runs(name: str) -> int:
        case = k.CASES[name]()
        return jacobian(case.kernel, case.dim, case.inputs, case.outputs).runs

    assert [runs(name) for name in ("tridiagonal", "component-wise", "environments", "all pairs")] == [
        4,
        2,
        4,
        15,
    ]
    x, y = k.numbers(400), k.nothing(400)
    ways = [jacobian(k.arrow, 400, [x], [y], mode=mode) for mode in ("adjoint", "tangent", "fewest")]
    assert [found.runs for found in ways] == [400, 400, 4]
    same(ways[2], ways[0])


def test_the_fewest_runs_without_sparsity() -> None:
    x, y, wide = k.numbers(3), k.nothing(40), k.nothing(2)
    tall = jacobian(k.every_input, 40, [x], [y], mode="fewest")
    assert tall.runs <= 4, "columns, as there are fewer"
    same(tall, jacobian(k.every_input, 40, [x], [y]))
    flat = jacobian(k.every_input, 2, [x], [wide], mode="fewest")
    assert flat.runs == 2
    same(flat, jacobian(k.every_input, 2, [x], [wide]))
    some = jacobian(k.arrow, 400, [k.numbers(400)], [k.nothing(400)], mode="fewest", max_outputs_per_var=50)
    other = jacobian(k.arrow, 400, [k.numbers(400)], [k.nothing(400)], max_outputs_per_var=50)
    assert some.runs < 10
    same(some, other)


def test_where_adjoint_and_tangent_differ_the_fewest_runs_are_adjoint_ones() -> None:
    x, y = k.numbers(60), k.nothing(60)
    found = jacobian(k.wrong_arrow, 60, [x], [y], mode="fewest")
    same(found, jacobian(k.wrong_arrow, 60, [x], [y]))
    assert found.notes == [
        "kernel wrong_arrow: a random product contradicts the tangent or the traced sparsity; "
        "every row and column was computed by itself"
    ]


def two_outputs(x: Any, w: Any) -> list[Any]:
    y, z = k.nothing(20), k.nothing(20)
    wp.launch(k.tridiagonal, 20, [x], [y])
    wp.launch(k.added_in_place, 20, [y], [z])
    wp.launch(k.in_place, 20, [w], [z])
    return [y, z]


def test_functions_with_several_inputs_and_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = [k.numbers(20), k.numbers(20, seed=4)]
    found = jacobian(two_outputs, inputs=inputs)
    same(found, dense(jacobian, monkeypatch, two_outputs, inputs=inputs))
    assert list(found) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert found.runs < 12, "rows of both outputs share runs"
    chosen = jacobian(two_outputs, inputs=inputs, input_output_mask=[(0, 1), (1, 0)])
    assert list(chosen) == [(0, 1), (1, 0)]
    np.testing.assert_array_equal(chosen[0, 1].numpy(), found[0, 1].numpy())


# ------------------------------------------------------------------ what was not evaluated


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("method", [jacobian, jacobian_fd])
def test_samples(method: Callable[..., Any], sparse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if sparse:
        pytest.importorskip("scipy")
    x, y = k.numbers(60), k.nothing(60)
    limit = "max_outputs_per_var" if method is jacobian else "max_inputs_per_var"
    args: Any = (k.tridiagonal, 60, [x], [y])
    whole = method(*args)[0, 0].numpy()
    for sample in ("random", "first"):
        found = method(*args, **{limit: 25}, sample=sample, sparse=sparse)
        assert found.runs < 12
        matrix = found[0, 0].toarray() if sparse else found[0, 0].numpy()
        matrix = matrix if method is jacobian else matrix.T
        wanted = whole if method is jacobian else whole.T
        known = ~np.isnan(matrix).any(axis=1)
        assert known.sum() == 25
        assert (np.flatnonzero(known).tolist() == list(range(25))) == (sample == "first")
        np.testing.assert_allclose(matrix[known], wanted[known], rtol=1e-6)
        unknown = np.isnan(matrix[~known])
        assert unknown.all() if not sparse else (unknown == (wanted[~known] != 0)).all()
    with pytest.raises(wp.GradcheckError) as caught:
        method(*args, sample="last")
    assert str(caught.value) == (
        f"{method.__name__}: sample is 'random' or 'first'; got 'last'\n  = hint: leave it at 'random'"
    )


def test_parts_of_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = k.numbers(40), k.nothing(40)
    mask = [("x[3:9]", "y"), ("x[20]", "y[10:30]")]
    args: Any = (k.tridiagonal, 40, [x], [y], mask)
    found, exact = jacobian(*args), dense(jacobian, monkeypatch, *args)
    same(found, exact)
    wanted = np.zeros((40, 40), bool)
    wanted[:, 3:9] = wanted[10:30, 20] = True
    for jacobians in (found, jacobian_fd(*args), dense(jacobian_fd, monkeypatch, *args)):
        assert np.array_equal(np.isnan(jacobians[0, 0].numpy()), ~wanted)


def test_sparse_matrices_are_of_scalars() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    case = k.CASES["rotated"]()
    found = jacobian(case.kernel, case.dim, case.inputs, case.outputs, sparse=True)
    assert {key: (type(m), m.shape, m.dtype, m.nnz) for key, m in found.items()} == {
        (0, 0): (sparse.csr_array, (12, 36), np.float32, 36),
        (1, 0): (sparse.csr_array, (12, 12), np.float32, 36),
    }
    assert all(matrix.has_canonical_format for matrix in found.values())
    case = k.CASES["doubles"]()
    assert jacobian(case.kernel, case.dim, case.inputs, case.outputs, sparse=True)[0, 0].dtype == np.float64


def test_sparse_matrices_of_one_pattern_do_not_share_memory() -> None:
    pytest.importorskip("scipy")
    x, y = k.numbers(30), k.nothing(30)
    first = jacobian(k.tridiagonal, 30, [x], [y], sparse=True)[0, 0]
    copy = first.toarray()
    first.indices[:] = first.indptr[:] = 0
    first.data[:] = 0
    np.testing.assert_array_equal(jacobian(k.tridiagonal, 30, [x], [y], sparse=True)[0, 0].toarray(), copy)


def test_a_dense_jacobian_as_a_sparse_matrix() -> None:
    pytest.importorskip("scipy")
    case = k.CASES["scanned"]()
    found = jacobian(case.kernel, case.dim, case.inputs, case.outputs, sparse=True)
    assert found.runs == 6
    assert np.array_equal(found[0, 0].toarray() != 0, np.tri(6, dtype=bool))
    few = jacobian(k.scanned, 6, case.inputs, case.outputs, sparse=True, max_outputs_per_var=2)[
        0, 0
    ].toarray()
    assert (np.isnan(few[1:5]) == np.tri(6, dtype=bool)[1:5]).all(), "what is zero by the pattern is known"
    assert not np.isnan(few[[0, 5]]).any()


def test_sparse_without_scipy_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    x, y = k.numbers(12), k.nothing(12)
    for method in (jacobian, jacobian_fd):
        assert method(k.tridiagonal, 12, [x], [y])[0, 0].shape == (12, 12)
        with pytest.raises(wp.TapedebugError) as caught:
            method(k.tridiagonal, 12, [x], [y], sparse=True)
        assert str(caught.value) == (
            "jacobian: sparse=True needs scipy, which is not installed\n"
            "  = hint: pip install scipy, or leave sparse out for dense arrays"
        )


# ------------------------------------------------------------------ wrong patterns


def with_patterns(monkeypatch: pytest.MonkeyPatch, change: Callable[[Pattern], Pattern], times: int) -> None:
    """The first `times` traces are wrong."""
    left = [times]
    real = coloured_jacobian.traced

    def traced(program: Any, *, fresh: bool = False) -> Any:
        found = real(program, fresh=fresh)
        left[0] -= 1
        return found if left[0] < 0 else {pair: change(pattern) for pair, pattern in found.items()}

    monkeypatch.setattr(coloured_jacobian, "traced", traced)


def without_one(pattern: Pattern) -> Pattern:
    """One entry less, in the middle."""
    keep = np.arange(len(pattern)) != len(pattern) // 2
    return Pattern(pattern.shape, pattern.rows[keep], pattern.columns[keep])


@pytest.mark.parametrize(
    "options",
    [{}, {"mode": "tangent"}, {"method": jacobian_fd}, {"method": jacobian_fd, "reference": "float32"}],
    ids=["adjoint", "tangent", "differences", "plain differences"],
)
@pytest.mark.parametrize("times", [1, 2])
def test_a_wrong_pattern_is_noticed(options: Any, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    options = dict(options)
    method = options.pop("method", jacobian)
    x, y = k.numbers(30), k.nothing(30)
    exact = dense(method, monkeypatch, k.tridiagonal, 30, [x], [y], **options)
    with_patterns(monkeypatch, without_one, times)
    found = method(k.tridiagonal, 30, [x], [y], **options)
    same(found, exact, 1e-6)
    if times == 1:
        assert found.notes == [] and found.runs < 10, "it is traced again"
        return
    what = (
        "an output moved that the traced sparsity takes for constant; every column was computed by itself"
        if "reference" in options
        else "a random product contradicts the traced sparsity; every row and column was computed by itself"
    )
    assert found.notes == [f"kernel tridiagonal: {what}"]
    assert found.runs == 30


def test_an_adjoint_that_reaches_further_than_the_kernel_is_not_cut_off() -> None:
    @wp.func
    def twice(x: wp.array(dtype=float), i: int):
        return 2.0 * x[i]

    @wp.func_grad(twice)
    def adj_twice(x: wp.array(dtype=float), i: int, adj_ret: float):
        wp.adjoint[x][i] += 2.0 * adj_ret
        wp.adjoint[x][(i + 5) % 12] += 0.5 * adj_ret

    @wp.kernel
    def doubled(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = twice(x, i)

    found = jacobian(doubled, 12, [k.numbers(12)], [k.nothing(12)])
    np.testing.assert_array_equal(found[0, 0].numpy(), 2 * np.eye(12) + 0.5 * np.roll(np.eye(12), 5, axis=1))
    assert len(found.notes) == 1


def test_values_that_are_not_finite_do_not_hide_a_wrong_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = k.numbers(30), k.nothing(30)
    values = x.numpy().copy()
    values[4] = np.inf
    x.assign(values)
    found = jacobian(k.tridiagonal, 30, [x], [y])
    assert found.notes == [] and not np.isfinite(found[0, 0].numpy()[3:6, 4]).all()
    with_patterns(monkeypatch, without_one, 2)
    assert len(jacobian(k.tridiagonal, 30, [x], [y]).notes) == 1


# ------------------------------------------------------------------ the other arguments


def test_float32_differences_are_the_documents_own() -> None:
    x, y = kernels.vector([1000.0, 2.0]), kernels.vector([0.0, 0.0])
    values = x.numpy()
    step = np.float32(1e-2)
    up, down = (values + step) ** 3, (values - step) ** 3
    found = jacobian_fd(kernels.cube, 2, [x], [y], eps=1e-2, reference="float32")[0, 0].numpy()
    np.testing.assert_allclose(np.diag(found), (up - down) / np.float32(2e-2), rtol=0.05)
    exact = jacobian_fd(kernels.cube, 2, [x], [y])[0, 0].numpy()
    assert found[0, 0] != exact[0, 0] == np.float32(3e6), "in float32 there are few digits"
    with pytest.raises(ValueError, match="jacobian_fd: reference is 'float64' or 'float32'; got 'float16'"):
        jacobian_fd(kernels.cube, 2, [x], [y], reference="float16")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="jacobian: mode is 'adjoint', 'tangent' or 'fewest'; got 'reverse'"):
        jacobian(kernels.cube, 2, [x], [y], mode="reverse")  # type: ignore[arg-type]


def test_an_empty_metadata_is_filled() -> None:
    x, y = k.numbers(12), k.nothing(12)
    for method in (jacobian, jacobian_fd):
        metadata = FunctionMetadata()
        method(k.tridiagonal, 12, [x], [y], metadata=metadata, restore_inputs=False)
        assert (metadata.key, metadata.input_labels, metadata.output_labels) == ("tridiagonal", ["x"], ["y"])
        assert (metadata.input_dtypes, metadata.input_strides) == ([wp.float32], [(4,)])


def test_what_is_not_there_in_time_is_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("scipy")
    monkeypatch.setattr(assembly, "AT_ONCE", 2400)  # two rows at a time
    monkeypatch.setattr(assembly, "_fill_coloured", lambda *_: False)
    x, y = k.numbers(600), k.nothing(600)
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock.append(clock[-1] + 0.01) or clock[-1])  # type: ignore[func-returns-value]
    with pytest.warns(
        RuntimeWarning, match=r"kernel tridiagonal: time was up \(max_seconds=1\); entries that"
    ) as message:
        found = jacobian(k.tridiagonal, 600, [x], [y], max_seconds=1.0, progress=False)
    assert message[0].filename == __file__
    known = ~np.isnan(found[0, 0].numpy()).any(axis=1)
    assert 2 <= known.sum() < 600 and known[0] and not known[-1]
    assert found.notes == [
        "kernel tridiagonal: time was up (max_seconds=1); entries that were not evaluated by then are NaN"
    ]
    with pytest.raises(wp.TapedebugError, match="time was up"):
        jacobian(k.tridiagonal, 600, [x], [y], max_seconds=1.0, progress=False, sparse=True)


def test_a_large_sparse_jacobian_needs_no_dense_one() -> None:
    pytest.importorskip("scipy")
    n = 1 << 17  # dense, it would have 64 GB
    x, y = k.numbers(n), k.nothing(n)
    found = jacobian(k.tridiagonal, n, [x], [y], sparse=True)
    assert (found[0, 0].shape, found[0, 0].nnz, found.runs) == ((n, n), 3 * n - 2, 4)
    np.testing.assert_allclose(found[0, 0].diagonal(), 4 * x.numpy(), rtol=1e-6)


def test_plots_of_sparse_jacobians() -> None:
    pytest.importorskip("scipy")
    plt = pytest.importorskip("matplotlib.pyplot")
    x, y = k.numbers(12), k.nothing(12)
    found = jacobian(k.tridiagonal, 12, [x], [y], sparse=True)
    figure = wp.autograd.jacobian_plot(found, k.tridiagonal, [x], show_plot=False)
    assert figure.axes[0].images[0].get_array().shape == (12, 12)
    plt.close(figure)


def test_nothing_warns_where_all_is_well() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jacobian(k.tridiagonal, 12, [k.numbers(12)], [k.nothing(12)], max_seconds=60.0)


def test_an_active_tape_records_nothing_of_it() -> None:
    x, y = k.numbers(30), k.nothing(30)
    before = x.numpy().copy(), y.numpy().copy()
    tape = wp.Tape()
    with tape:
        jacobian(k.tridiagonal, 30, [x], [y])
        jacobian_fd(k.tridiagonal, 30, [x], [y], reference="float32")
    assert len(tape.records) == 0
    assert np.array_equal(x.numpy(), before[0]) and np.array_equal(y.numpy(), before[1])


def test_plain_python_traces_and_colours_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    case = k.CASES["while loop"]()
    args: Any = (case.kernel, case.dim, case.inputs, case.outputs)
    found = jacobian(*args)
    forget(case.kernel)
    monkeypatch.setattr(wp.config, "interpreted", True)
    again = jacobian(*args)
    same(again, found, 1e-12)
    assert again.runs == found.runs < 6
