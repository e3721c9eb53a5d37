"""`jacobian`, `jacobian_fd` and their plot, on kernels and on functions."""

import sys
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import FunctionMetadata, gradcheck, jacobian, jacobian_fd, jacobian_plot
from tests.autograd import kernels as k
from tests.autograd.test_gradcheck import document_arrays


def numpy_of(jacobians: dict) -> dict:
    return {key: value.numpy() for key, value in jacobians.items()}


def exact_documented() -> dict[tuple[int, int], np.ndarray]:
    """The Jacobians of `documented` at the documents' values, by hand."""
    a = np.array([2.0, -1.0])
    b = np.array([[3.0, 1.0, 2.0], [-4.0, -1.0, 0.0]])
    c = np.array([0.1, 1.0, -0.1])
    found = {
        (0, 0): np.zeros((4, 2)),
        (0, 1): np.zeros((6, 2)),
        (1, 0): np.zeros((4, 2, 3)),
        (1, 1): np.zeros((6, 2, 3)),
    }
    for i in range(2):
        n = np.linalg.norm(b[i])
        found[0, 0][2 * i : 2 * i + 2, i] = [n, -b[i] @ c]
        found[0, 1][3 * i : 3 * i + 3, i] = b[i] / n
        found[1, 0][2 * i : 2 * i + 2, i] = [a[i] * b[i] / n, -a[i] * c]
        found[1, 1][3 * i : 3 * i + 3, i] = a[i] * (np.eye(3) / n - np.outer(b[i], b[i]) / n**3)
    return found


@pytest.mark.parametrize("method", [jacobian, jacobian_fd])
def test_the_documents_example(method: Any) -> None:
    a, b, out1, out2 = document_arrays()
    found = method(k.documented, dim=len(a), inputs=[a, b], outputs=[out1, out2])
    assert list(found) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [(j.shape, j.dtype) for j in found.values()] == [
        ((4, 2), wp.float32),
        ((6, 2), wp.float32),
        ((4, 2), wp.vec3),
        ((6, 2), wp.vec3),
    ]
    for key, exact in exact_documented().items():
        np.testing.assert_allclose(found[key].numpy(), exact, rtol=1e-6, atol=1e-6)


def test_masks_choose_pairs() -> None:
    a, b, out1, out2 = document_arrays()
    found = jacobian(k.documented, 2, [a, b], [out1, out2], input_output_mask=[("a", "out1"), ("b", "out2")])
    assert list(found) == [(0, 0), (1, 1)]
    assert list(jacobian_fd(k.documented, 2, [a, b], [out1, out2], [(1, "out1")])) == [(1, 0)]


def test_rows_that_are_not_evaluated_are_nan() -> None:
    x, y = k.vector(np.arange(1.0, 101.0)), k.vector(np.zeros(100))
    values = jacobian(k.square, 100, [x], [y], max_outputs_per_var=5)[0, 0].numpy()
    rows = np.flatnonzero(~np.isnan(values).any(axis=1))
    assert (len(rows), rows[0], rows[-1]) == (5, 0, 99)
    assert np.isnan(np.delete(values, rows, axis=0)).all()
    np.testing.assert_allclose(values[rows, rows], 2 * (rows + 1.0), rtol=1e-6)


def test_columns_that_are_not_evaluated_are_nan() -> None:
    b = wp.array(np.ones((20, 3)), dtype=wp.vec3, requires_grad=True)
    a, out1, out2 = (
        wp.ones(20, dtype=float, requires_grad=True),
        wp.zeros(20, dtype=wp.vec2, requires_grad=True),
        wp.zeros(20, dtype=wp.vec3, requires_grad=True),
    )
    found = jacobian_fd(k.documented, 20, [a, b], [out1, out2], [("b", "out1")], max_inputs_per_var=7)
    values = found[1, 0].numpy().reshape(40, 60)
    columns = np.flatnonzero(~np.isnan(values).all(axis=0))
    assert (len(columns), columns[0], columns[-1]) == (7, 0, 59)
    assert len({int(c) % 3 for c in columns}) > 1, "a sample must not meet one component only"
    assert not np.isnan(values[:, columns]).any()


def test_differences_are_exact_where_float32_differences_are_not() -> None:
    x, y = k.vector([1000.0]), k.vector([0.0])
    assert jacobian_fd(k.cube, 1, [x], [y])[0, 0].numpy()[0, 0] == np.float32(3e6)


