"""Patterns of wrong entries: each cause on made-up entries, and on a kernel with that error."""

from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import GradcheckResult, gradcheck
from tapedebug.autograd.finite_diff.compared_entries import ComparedEntries
from tapedebug.autograd.results.error_patterns import ErrorPattern, error_patterns, swapped, where
from tapedebug.autograd.results.wrong_entries import WrongEntries
from tapedebug.autograd.subjects.entry_names import entry_name
from tests.autograd import kernels as k

RNG = np.random.default_rng(3)
FULL = RNG.uniform(0.5, 2.0, size=(6, 6)) * RNG.choice([-1.0, 1.0], size=(6, 6))


def evidence(
    ad: np.ndarray,
    fd: np.ndarray,
    rows: tuple[int, ...] = (),
    columns: tuple[int, ...] = (),
    types: tuple[Any, Any] = (wp.float32, wp.float32),
    **more: Any,
) -> WrongEntries:
    m, n = fd.shape
    grid = np.indices(fd.shape)
    beyond = more.pop("beyond", None)
    entries = ComparedEntries(
        (m, n), grid[0].ravel(), grid[1].ravel(), ad.ravel(), fd.ravel(), np.full(fd.size, 1e-9)
    )
    wrong = ~(np.abs(entries.ad - entries.fd) <= 1e-6 + 1e-6 * np.abs(entries.fd))
    return WrongEntries(
        entries, wrong, rows or (m,), columns or (n,), "y", "x", *types,
        beyond=None if beyond is None else beyond.ravel(),
    )  # fmt: skip


def first(ad: np.ndarray, fd: np.ndarray, *shapes: Any, **more: Any) -> ErrorPattern | None:
    return next(error_patterns(evidence(ad, fd, *shapes, **more)), None)


@pytest.mark.parametrize(
    "ratio, name, text",
    [
        (0.0, "severed", "AD is 0 × FD in each: the chain is severed, or the term is missing"),
        (-1.0, "sign", "AD is -1 × FD in each: a wrong sign"),
        (2.0, "doubled", "AD is 2 × FD in each: counted twice"),
        (3.0, "repeated", "AD is 3 × FD in each: accumulated 3 times, or a factor of 3 too much"),
        (6.0, "repeated", "AD is 6 × FD in each: accumulated 6 times (y has 6 elements)"),
        (
            -4.0,
            "repeated",
            "AD is -4 × FD in each: accumulated 4 times, or a factor of 4 too much, with a wrong sign",
        ),
        (1 / 6, "mean", "AD is 1/6 × FD in each: a mean for a sum (y has 6 elements)"),
        (0.5, "factor", "AD is 1/2 × FD in each: a factor of 2 is missing"),
        (-0.5, "factor", "AD is −1/2 × FD in each: a factor of 2 is missing, with a wrong sign"),
        (np.pi, "factor", "AD is 3.142 × FD in each: a factor of π too much"),
        (1 / np.pi, "factor", "AD is 0.3183 × FD in each: a factor of π is missing"),
        (
            180 / np.pi,
            "factor",
            "AD is 57.3 × FD in each: a factor of π/180 (degrees and radians) is missing",
        ),
        (0.37, "factor", "AD is 0.37 × FD in each: a constant factor of 2.703 is missing"),
        (1.01, "factor", "AD is 1.01 × FD in each: a constant factor of 1.01 too much"),
        (1.0001, "factor", "AD is (1 + 0.0001) × FD in each"),
    ],
)
def test_constant_ratios(ratio: float, name: str, text: str) -> None:
    noise = 1 + 1e-7 * RNG.normal(size=FULL.shape)
    found = first(ratio * FULL * noise, FULL)
    assert found is not None
    assert (found.name, found.text) == (name, text)
    assert found.ratio == pytest.approx(ratio, rel=1e-5)


def test_a_ratio_of_one_entry_among_others_is_none() -> None:
    ad = 2.0 * FULL
    ad[3, 3] = 2.5 * FULL[3, 3]
    assert first(ad, FULL) is None


def test_an_odd_ratio_of_a_single_entry_or_of_equal_entries_is_a_coincidence() -> None:
    assert first(np.array([[0.37]]), np.array([[1.0]])) is None
    assert first(np.full((3, 3), 0.37), np.full((3, 3), 1.0)) is None
    assert first(np.array([[7.0]]), np.array([[1.0]])) is None
    found = first(np.array([[-1.0]]), np.array([[1.0]]))
    assert found is not None and found.name == "sign"


