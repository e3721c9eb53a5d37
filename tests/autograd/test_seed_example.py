"""The Jacobian example of the documents (`seeds/001`, "Example usage"), with only its import changed."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp
import tapedebug.autograd


@wp.kernel
def my_kernel(
    a: wp.array(dtype=float),
    b: wp.array(dtype=wp.vec3),
    out1: wp.array(dtype=wp.vec2),
    out2: wp.array(dtype=wp.quat),
):
    tid = wp.tid()
    ai, bi = a[tid], b[tid]
    out1[tid] = wp.vec2(ai * wp.length(bi), -ai * wp.dot(bi, wp.vec3(0.1, 1.0, -0.1)))
    out2[tid] = wp.normalize(wp.quat(ai, bi[0], bi[1], bi[2]))


@pytest.fixture
def arrays():
    a = wp.array([2.0, -1.0], dtype=wp.float32, requires_grad=True)
    b = wp.array([wp.vec3(3.0, 1.0, 2.0), wp.vec3(-4.0, -1.0, 0.0)], dtype=wp.vec3, requires_grad=True)
    out1 = wp.zeros(2, dtype=wp.vec2, requires_grad=True)
    out2 = wp.zeros(2, dtype=wp.quat, requires_grad=True)
    return a, b, out1, out2


def reference(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The outputs in NumPy, float64."""
    length = np.sqrt((b * b).sum(-1))
    out1 = np.stack([a * length, -a * (b @ np.array([0.1, 1.0, -0.1]))], -1)
    whole = np.concatenate([a[:, None], b], -1)
    return out1, whole / np.sqrt((whole * whole).sum(-1, keepdims=True))


def differences() -> dict[tuple[int, int], np.ndarray]:
    """The four Jacobians by central differences of the reference."""
    a, b = np.array([2.0, -1.0]), np.array([[3.0, 1.0, 2.0], [-4.0, -1.0, 0.0]])
    found = {}
    for source, given in enumerate((a, b)):
        columns: list[list[np.ndarray]] = [[], []]
        for place in range(given.size):
            sides = []
            for h in (1e-6, -1e-6):
                moved = given.copy()
                moved.reshape(-1)[place] += h
                sides.append(reference(*((moved, b) if source == 0 else (a, moved))))
            for output in (0, 1):
                columns[output].append((sides[0][output] - sides[1][output]).reshape(-1) / 2e-6)
        for output in (0, 1):
            found[source, output] = np.stack(columns[output], -1)
    return found


def test_jacobians_are_the_differences(arrays):
    a, b, out1, out2 = arrays
    jacs = wp.autograd.jacobian(
        my_kernel, dim=len(a), inputs=[a, b], outputs=[out1, out2], plot_jacobians=False
    )
    quotients = wp.autograd.jacobian_fd(
        my_kernel, dim=len(a), inputs=[a, b], outputs=[out1, out2], plot_jacobians=False
    )
    assert set(jacs) == {(0, 0), (0, 1), (1, 0), (1, 1)}  # (input, output), as the documents have it
    for (source, output), expected in differences().items():
        key = source, output
        rows = 2 * (2, 4)[output]
        assert jacs[key].shape == (rows, 2)
        assert jacs[key].dtype is (wp.float32, wp.vec3)[source]
        np.testing.assert_allclose(jacs[key].numpy().reshape(expected.shape), expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(
            quotients[key].numpy().reshape(expected.shape), expected, rtol=1e-2, atol=1e-2
        )


def test_jacobians_are_plotted(arrays, monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    shown = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(len(plt.gcf().axes)))
    a, b, out1, out2 = arrays
    wp.autograd.jacobian(my_kernel, dim=len(a), inputs=[a, b], outputs=[out1, out2], plot_jacobians=True)
    assert len(shown) == 1 and shown[0] >= 4
    plt.close("all")


def test_gradcheck_passes(arrays, capsys):
    a, b, out1, out2 = arrays
    passed = wp.autograd.gradcheck(
        my_kernel,
        dim=len(a),
        inputs=[a, b],
        outputs=[out1, out2],
        plot_relative_error=False,
        plot_absolute_error=False,
        raise_exception=False,
        show_summary=True,
    )
    assert passed
    assert passed.verdict == "AGREE"
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("out1", "out2"))


def test_subset_of_pairs(arrays):
    a, b, out1, out2 = arrays
    jacs = wp.autograd.jacobian(
        my_kernel,
        dim=len(a),
        inputs=[a, b],
        outputs=[out1, out2],
        input_output_mask=[("a", "out1"), ("b", "out2")],
        max_outputs_per_var=5,
    )
    assert set(jacs) == {(0, 0), (1, 1)}
    rows = jacs[1, 1].numpy().reshape(8, 6)
    known = ~np.isnan(rows).any(1)
    assert known.sum() == 5
    np.testing.assert_allclose(rows[known], differences()[1, 1][known], rtol=1e-5, atol=1e-6)
