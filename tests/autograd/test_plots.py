"""Plots of Jacobians: what is in the pictures, large and sparse ones, and no figure left behind."""

import sys
import warnings
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import FunctionMetadata, gradcheck, gradcheck_tape, jacobian, jacobian_plot
from tapedebug.autograd.plots import FLOOR, MOST_PIXELS
from tests.autograd import kernels as k

QUIET: dict[str, Any] = {"raise_exception": False, "show_summary": False}


@pytest.fixture
def plt() -> Any:
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt

    plt.close("all")
    yield plt
    assert plt.get_fignums() == []


def metadata(rows: Any = wp.float32, columns: Any = wp.float32) -> FunctionMetadata:
    return FunctionMetadata("made", ["x"], ["y"], [None], [None], [columns], [rows])


def picture(figure: Any) -> Any:
    return next(axis for axis in figure.axes if axis.images)


def drawn(values: Any, plt: Any, labels: FunctionMetadata | None = None, **options: Any) -> Any:
    figure = jacobian_plot({(0, 0): values}, labels or metadata(), show_plot=False, **options)
    figure.canvas.draw()  # it can be drawn without a display
    axis = picture(figure)
    plt.close(figure)
    return axis


def test_entries_that_were_not_evaluated_are_hatched(plt: Any) -> None:
    axis = drawn(np.array([[1.0, np.nan], [0.0, 2.0]]), plt)
    shown = axis.images[0].get_array()
    assert shown.mask.tolist() == [[False, True], [False, False]]
    assert axis.patch.get_hatch() == "////"
    assert axis.images[0].get_clim() == (0.0, 2.0)


def test_the_first_row_is_above_and_ticks_count_elements(plt: Any) -> None:
    axis = drawn(np.arange(36.0).reshape(6, 6), plt, metadata(wp.vec3, wp.vec2))
    assert axis.get_ylim() == (5.5, -0.5)
    assert (axis.get_yticks().tolist(), axis.get_xticks().tolist()) == ([1.0, 4.0], [0.5, 2.5, 4.5])
    assert [label.get_text() for label in axis.get_xticklabels()] == ["0", "1", "2"]
    thick = [line for line in axis.lines if line.get_linestyle() == "-"]
    thin = [line for line in axis.lines if line.get_linestyle() == "--"]
    assert [set(line.get_ydata()) for line in thick[:1]] == [{2.5}]
    assert (len(thick), len(thin)) == (1 + 2, 4 + 3)


def test_logarithms_of_zero_do_not_hide_the_others(plt: Any) -> None:
    axis = drawn(np.array([[0.0, 1.0], [-100.0, 1e-3]]), plt, log_scale=True)
    assert axis.images[0].get_clim() == pytest.approx((np.log10(FLOOR), 2.0))