def test_large_integers_need_something_that_counts_them() -> None:
    found = first(137.0 * FULL, FULL)
    assert found is not None and found.name == "factor"
    wide = RNG.normal(size=(2, 137))
    found = first(137.0 * wide, wide)
    assert found is not None
    assert found.text == "AD is 137 × FD in each: accumulated 137 times (x has 137 elements)"


def test_transposed_as_a_whole() -> None:
    found = first(FULL.T, FULL)
    assert found is not None
    assert (found.name, found.text) == ("transposed", "AD equals FDᵀ: a transposed matrix product")
    ad = FULL.T.copy()
    ad[0, 1] += 0.1
    assert first(ad, FULL) is None


def test_transposed_within_blocks() -> None:
    blocks = RNG.normal(size=(2, 3, 3))
    fd = np.zeros((6, 9))
    ad = np.zeros((6, 9))
    for i in range(2):
        fd[3 * i : 3 * i + 3, 3 * i : 3 * i + 3] = blocks[i]
        ad[3 * i : 3 * i + 3, 3 * i : 3 * i + 3] = blocks[i].T
    found = first(ad, fd, (2, 3), (3, 3), (wp.vec3, wp.vec3))
    assert found is not None
    assert found.text == "AD equals FDᵀ within each block of 3 × 3 components: a transposed matrix product"


def test_transposed_matrices_of_an_input() -> None:
    fd = RNG.normal(size=(2, 3, 2, 2))
    found = first(
        fd.swapaxes(2, 3).reshape(2, 12), fd.reshape(2, 12), (2,), (3, 2, 2), (wp.float32, wp.mat22)
    )
    assert found is not None
    assert found.text == "AD equals FD with the matrices of x transposed: a transposed matrix product"


def test_two_outputs_or_inputs_that_are_exchanged() -> None:
    rows = FULL.copy()
    rows[[1, 2]] = rows[[2, 1]]
    found = first(rows, FULL)
    assert found is not None
    assert (found.name, found.text) == (
        "exchanged",
        "AD at y[1] equals FD at y[2], and the other way round: two outputs are exchanged",
    )
    columns = FULL.copy()
    columns[:, [0, 5, 2, 3]] = columns[:, [5, 0, 3, 2]]
    found = first(columns, FULL)
    assert found is not None
    assert found.text == (
        "AD by x[0] equals FD by x[5], and the other way round, and 1 more pair of inputs likewise: "
        "two inputs are exchanged"
    )
    turned = FULL.copy()
    turned[[0, 1, 2]] = turned[[1, 2, 0]]  # three in a ring are no pairs
    found = first(turned, FULL)
    assert found is None or found.name != "exchanged"
    same = np.ones((4, 4)) + np.eye(4)  # a pair that nothing tells from another
    same[[0, 1]] = 1.0
    assert "exchanged" not in {each.name for each in error_patterns(evidence(same + np.eye(4), same))}


def test_shifted_rows_columns_and_both() -> None:
    values = RNG.uniform(1.0, 2.0, size=8)
    fd = np.diag(values)
    found = first(np.roll(fd, 1, axis=0) * (np.arange(8) > 0)[:, None], fd)
    assert found is not None
    assert (found.name, found.text) == ("shifted", "AD at y[i] equals FD at y[i − 1]: off by one")
    found = first(np.diag(values[:-1], 1), fd)
    assert found is not None
    assert found.text in (
        "AD by x[i] equals FD by x[i − 1]: off by one",
        "AD at y[i] equals FD at y[i + 1]: off by one",
    )
    found = first(np.diag(np.append(values[1:], values[-1])), fd)
    assert found is not None
    assert found.text == "AD at y[i] by x[i] equals FD at y[i + 1] by x[i + 1]: off by one"


def test_shifted_by_two_along_an_axis() -> None:
    fd = RNG.normal(size=(3, 4, 7))
    ad = np.zeros_like(fd)
    ad[:, 2:] = fd[:, :2]
    found = first(ad.reshape(12, 7), fd.reshape(12, 7), (3, 4), (7,))
    assert found is not None
    assert found.text == "AD at y[:, i] equals FD at y[:, i − 2]: off by two"


def test_shifted_components() -> None:
    fd = RNG.normal(size=(5, 4, 3))
    ad = np.zeros_like(fd)
    ad[:, :, 1:] = fd[:, :, :2]
    found = first(ad.reshape(5, 12), fd.reshape(5, 12), (5,), (4, 3), (wp.float32, wp.vec3))
    assert found is not None
    assert found.text == "AD by component i of x equals FD by component i − 1 of x: off by one"


