"""Masks that choose entries: by index, slice, component and field, as text and as Python objects."""

from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import gradcheck, gradcheck_tape, jacobian, jacobian_fd
from tapedebug.autograd.sparse import assembly
from tests.autograd import kernels as k

N = 6


@wp.struct
class Body:
    pos: wp.vec3
    mass: float
    tag: int


@wp.struct
class State:
    q: wp.array(dtype=wp.vec3)
    scale: float


@wp.kernel
def mix(state: State, bodies: wp.array(dtype=Body), x: wp.array(dtype=wp.vec3), y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    y[i] = wp.cw_mul(x[i], state.q[i]) * bodies[i].mass + bodies[i].pos * (state.scale * x[0][1])


@wp.kernel
def plane(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
    i, j = wp.tid()
    y[i, j] = x[i, j] * x[i, j]


@wp.func
def bent(x: float):
    return x * x


@wp.func_grad(bent)
def adj_bent(x: float, adj_ret: float):
    slope = 2.0 * x
    if x > 2.5:
        slope = -slope
    wp.adjoint[x] += slope * adj_ret


@wp.kernel
def bent_above(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = bent(x[i])


@pytest.fixture
def mixed() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    state, bodies = State(scale=0.5), wp.zeros(N, dtype=Body, requires_grad=True)
    state.q = wp.array(rng.normal(size=(N, 3)), dtype=wp.vec3, requires_grad=True)
    bodies["pos"].assign(rng.normal(size=(N, 3)))
    bodies["mass"].assign(rng.normal(size=N))
    x = wp.array(rng.normal(size=(N, 3)), dtype=wp.vec3, requires_grad=True)
    y = wp.zeros(N, dtype=wp.vec3, requires_grad=True)
    return {"dim": N, "inputs": [state, bodies, x], "outputs": [y]}


def matrix(found: dict[Any, Any]) -> np.ndarray[Any, Any]:
    """The one Jacobian, of scalars."""
    (value,) = found.values()
    values = value.numpy()
    return values.reshape(len(values), -1)


CELLS = np.arange(3 * N).reshape(N, 3)
CHOICES: list[tuple[Any, Any, str]] = [
    ("x", CELLS, "x"),
    (2, CELLS, "x"),
    ("x[3:5]", CELLS[3:5], "x[3:5]"),
    (" x[ 3 : 5 ] ", CELLS[3:5], "x[3:5]"),
    ("x[-1]", CELLS[-1], "x[-1]"),
    ("x[::2, 1]", CELLS[::2, 1], "x[::2, 1]"),
    ("x[..., 2]", CELLS[..., 2], "x[..., 2]"),
    ("x[2].y", CELLS[2, 1], "x[2].y"),
    ("x.z", CELLS[:, 2], "x.z"),
    ("x[3:5].y", CELLS[3:5, 1], "x[3:5].y"),
    ("x[3:5][1]", CELLS[4], "x[3:5][1]"),
    ("x[[0, 2, 5]]", CELLS[[0, 2, 5]], "x[[0, 2, 5]]"),
    (("x", slice(3, 5)), CELLS[3:5], "x[3:5]"),
    (("x", np.s_[::2, 1]), CELLS[::2, 1], "x[::2, 1]"),
    ((2, 4), CELLS[4], "x[4]"),
    (("x", [0, 2, 5]), CELLS[[0, 2, 5]], "x[[0, 2, 5]]"),
    (("x", np.arange(N) > 3), CELLS[4:], "x[[4, 5]]"),
    (("x", ...), CELLS, "x"),
    ("x[:]", CELLS, "x"),
    ("state.q[0]", CELLS[0], "state.q[0]"),
    ("state", CELLS, "state.q"),
    ("state.q[1:3].x", CELLS[1:3, 0], "state.q[1:3].x"),
    ("bodies[3].pos", CELLS[3], "bodies.pos[3]"),
    ("bodies[3].pos.y", CELLS[3, 1], "bodies.pos[3].y"),
    ("bodies[3:5].pos[1]", CELLS[3:5, 1], "bodies.pos[3:5][..., 1]"),
    ("bodies.pos[3:5, 1]", CELLS[3:5, 1], "bodies.pos[3:5, 1]"),
    ("bodies.mass[4]", np.array(4), "bodies.mass[4]"),
]


@pytest.mark.parametrize("key, cells, label", CHOICES, ids=lambda v: repr(v) if isinstance(v, str) else None)
def test_a_key_chooses_entries_and_its_label_chooses_the_same(
    mixed: dict[str, Any], key: Any, cells: Any, label: str
) -> None:
    cells = np.sort(np.ravel(cells))
    for spelled in (key, label):
        found = matrix(jacobian(mix, **mixed, input_output_mask=[(spelled, "y[1:4]")]))
        known = np.argwhere(~np.isnan(found))
        assert np.unique(known[:, 1]).tolist() == cells.tolist()
        assert np.unique(known[:, 0]).tolist() == list(range(3, 12))
        assert len(known) == 9 * len(cells)
    result = gradcheck(mix, **mixed, input_output_mask=[(key, "y")], show_summary=False)
    assert result.verdict == "AGREE"
    assert [(p.input, p.output) for p in result.pairs] == [(label, "y")]
    assert result.pairs[0].evaluated == 18 * len(cells)


def test_an_array_itself_is_a_key(mixed: dict[str, Any]) -> None:
    state, _, x = mixed["inputs"]
    mask = [(x, mixed["outputs"][0]), ((state.q, 0), 0)]
    result = gradcheck(mix, **mixed, input_output_mask=mask, show_summary=False)
    assert [(p.input, p.output) for p in result.pairs] == [("x", "y"), ("state.q[0]", "y")]


def test_an_element_of_an_array_of_structs_is_that_of_all_fields(mixed: dict[str, Any]) -> None:
    result = gradcheck(mix, **mixed, input_output_mask=[("bodies[2]", "y[2]")], show_summary=False)
    assert [p.input for p in result.pairs] == ["bodies.pos[2]", "bodies.mass[2]"]


@pytest.mark.parametrize("method", [jacobian, jacobian_fd])
def test_parts_of_one_jacobian_go_into_one_matrix(method: Any) -> None:
    x, y = k.vector(np.arange(1.0, 5.0)), k.vector(np.zeros(4))
    found = matrix(method(k.square, 4, [x], [y], [("x[0]", "y[0]"), ("x[1:3]", "y[1]"), ("x[1]", "y[1]")]))
    known = {(0, 0): 2.0, (1, 1): 4.0, (1, 2): 0.0}
    assert {tuple(at): found[tuple(at)] for at in np.argwhere(~np.isnan(found))} == known


def test_what_the_mask_leaves_out_is_not_checked() -> None:
    x, y = k.vector([1.0, 2.0, 3.0, 4.0]), k.vector(np.zeros(4))
    assert gradcheck(bent_above, 4, [x], [y], input_output_mask=[("x[:2]", "y")], show_summary=False)
    assert gradcheck(bent_above, 4, [x], [y], input_output_mask=[("x[2]", "y[:2]")], show_summary=False)
    for mask in ([("x[2:]", "y")], [("x", "y[3]")], [("x[0]", "y"), ("x[3]", "y[3]")]):
        result = gradcheck(
            bent_above, 4, [x], [y], input_output_mask=mask, show_summary=False, raise_exception=False
        )
        assert result.verdict == "WRONG"
    assert [p.verdict for p in result.pairs] == ["AGREE", "WRONG"]
    worst = result.pairs[1].worst
    assert worst is not None
    assert (worst.output_index, worst.input_index, worst.ad) == ((3,), (3,), -8.0)
    assert "input_output_mask=[('x[3]', 'y[3]')]" in result.reproduce()


def test_a_wrong_row_beyond_the_mask_does_not_show_in_random_combinations() -> None:
    """Outputs are also checked along random directions, which keep to the entries of the mask."""
    size = 5000  # too large to evaluate whole
    values = np.full(size, 2.0)
    values[4000:] = 3.0
    x, y = k.vector(values), k.vector(np.zeros(size))
    options: dict[str, Any] = {"show_summary": False, "raise_exception": False}
    right = gradcheck(bent_above, size, [x], [y], input_output_mask=[("x[:4000]", "y[:4000]")], **options)
    assert right.verdict == "AGREE", right.summary()
    wrong = gradcheck(bent_above, size, [x], [y], input_output_mask=[("x[:4001]", "y[:4001]")], **options)
    assert wrong.verdict == "WRONG"
    assert wrong.pairs[0].worst is not None
    assert wrong.pairs[0].worst.input_index == (4000,)


def test_coverage_says_what_was_left_out() -> None:
    x, y = wp.ones((3, 4), dtype=float, requires_grad=True), wp.ones((3, 4), dtype=float, requires_grad=True)
    result = gradcheck(plane, (3, 4), [x], [y], input_output_mask=[("x[1:, ::2]", "y")], show_summary=False)
    assert str(result.coverage) == (
        "1 input-output pairs checked, 48 of 144 entries\n"
        "  - not checked: x beyond x[1:, ::2], 4 of its 12 entries"
    )


def test_what_another_pair_checks_whole_is_not_said_to_be_left_out() -> None:
    x, y = k.vector([1.0, 2.0]), k.vector([0.0, 0.0])
    mask = [("x", "y"), ("x[0]", "y[0]")]
    assert gradcheck(k.square, 2, [x], [y], input_output_mask=mask, show_summary=False).coverage.notes == ()


def test_samples_are_drawn_among_the_chosen_entries() -> None:
    x, y = k.vector(np.arange(1.0, 41.0)), k.vector(np.zeros(40))
    found = matrix(jacobian(k.square, 40, [x], [y], [("x", "y[10:30]")], max_outputs_per_var=4))
    rows = np.flatnonzero(~np.isnan(found).any(axis=1))
    assert (len(rows), rows[0], rows[-1]) == (4, 10, 29)


def test_masks_of_tapes_restrict_too() -> None:
    x, y, z = (k.vector(np.arange(1.0, 5.0)) for _ in range(3))
    with wp.Tape() as tape:
        wp.launch(bent_above, 4, [x], [y])
        wp.launch(bent_above, 4, [y], [z])
    masks = {"bent_above": [("x[0]", "y"), ("x[1]", "y[0]")]}
    result = gradcheck_tape(tape, input_output_masks=masks, show_summary=False)
    assert [(p.launch, p.input, p.output) for p in result.pairs] == [
        (launch, *pair) for launch in (0, 1) for pair in (("x[0]", "y"), ("x[1]", "y[0]"))
    ]


def test_in_place_outputs_can_be_named() -> None:
    x, y = k.vector([1.0, 2.0]), k.vector([3.0, 4.0])
    for mask in ([("y", "y")], [("y (in place)", "y")]):
        result = gradcheck(k.times, 2, [x], [y], input_output_mask=mask, show_summary=False)
        assert [(p.input, p.output) for p in result.pairs] == [("y (in place)", "y")]


MISTAKES: list[tuple[Any, str, str]] = [
    (
        [("x[9]", "y")],
        "kernel mix: the input-output mask asks for 'x[9]', but x has shape (6,) of vec3: "
        "index 9 is out of bounds for axis 0 with size 6",
        "index it as an array of shape (6, 3)",
    ),
    (
        [("x[4:4]", "y")],
        "kernel mix: the input-output mask asks for 'x[4:4]', but x has shape (6,) of vec3: "
        "it chooses none of them",
        "index it as an array of shape (6, 3)",
    ),
    (
        [("x", ("y", np.s_[0, 0, 0]))],
        "kernel mix: the input-output mask asks for ('y', (0, 0, 0)), but y has shape (6,) of vec3: "
        "too many indices for array: array is 2-dimensional, but 3 were indexed",
        "index it as an array of shape (6, 3)",
    ),
    (
        [("state.p[0]", "y")],
        "kernel mix: the input-output mask names the input 'state.p[0]'; the inputs are 0: state.q, "
        "0: state.scale, 1: bodies.pos, 1: bodies.mass, 1: bodies.tag, 2: x",
        "did you mean 'state.q'?",
    ),
    (
        [("x.w", "y")],
        "kernel mix: the input-output mask names the input 'x.w'; the inputs are 0: state.q, "
        "0: state.scale, 1: bodies.pos, 1: bodies.mass, 1: bodies.tag, 2: x",
        "name one of them, or give its index among the inputs",
    ),
    (
        [("X", "y")],
        "kernel mix: the input-output mask names the input 'X'; the inputs are 0: state.q, 0: state.scale, "
        "1: bodies.pos, 1: bodies.mass, 1: bodies.tag, 2: x",
        "did you mean 'x'?",
    ),
    (
        [("x[i]", "y")],
        "kernel mix: the input-output mask names the input 'x[i]', which is not a name with an index of "
        "integers and slices",
        'write "x", 0, "state.q", "x[3:5]", "x[2].y" or ("x", slice(3, 5))',
    ),
    (
        [("x[3", "y")],
        "kernel mix: the input-output mask names the input 'x[3', which is not a name with an index of "
        "integers and slices",
        'write "x", 0, "state.q", "x[3:5]", "x[2].y" or ("x", slice(3, 5))',
    ),
    (
        [(3.5, "y")],
        "kernel mix: inputs and outputs in a mask are names, indices or arrays, perhaps with an index into "
        "them; got 3.5",
        'write "x", 0, "state.q", "x[3:5]", "x[2].y" or ("x", slice(3, 5))',
    ),
    (
        ("x", "y"),
        "kernel mix: an entry of the input-output mask is a pair (input, output); got 'x'",
        'write a list of pairs: [("x", "y")] or [(0, 0)]',
    ),
    (
        7,
        "kernel mix: an entry of the input-output mask is a pair (input, output); got 7",
        'write a list of pairs: [("x", "y")] or [(0, 0)]',
    ),
    (
        [("x", 1)],
        "kernel mix: the input-output mask names the output 1; the outputs are 0: y",
        "name one of them, or give its index among the outputs",
    ),
    (
        [(wp.zeros(2), "y")],
        "kernel mix: the input-output mask names the input an array that is not among them; the inputs are "
        "0: state.q, 0: state.scale, 1: bodies.pos, 1: bodies.mass, 1: bodies.tag, 2: x",
        "name one of them, or give its index among the inputs",
    ),
]


@pytest.mark.parametrize("mask, message, hint", MISTAKES, ids=lambda v: None)
def test_mistakes_say_what_there_is(mixed: dict[str, Any], mask: Any, message: str, hint: str) -> None:
    with pytest.raises(wp.GradcheckError) as caught:
        gradcheck(mix, **mixed, input_output_mask=mask)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_entries_of_what_has_no_derivative_are_not_silent(mixed: dict[str, Any]) -> None:
    result = gradcheck(
        mix, **mixed, input_output_mask=[("bodies.tag[0]", "y")], show_summary=False, raise_exception=False
    )
    assert result.verdict == "UNDECIDABLE"
    assert result.coverage.notes == (
        "not checked: bodies.tag holds int32, which has no derivatives",
        "not checked: ('bodies.tag[0]', 'y') was asked for, but 'bodies.tag[0]' is not an array with "
        "requires_grad=True",
    )
    result = gradcheck(mix, **mixed, input_output_mask=[], show_summary=False, raise_exception=False)
    assert result.coverage.notes == (
        "not checked: bodies.tag holds int32, which has no derivatives",
        "not checked: the input-output mask is empty",
    )


def test_sparse_jacobians_store_what_was_not_evaluated_only_where_it_may_be(mixed: dict[str, Any]) -> None:
    whole = jacobian(mix, **mixed, sparse=True)["x", "y"].toarray()
    for mask in ([("x[2]", "y[2]"), ("x[3]", "y[3]")], [("x", "y[4:]")]):
        found = jacobian(mix, **mixed, sparse=True, input_output_mask=mask)["x", "y"]
        dense = matrix({0: jacobian(mix, **mixed, input_output_mask=mask)["x", "y"]})
        known = ~np.isnan(dense)
        values = found.toarray()
        np.testing.assert_array_equal(values[known], dense[known])
        assert found.nnz <= np.count_nonzero(whole) + known.sum()
        assert (np.isnan(values) == (~known & (whole != 0))).all()


def test_a_sparse_jacobian_that_nobody_can_trace_is_refused_before_it_fills_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = 6000
    x, y = k.vector(np.ones(size)), k.vector(np.zeros(size))
    mask = [("x", "y[:2]")]
    assert jacobian(k.square, size, [x], [y], mask, sparse=True)["x", "y"].nnz == size
    monkeypatch.setattr(assembly, "traced", lambda program: None)
    monkeypatch.setattr(assembly, "coloured_jacobian", lambda *args, **options: None)
    with pytest.raises(wp.TapedebugError) as caught:
        jacobian(k.square, size, [x], [y], mask, sparse=True)
    assert str(caught.value) == (
        "jacobian: sparse=True would have to store NaN for most of 6000 × 6000 entries: they were not "
        "evaluated, and where they are zero is unknown\n"
        "  = hint: ask for all entries, or leave sparse out for dense arrays"
    )