def test_large_jacobians_are_reduced_to_what_is_largest(plt: Any) -> None:
    n = 2500
    values = np.zeros((n, n))
    values[1234, 77], values[0, n - 1] = -5.0, 3.0
    axis = drawn(values, plt)
    shown = axis.images[0].get_array()
    assert shown.shape == (MOST_PIXELS, MOST_PIXELS)
    assert shown[1234 * MOST_PIXELS // n, 77 * MOST_PIXELS // n] == -5.0
    assert shown[0, -1] == 3.0
    assert np.count_nonzero(shown) == 2
    assert axis.get_xlim() == (-0.5, n - 0.5)  # ticks still count the elements


def test_sparse_jacobians_are_never_made_dense(plt: Any) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    n = 200_000  # 320 GB as a dense matrix
    axis = drawn(sparse.diags([np.ones(n), -np.ones(n - 1)], [0, 1], format="csr"), plt)
    shown = axis.images[0].get_array()
    assert shown.shape == (MOST_PIXELS, MOST_PIXELS)
    assert set(np.unique(shown)) == {-1.0, 0.0, 1.0}
    small = drawn(sparse.eye(3, format="coo"), plt)
    assert small.images[0].get_array().tolist() == np.eye(3).tolist()


def test_figures_that_nobody_gets_are_closed(plt: Any) -> None:
    x, y, z = k.vector([1.0, 2.0]), k.vector([0.0, 0.0]), k.vector([0.0, 0.0])
    with wp.Tape() as tape:
        wp.launch(k.square, dim=2, inputs=[x], outputs=[y])
        wp.launch(k.cube, dim=2, inputs=[y], outputs=[z])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jacobian(k.square, 2, [x], [y], plot_jacobians=True)
        gradcheck(k.square, 2, [x], [y], plot_relative_error=True, plot_absolute_error=True, **QUIET)
        gradcheck_tape(tape, plot_relative_error=True, plot_absolute_error=True, **QUIET)


def test_figures_that_are_not_shown_stay_open(plt: Any) -> None:
    x, y = k.vector([1.0, 2.0]), k.vector([0.0, 0.0])
    figure = jacobian_plot(jacobian(k.square, 2, [x], [y]), k.square, [x], show_plot=False)
    assert plt.gcf() is figure
    plt.close(figure)


def test_errors_are_plotted(plt: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[str, list]] = []

    def show() -> None:
        figure = plt.gcf()
        shown.append((figure._suptitle.get_text(), picture(figure).images[0].get_array().tolist()))

    monkeypatch.setattr(plt, "show", show)
    x = k.vector([1.0, 2.0])
    broken = k.with_adjoint_of(k.square, k.doubled)
    gradcheck(broken, 2, [x], [wp.zeros_like(x)], plot_relative_error=True, plot_absolute_error=True, **QUIET)
    (first, relative), (second, absolute) = shown
    assert (first, second) == ("Relative error of square", "Absolute error of square")
    assert np.array(relative, dtype=float) == pytest.approx(np.eye(2), abs=1e-6)
    assert np.array(absolute, dtype=float) == pytest.approx(np.diag([2.0, 4.0]), abs=1e-6)


@pytest.mark.parametrize("check", ["gradcheck", "gradcheck_tape"])
def test_missing_matplotlib_is_told_before_anything_runs(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = k.vector([1.0]), k.vector([0.0])
    with wp.Tape() as tape:
        wp.launch(k.square, dim=1, inputs=[x], outputs=[y])
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    ran = "tapedebug.autograd.checks.adjoint_check.check_pairs_of"
    monkeypatch.setattr(ran, lambda *_: pytest.fail("it ran"))
    with pytest.raises(wp.TapedebugError) as caught:
        if check == "gradcheck":
            gradcheck(k.square, 1, [x], [y], plot_absolute_error=True)
        else:
            gradcheck_tape(tape, plot_relative_error=True)
    assert str(caught.value) == (
        "plots need matplotlib, which is not installed\n  = hint: pip install matplotlib"
    )


@pytest.mark.parametrize(
    "jacobians, kernel, message",
    [
        (
            {(0, 0): np.eye(2)},
            "square",
            "jacobian_plot: kernel is a kernel or a FunctionMetadata, not 'square'",
        ),
        ({(0, 0): np.eye(2)}, k.square, "jacobian_plot: a kernel needs its inputs too"),
        ({}, metadata(), "jacobian_plot: there are no Jacobians to plot"),
        (
            {(3, 0): np.eye(2)},
            metadata(),
            "jacobian_plot: the metadata knows the inputs x and the outputs y; there is a Jacobian of (3, 0)",
        ),
        ({(0, 0): np.eye(2)}, metadata(None), "jacobian_plot: y of the metadata is no array"),
    ],
)
def test_what_can_not_be_plotted(jacobians: Any, kernel: Any, message: str, plt: Any) -> None:
    with pytest.raises(ValueError) as caught:
        jacobian_plot(jacobians, kernel)
    assert caught.value.message == message