def test_not_finite() -> None:
    ad = FULL.copy()
    ad[2, 3], ad[4, 4] = np.nan, np.inf
    found = first(ad, FULL)
    assert found is not None and found.name == "not finite"
    fd = FULL.copy()
    fd[2, 3] = np.nan  # the values are no numbers to begin with
    assert first(ad, fd) is None
    ad[0, 0] += 1.0  # this one is something else
    assert first(ad, FULL) is None


def test_that_something_has_two_elements_explains_no_factor_of_2() -> None:
    found = first(0.5 * FULL, FULL, (3, 2), (6,))
    assert found is not None
    assert found.text == "AD is 1/2 × FD in each: a factor of 2 is missing"


def test_the_other_side_of_a_kink() -> None:
    fd, beyond = np.diag([0.0, 0.0, 0.0]), np.diag([1.0, 1.0, 1.0])
    found = first(beyond, fd, beyond=beyond)
    assert found is not None
    assert found.text == "AD is the slope on the other side of a kink: a wrong branch"
    assert first(2 * beyond, fd, beyond=beyond) is None
    assert first(beyond, fd) is None


def test_swapped_arguments() -> None:
    other = evidence(FULL, RNG.normal(size=FULL.shape)).compared
    found = swapped(evidence(other.fd.reshape(6, 6), FULL), "y by z", other)
    assert found == ErrorPattern("swapped", "AD equals FD of y by z: swapped arguments")
    assert swapped(evidence(1.5 * FULL, FULL), "y by z", other) is None


@pytest.mark.parametrize(
    "change, text",
    [
        (np.s_[3, :], "only y[3] is concerned: one thread, or one index"),
        (np.s_[:, 2], "only x[2] is concerned: one thread, or one index"),
        (np.s_[[0, 5], :], "only at both ends of y: the boundary"),
        (np.s_[:, [0, 5]], "only at both ends of x: the boundary"),
        (np.s_[[1, 4], [0, 5]], ""),
        (np.s_[[1, 4], :], ""),
        (np.s_[:, :], ""),
    ],
)
def test_where_the_wrong_entries_are(change: Any, text: str) -> None:
    ad = FULL.copy()
    ad[change] += 1.0
    assert where(evidence(ad, FULL)) == text


def test_only_one_component() -> None:
    ad = FULL.reshape(2, 3, 6).copy()
    ad[:, 1] *= 1.3
    found = evidence(ad.reshape(6, 6), FULL, (2, 3), (6,), (wp.vec3, wp.float32))
    assert where(found) == "only the component .y of y is concerned"


# ------------------------------------------------------------------ kernels with gradients of their own


@wp.func
def scaled(a: float):
    return wp.sin(3.14159265 * a)


@wp.func_grad(scaled)
def adj_scaled(a: float, adj_ret: float):
    wp.adjoint[a] += wp.cos(3.14159265 * a) * adj_ret  # π is missing