def test_nothing_differentiable_is_an_error() -> None:
    x, y = k.vector([1.0], grad=False), k.vector([0.0])
    with pytest.raises(wp.GradcheckError) as caught:
        jacobian(k.square, 1, [x], [y])
    assert str(caught.value) == (
        "kernel square has no Jacobian to compute: no pair of a differentiable input and output\n"
        "  = note: not checked: x has requires_grad=False\n"
        "  = hint: set requires_grad=True on the arrays whose gradients are wanted, and name them"
    )
    with pytest.raises(ValueError, match="eps, the largest step, must be positive"):
        jacobian_fd(k.square, 1, [x], [y], eps=-1)


# ------------------------------------------------------------------ functions


def two_launches(x: Any, scale: float, w: Any) -> Any:
    y = wp.zeros_like(x)
    z = wp.zeros_like(x)
    wp.launch(k.square, dim=len(x), inputs=[x], outputs=[y])
    wp.launch(k.times, dim=len(x), inputs=[y], outputs=[w])
    wp.launch(k.cube, dim=len(x), inputs=[y], outputs=[z])
    return [z, w]


def test_functions_are_differentiated_through_all_their_launches() -> None:
    x, w = k.vector([0.5, -2.0]), k.vector([3.0, 4.0])
    found = numpy_of(jacobian(two_launches, inputs=[x, 2.0, w]))
    assert list(found) == [(0, 0), (0, 1), (2, 0), (2, 1)]
    values = np.array([0.5, -2.0])
    np.testing.assert_allclose(found[0, 0], np.diag(6 * values**5), rtol=1e-6)
    np.testing.assert_allclose(found[0, 1], np.diag(2 * values * [3, 4]), rtol=1e-6)
    np.testing.assert_allclose(found[2, 1], np.diag(values**2), rtol=1e-6)
    assert not found[2, 0].any()
    differences = numpy_of(
        jacobian_fd(two_launches, inputs=[x, 2.0, w], input_output_mask=[("x", "output_0")])
    )
    np.testing.assert_allclose(differences[0, 0], found[0, 0], rtol=1e-6)
    assert x.numpy().tolist() == [0.5, -2.0]
    assert w.numpy().tolist() == [3.0, 4.0], "what the function wrote in place is put back"


def test_gradcheck_of_a_function() -> None:
    x, w = k.vector([0.5, -2.0]), k.vector([3.0, 4.0])
    result = gradcheck(two_launches, inputs=[x, 2.0, w], show_summary=False)
    assert (result.verdict, result.subject) == ("AGREE", "function two_launches")
    assert [(p.input, p.output) for p in result.pairs] == [
        ("x", "output_0"),
        ("x", "output_1"),
        ("w", "output_0"),
        ("w", "output_1"),
    ]


def test_a_function_may_return_one_array() -> None:
    def squared(x: Any) -> Any:
        y = wp.zeros_like(x)
        wp.launch(k.square, len(x), [x], [y])
        return y

    assert list(jacobian(squared, inputs=[k.vector([1.0])])) == [(0, 0)]


def test_a_function_that_computes_outside_of_kernels_is_refused() -> None:
    def outside(x: Any) -> Any:
        y = wp.zeros_like(x)
        z = wp.array(x.numpy() ** 2, dtype=float, requires_grad=True)
        wp.launch(k.times, len(x), [z], [x])
        wp.launch(k.square, len(x), [x], [y])
        return y

    x = k.vector([0.5, 2.0])
    with pytest.raises(wp.GradcheckError) as caught:
        gradcheck(outside, inputs=[x], show_summary=False)
    assert caught.value.message == (
        "function outside computes something outside of kernels: at inputs that differ by 0.1 %, output_0 is "
        "not what its recorded launches give"
    )
    assert x.numpy().tolist() == [0.5, 2.0]


def test_functions_that_return_no_arrays() -> None:
    with pytest.raises(wp.GradcheckError) as caught:
        jacobian(lambda x: None, inputs=[k.vector([1.0])])
    assert (
        caught.value.message == "function <lambda> must return an array or a list of arrays; it returned None"
    )


# ------------------------------------------------------------------ plots