@wp.kernel
def waves(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = scaled(x[i])


@wp.func
def turned(m: wp.mat33, v: wp.vec3):
    return m @ v


@wp.func_grad(turned)
def adj_turned(m: wp.mat33, v: wp.vec3, adj_ret: wp.vec3):
    wp.adjoint[m] += wp.outer(adj_ret, v)
    wp.adjoint[v] += m @ adj_ret  # transpose(m) @ adj_ret


@wp.kernel
def rotations(m: wp.array(dtype=wp.mat33), v: wp.array(dtype=wp.vec3), y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    y[i] = turned(m[i], v[i])


@wp.func
def weighed(a: float, b: float):
    return a * a * b


@wp.func_grad(weighed)
def adj_weighed(a: float, b: float, adj_ret: float):
    wp.adjoint[b] += 2.0 * a * b * adj_ret
    wp.adjoint[a] += a * a * adj_ret


@wp.kernel
def products(a: wp.array(dtype=float), b: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = weighed(a[i], b[i])


@wp.kernel
def clamped(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.clamp(x[i], 0.0, 1.0)


@wp.func
def leaky(a: float):
    return wp.max(a, 0.125 * a)


@wp.func_grad(leaky)
def adj_leaky(a: float, adj_ret: float):
    wp.adjoint[a] += adj_ret  # also where a < 0


@wp.kernel
def leaks(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = leaky(x[i]) + 0.5 * leaky(x[0])


def check(kernel: Any, dim: int, *args: Any) -> GradcheckResult:
    return gradcheck(kernel, dim, list(args[:-1]), [args[-1]], raise_exception=False, show_summary=False)


def test_a_missing_factor_of_a_kernel() -> None:
    x = k.vector([0.1, 0.3, 0.7])
    pair = check(waves, 3, x, wp.zeros_like(x)).pairs[0]
    assert pair.signature is not None
    assert pair.message.endswith("; AD is 0.3183 × FD in each: a factor of π is missing")


def test_a_transposed_product_of_a_kernel() -> None:
    m = wp.array(RNG.normal(size=(2, 3, 3)), dtype=wp.mat33, requires_grad=True)
    v = wp.array(RNG.normal(size=(2, 3)), dtype=wp.vec3, requires_grad=True)
    result = check(rotations, 2, m, v, wp.zeros(2, dtype=wp.vec3, requires_grad=True))
    right, wrong = result.pairs
    assert (right.verdict, wrong.verdict) == ("AGREE", "WRONG")
    assert wrong.message.endswith("; AD equals FDᵀ: a transposed matrix product")
    assert wrong.worst is not None and wrong.worst.output.startswith("y[")
    assert wrong.worst.output[-2:] in (".x", ".y", ".z")


def test_swapped_arguments_of_a_kernel() -> None:
    a, b = k.vector([0.5, 1.5, 2.5]), k.vector([1.0, 3.0, -2.0])
    result = check(products, 3, a, b, wp.zeros_like(a))
    assert [pair.signature and pair.signature.text for pair in result.pairs] == [
        "AD equals FD of y by b: swapped arguments",
        "AD equals FD of y by a: swapped arguments",
    ]
    assert all(pair.message.endswith("swapped arguments") for pair in result.pairs)


def test_a_wrong_branch_of_a_kernel() -> None:
    x = k.vector([-0.5, 2.0, -3.0])
    pair = check(leaks, 3, x, wp.zeros_like(x)).pairs[0]
    assert pair.message.endswith(
        "; AD is 8 × FD in each: accumulated 8 times, or a factor of 8 too much; AD is the slope on the "
        "other side of a kink: a wrong branch"
    )
    smooth = check(waves, 3, x, wp.zeros_like(x)).pairs[0]
    assert "kink" not in smooth.message


def test_a_wrong_branch_beside_another_cause_has_no_ratio() -> None:
    x = k.vector([-0.5, 2.0, -3.0])
    broken = k.with_adjoint_of(k.relu, k.identity)
    pair = check(broken, 3, x, wp.zeros_like(x)).pairs[0]
    assert pair.signature is not None and pair.signature.name == "other side"
    assert pair.message.endswith("; AD is the slope on the other side of a kink: a wrong branch")


def test_the_line_that_writes_is_shown_with_a_caret() -> None:
    x = k.vector([0.1, 0.3])
    result = check(waves, 2, x, wp.zeros_like(x))
    line = next(n for n, text in enumerate(_own_lines(), 1) if text == "    y[i] = scaled(x[i])")
    assert result.pairs[0].display_text().splitlines()[1:] == [
        f"  --> {__file__}:{line}, in waves",
        "   |     y[i] = scaled(x[i])",
        "   |     ^^^^",
    ]
    with pytest.raises(ValueError) as caught:
        gradcheck(waves, 2, [x], [wp.zeros_like(x)], show_summary=False)
    assert f"  --> {__file__}:{line}, in waves\n   |     y[i] = scaled(x[i])" in str(caught.value)


def test_the_call_of_a_launch_is_named() -> None:
    x, y = k.vector([0.1, 0.3]), k.vector([0.0, 0.0])
    with wp.Tape() as tape:
        wp.launch(waves, dim=2, inputs=[x], outputs=[y])
    result = wp.autograd.gradcheck_tape(tape, raise_exception=False, show_summary=False)
    line = next(n for n, text in enumerate(_own_lines(), 1) if "launch(waves" in text)
    messages = result.pairs[0].display_text().splitlines()
    assert messages[0].startswith("WRONG: launch 0 (waves): d y[")
    assert messages[-1] == (
        f"  = note: the launch was called at {__file__}:{line}, in test_the_call_of_a_launch_is_named"
    )


def test_a_function_names_the_launch_that_writes_its_output() -> None:
    def model(x: Any) -> Any:
        y, z = wp.zeros_like(x), wp.zeros_like(x)
        wp.launch(k.square, dim=2, inputs=[x], outputs=[y])
        wp.launch(waves, dim=2, inputs=[y], outputs=[z])
        return z

    result = gradcheck(model, inputs=[k.vector([0.1, 0.3])], raise_exception=False, show_summary=False)
    messages = result.pairs[0].display_text()
    assert "  --> " in messages and "y[i] = scaled(x[i])" in messages
    assert "  = note: launch 1 (waves) was called at " in messages


def test_an_intermediate_without_gradient_is_named() -> None:
    def model(x: Any) -> Any:
        y = wp.zeros(2, dtype=float)  # requires_grad=True is missing
        z = wp.zeros_like(x)
        wp.launch(k.square, dim=2, inputs=[x], outputs=[y])
        wp.launch(k.cube, dim=2, inputs=[y], outputs=[z])
        return z

    result = gradcheck(model, inputs=[k.vector([0.5, 1.5])], raise_exception=False, show_summary=False)
    assert result.pairs[0].message.endswith(
        "; AD is 0 × FD in each: the chain is severed, or the term is missing; no gradient passes y of "
        "launch 0 (square): requires_grad=False"
    )


def test_a_clamp_that_lets_gradients_through() -> None:
    x = k.vector([1.75, 0.5, -0.25, 5.0])
    pair = check(k.with_adjoint_of(clamped, k.identity), 4, x, wp.zeros_like(x)).pairs[0]
    assert pair.message.endswith("; AD is the slope on the other side of a kink: a wrong branch")


def _own_lines() -> list[str]:
    with open(__file__, encoding="utf-8") as stream:
        return stream.read().splitlines()


@pytest.mark.parametrize(
    "name, index, dtype, text",
    [
        ("x", (3,), wp.float32, "x[3]"),
        ("x", (3, 1), wp.float64, "x[3, 1]"),
        ("state.q", (3, 1), wp.vec3, "state.q[3].y"),
        ("m", (0, 1, 2), wp.mat33, "m[0][1, 2]"),
        ("q", (0, 3), wp.quat, "q[0].w"),
        ("t", (5, 2), wp.transform, "t[5].p.z"),
        ("t", (5, 6), wp.transform, "t[5].q.w"),
        ("s", (1, 4), wp.spatial_vector, "s[1][4]"),
        ("y (in place)", (2, 0), wp.vec2, "y[2].x (in place)"),
    ],
)
def test_names_of_entries(name: str, index: tuple, dtype: Any, text: str) -> None:
    assert entry_name(name, index, dtype) == text


def test_few_entries_of_small_arrays_are_no_evidence() -> None:
    few = FULL[:1, :3]
    assert first(few / 3, few) == ErrorPattern(
        "factor", "AD is 1/3 × FD in each: a factor of 3 is missing", pytest.approx(1 / 3)
    )
    assert first(few * 5, few) == ErrorPattern(
        "repeated", "AD is 5 × FD in each: accumulated 5 times, or a factor of 5 too much", 5.0
    )


def test_components_that_are_exchanged() -> None:
    fd = FULL.reshape(2, 3, 6)
    ad = fd[:, [1, 0, 2]].reshape(6, 6)
    found = first(ad, FULL, (2, 3), (6,), (wp.vec3, wp.float32))
    assert found == ErrorPattern("exchanged", "AD equals FD with the components .x and .y of y exchanged")
    ad = fd[:, [1, 2, 0]].reshape(6, 6)
    found = first(ad, FULL, (2, 3), (6,), (wp.vec3, wp.float32))
    assert found is None or found.name != "exchanged"


def test_a_gradient_too_large_for_its_type() -> None:
    fd = np.full((2, 2), 1e39)
    found = first(np.full((2, 2), np.inf), fd)
    assert found == ErrorPattern("not finite", "it is too large for float32")


@wp.func
def corner(x: float):
    return wp.abs(x)


@wp.func_grad(corner)
def adj_corner(x: float, adj_ret: float):
    wp.adjoint[x] += 5.0 * adj_ret


@wp.kernel
def corners(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = corner(x[i] - 1.0) + 2.0 * x[i]


def test_at_a_kink_the_slopes_are_named_and_no_ratio() -> None:
    x = wp.array([1.0], dtype=float, requires_grad=True)
    result = gradcheck(corners, 1, [x], [wp.zeros_like(x)], raise_exception=False, show_summary=False)
    assert result.verdict == "WRONG"
    assert "it is not between the slopes, 1 on the left and 3 on the right" in result.pairs[0].message
    assert result.pairs[0].signature is None


def test_an_input_that_is_not_finite_is_named() -> None:
    x = wp.array([1.0, np.nan, 3.0], dtype=float, requires_grad=True)
    result = gradcheck(k.square, 3, [x], [wp.zeros_like(x)], raise_exception=False, show_summary=False)
    assert "; x[1] is nan to begin with" in result.pairs[0].message