@pytest.fixture
def plt(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt

    monkeypatch.setattr(plt, "show", lambda: None)
    yield plt
    plt.close("all")


def test_jacobian_plot_has_a_column_an_input_and_a_row_an_output(plt: Any) -> None:
    a, b, out1, out2 = document_arrays()
    jacobians = jacobian(k.documented, 2, [a, b], [out1, out2])
    figure = jacobian_plot(jacobians, k.documented, [a, b], show_plot=False, title="Here")
    pictures = [axis for axis in figure.axes if axis.images]
    assert [axis.get_title() for axis in pictures] == [
        "d out1 / d a",
        "d out1 / d b",
        "d out2 / d a",
        "d out2 / d b",
    ]
    last = pictures[-1]
    assert last.images[0].get_array().shape == (6, 6)
    widths = sorted({(line.get_linewidth(), line.get_linestyle()) for line in last.lines})
    assert widths == [(0.4, "--"), (1.2, "-")], "thin dashed component grid, thick element grid"
    assert figure._suptitle.get_text() == "Here"
    assert sum(line.get_linewidth() == 1.2 for line in last.lines) == 2


def test_plots_of_jacobians_and_errors_are_shown_when_asked(
    plt: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, out1, out2 = document_arrays()
    titles: list[str] = []
    monkeypatch.setattr(plt, "show", lambda: titles.append(plt.gcf()._suptitle.get_text()))
    jacobian(k.documented, 2, [a, b], [out1, out2], plot_jacobians=True)
    jacobian_fd(two_launches, inputs=[k.vector([1.0]), 1.0, k.vector([2.0])], plot_jacobians=True)
    gradcheck(
        k.documented, 2, [a, b], [out1, out2],
        plot_relative_error=True, plot_absolute_error=True, show_summary=False,
    )  # fmt: skip
    assert titles == [
        "Jacobian of documented",
        "Jacobian by finite differences of two_launches",
        "Relative error of documented",
        "Absolute error of documented",
    ]


def test_plots_take_metadata_instead_of_a_kernel(plt: Any) -> None:
    a, b, out1, out2 = document_arrays()
    jacobians = jacobian(k.documented, 2, [a, b], [out1, out2], [("a", "out1")])
    labels = FunctionMetadata.of_kernel(k.documented, [a, b])
    labels.input_labels[0] = "mass"
    figure = jacobian_plot(
        jacobians, labels, show_plot=False, scale_colors_per_submatrix=True, log_scale=True
    )
    assert figure.axes[0].get_title() == "d out1 / d mass"


def test_plots_without_matplotlib_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    x, y = k.vector([1.0]), k.vector([0.0])
    with pytest.raises(wp.TapedebugError, match="plots need matplotlib, which is not installed"):
        jacobian(k.square, 1, [x], [y], plot_jacobians=True)
    with pytest.raises(wp.TapedebugError, match="there are no Jacobians to plot"):
        jacobian_plot({}, k.square, [x])
    with pytest.raises(wp.TapedebugError, match="a kernel needs its inputs too"):
        jacobian_plot({}, k.square)


def test_plots_of_fields_stand_where_their_structs_do(plt: Any) -> None:
    @wp.struct
    class Pair:
        a: wp.array(dtype=float)
        b: wp.array(dtype=float)

    @wp.kernel
    def product(x: wp.array(dtype=float), p: Pair, z: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = x[i] * p.a[i] * p.b[i] * z[i]

    x, z, y = k.vector([1.0, 2.0]), k.vector([3.0, 4.0]), k.vector([0.0, 0.0])
    inputs = [x, Pair(a=x, b=z), z]
    found = jacobian(product, 2, inputs, [y], [("z", "y"), ("p", "y"), ("x", "y")])
    assert list(found) == [(2, 0), ("p.a", 0), ("p.b", 0), (0, 0)]
    figure = jacobian_plot(found, product, inputs, show_plot=False)
    titles = [axis.get_title() for axis in figure.axes if axis.get_title()]
    assert titles == ["d y / d x", "d y / d p.a", "d y / d p.b", "d y / d z"]


@wp.kernel
def squared_of_any(a: wp.array(dtype=Any), b: wp.array(dtype=Any)):
    i = wp.tid()
    b[i] = a[i] * a[i]


def test_plots_of_generic_kernels_and_of_outputs_that_were_not_named(plt: Any) -> None:
    x, y = k.vector([1.0, 2.0]), k.vector([0.0, 0.0])
    figure = jacobian_plot(jacobian(squared_of_any, 2, [x], [y]), squared_of_any, [x], show_plot=False)
    assert figure.axes[0].get_title() == "d b / d a"
    figure = jacobian_plot(jacobian(k.square, 2, [x, y]), k.square, [x, y], show_plot=False)
    assert figure.axes[0].get_title() == "d y / d x"
