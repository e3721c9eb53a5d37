"""The table of every argument of the documents' functions holds; and tests for arguments that have no other.

`python -m tests.seeds.test_arguments` writes docs/arguments.md anew.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import (
    FunctionMetadata,
    gradcheck,
    gradcheck_tape,
    gradgradcheck,
    jacobian,
    jacobian_fd,
    jacobian_plot,
)
from tests.autograd import kernels as k
from tests.processes import ROOT
from tests.seeds.arguments import REQUIRED, TABLE, Function, Row

PAGE = ROOT / "docs" / "arguments.md"
PART = re.compile(r"(<!-- table.*?-->\n).*?(\n<!-- end of table -->)", re.DOTALL)
ROWS = [(function, row) for function in TABLE for row in function.rows]
ARGUMENTS = [(function, row) for function, row in ROWS if row.is_argument]


def label(value: Any) -> str:
    return value.title if isinstance(value, Function) else value.name


# ------------------------------------------------------------------ the table


def signature(function: Function) -> inspect.Signature:
    """Return the parameters of our function; those of a method without its object."""
    found = inspect.signature(functools.reduce(getattr, function.ours.split("."), wp))
    method = function.title.startswith("warp.Tape")
    return found.replace(parameters=list(found.parameters.values())[method:])


@pytest.mark.parametrize("function, row", ARGUMENTS, ids=label)
def test_an_argument_is_there_with_the_documents_default(function: Function, row: Row) -> None:
    parameter = signature(function).parameters[row.ours]
    if row.document == REQUIRED:
        return  # ours may have a default
    wanted = ast.literal_eval(row.document)
    if row.differs:
        assert row.remark
        assert parameter.default != wanted
    else:
        assert (parameter.default, type(parameter.default)) == (wanted, type(wanted))


@pytest.mark.parametrize("function", TABLE, ids=label)
def test_what_can_be_passed_by_position_comes_in_the_documents_order(function: Function) -> None:
    if function.title.startswith("torch"):
        pytest.skip("its order is that of Warp's gradcheck")
    ours = list(signature(function).parameters.values())
    places = [p.name for p in ours if p.kind is not p.KEYWORD_ONLY]
    documents = [row.name for row in function.rows if row.is_argument]
    assert [name for name in documents if name in places] == [name for name in places if name in documents]
    assert places[: len(documents)] == [name for name in documents if name in places]


@pytest.mark.parametrize("function, row", ROWS, ids=label)
def test_the_test_of_a_row_exists(function: Function, row: Row) -> None:
    file, name = row.test.split("::")
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    found = next(
        (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name), None
    )
    assert found is not None, f"there is no test {row.test}"


def shown(function: Function, row: Row) -> str:
    """Return our default if it says more than the document's."""
    if not row.is_argument:
        return row.remark or "The same."
    default = signature(function).parameters[row.ours].default
    same = row.document == REQUIRED or not row.differs
    return " ".join(part for part in ("" if same else f"`{default!r}`.", row.remark) if part) or "The same."


def table() -> str:
    """The tables of the page."""
    lines: list[str] = []
    for function in TABLE:
        name = "tapedebug." + function.ours.replace("visualize.visualize", "Tape.visualize")
        lines += [f"## {function.title}", "", f"Ours is `{name}`.", ""]
        lines += ["| Argument | The document | tapedebug | Test |", "| --- | --- | --- | --- |"]
        for row in function.rows:
            literal = row.is_argument and row.document != REQUIRED
            document = f"`{row.document}`" if literal else row.document
            named = f"`{row.name}`" if row.is_argument else row.name
            lines.append(
                f"| {named} | {document} | {shown(function, row)} | `{row.test.split('/')[-1]}` |".replace(
                    "|AD - FD|", "\\|AD - FD\\|"
                ).replace("|FD|", "\\|FD\\|")
            )
        lines.append("")
    return "\n".join(lines).rstrip()


def test_the_page_shows_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == PART.sub(lambda m: m[1] + table() + m[2], page), "python -m tests.seeds.test_arguments"


# ------------------------------------------------------------------ arguments that have no other test


def by_kernel(kernel: Any, values: list[float], **options: Any) -> Any:
    """`gradcheck` of a kernel from one array to another."""
    x, y = k.vector(values), k.vector(np.zeros(len(values)))
    return gradcheck(kernel, len(values), [x], [y], **{"show_summary": False, **options})


def by_tape(kernel: Any, values: list[float], **options: Any) -> Any:
    """`gradcheck_tape` of one launch of it."""
    x, y = k.vector(values), k.vector(np.zeros(len(values)))
    with wp.Tape() as tape:
        wp.launch(kernel, len(values), [x], [y])
    return gradcheck_tape(tape, **{"show_summary": False, **options})


both = pytest.mark.parametrize("check", [by_kernel, by_tape])


@wp.func
def tilted(x: float):
    return 2.0 * x


@wp.func_grad(tilted)
def adj_tilted(x: float, adj_ret: float):
    wp.adjoint[x] += 2.02 * adj_ret


@wp.kernel
def one_percent_off(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = tilted(x[i])


@both
def test_tolerances_mean_what_the_formula_says(check: Any) -> None:
    """AD is 2.02 where FD is 2."""
    options = {"raise_exception": False}
    for atol, rtol, verdict in [
        (0.0, 0.0101, "AGREE"),
        (0.0, 0.0099, "WRONG"),
        (0.0201, 0.0, "AGREE"),
        (0.0199, 0.0, "WRONG"),
        (0.0101, 0.005, "AGREE"),
        (0.0099, 0.005, "WRONG"),
    ]:
        assert check(one_percent_off, [1.0, 3.0], atol=atol, rtol=rtol, **options).verdict == verdict
    assert check(one_percent_off, [1.0], **options).verdict == "AGREE", "0.001 + 0.01 · 2 forgives 0.02"


@both
def test_eps_is_the_step(check: Any) -> None:
    coarse = check(k.cube, [0.5], eps=0.5, reference="float32", raise_exception=False)
    assert coarse.verdict == "WRONG", "one difference of x³ at a step of 0.5 is off by 0.25"
    assert check(k.cube, [0.5], eps=1e-3, reference="float32").verdict == "AGREE"
    assert check(k.cube, [0.5], eps=0.5).verdict == "AGREE", "a sweep only begins there"
    x, y = k.vector([0.5]), k.vector([0.0])
    for eps in (0.5, 1e-4):
        found = jacobian_fd(k.cube, 1, [x], [y], eps=eps)[0, 0].numpy()
        assert found.tolist() == [[0.75]]
    with pytest.raises(wp.GradcheckError, match="eps, the largest step, must be positive; got 0"):
        jacobian_fd(k.cube, 1, [x], [y], eps=0)


@both
def test_exceptions_are_raised_unless_told_otherwise(check: Any) -> None:
    with pytest.raises(ValueError, match=r"failed: WRONG: .*y with respect to x: d y\[0\] / d x\[0\]"):
        check(one_percent_off, [1.0], rtol=0.0)
    assert not check(one_percent_off, [1.0], rtol=0.0, raise_exception=False)


@both
def test_the_result_is_the_documents_boolean(check: Any) -> None:
    right, wrong = check(k.square, [1.0]), check(one_percent_off, [1.0], rtol=0.0, raise_exception=False)
    assert (bool(right), bool(wrong)) == (True, False)


@both
def test_limits_leave_entries_out(check: Any) -> None:
    values = np.arange(1.0, 11.0).tolist()
    for options, entries in [({"max_inputs_per_var": 3}, 30), ({"max_outputs_per_var": 4}, 40), ({}, 100)]:
        result = check(k.square, values, **options)
        assert (result.pairs[0].evaluated, result.pairs[0].entries) == (entries, 100)


@both
def test_the_summary_is_printed_unless_told_otherwise(check: Any, capsys: pytest.CaptureFixture) -> None:
    check(k.square, [1.0])
    assert capsys.readouterr().out == ""
    assert check(k.square, [1.0], show_summary=True).summary() + "\n" == capsys.readouterr().out


@pytest.fixture
def plt(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")


@pytest.fixture
def shown_figures(plt: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """The title of each figure that was shown, and those of its pictures."""
    found: list[tuple[str, list[str]]] = []

    def show() -> None:
        figure = plt.gcf()
        found.append((figure._suptitle.get_text(), [a.get_title() for a in figure.axes if a.get_title()]))

    monkeypatch.setattr(plt, "show", show)
    return found


@both
def test_errors_are_plotted_when_asked(check: Any, shown_figures: list[tuple[str, list[str]]]) -> None:
    for options, titles in [
        ({"plot_relative_error": True}, ["Relative error"]),
        ({"plot_absolute_error": True}, ["Absolute error"]),
        ({}, []),
    ]:
        shown_figures.clear()
        check(k.square, [1.0], **options)
        assert [title.split(" of ")[0] for title, _ in shown_figures] == titles


def test_a_kernel_needs_dim_and_a_function_does_not() -> None:
    x, y = k.vector([1.0, 2.0]), k.vector([0.0, 0.0])

    def squared(x: Any) -> Any:
        y = wp.zeros_like(x)
        wp.launch(k.square, len(x), [x], [y])
        return y

    for method in (jacobian, jacobian_fd, gradcheck):
        with pytest.raises(wp.GradcheckError, match="^kernel square needs dim, its number of threads\n"):
            method(k.square, inputs=[x], outputs=[y])
        assert method(squared, inputs=[x])
        assert method(k.square, (2,), [x], [y])


def test_devices_and_blocks_are_accepted() -> None:
    x, y = k.vector([1.0, 2.0]), k.vector([0.0, 0.0])
    for method in (jacobian, jacobian_fd, gradcheck):
        assert method(k.square, 2, [x], [y], device="cpu", max_blocks=3, block_dim=64)
        with pytest.raises(wp.DeviceError, match="there is no device 'tpu'"):
            method(k.square, 2, [x], [y], device="tpu")


def test_metadata_labels_the_plot(shown_figures: list[tuple[str, list[str]]]) -> None:
    x, y = k.vector([1.0]), k.vector([0.0])
    labels = FunctionMetadata.of_kernel(k.square, [x])
    labels.key, labels.input_labels, labels.output_labels = "my kernel", ["mass"], ["force"]
    for method, title in ((jacobian, "Jacobian of"), (jacobian_fd, "Jacobian by finite differences of")):
        shown_figures.clear()
        method(k.square, 1, [x], [y], plot_jacobians=True, metadata=labels)
        method(k.square, 1, [x], [y], plot_jacobians=True, metadata=FunctionMetadata())
        assert shown_figures == [
            (f"{title} my kernel", ["d force / d mass"]),
            (f"{title} square", ["d y / d x"]),
        ], "an empty one is filled in"


def test_the_plot_of_jacobians(plt: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shows: list[bool] = []
    monkeypatch.setattr(plt, "show", lambda *a, **kw: shows.append(True))
    x, w, y = k.vector([1.0, 2.0]), k.vector([100.0, 200.0]), k.vector([1.0, 1.0])
    found = jacobian(k.times, 2, [x], [y])
    found_w = jacobian(k.square, 2, [w], [y])
    jacobians = {(0, 0): found[0, 0], (1, 0): found_w[0, 0]}
    labels = FunctionMetadata("both", ["x", "w"], ["y"], [None] * 2, [None], [wp.float32] * 2, [wp.float32])

    def images(**options: Any) -> list[Any]:
        figure = jacobian_plot(jacobians, labels, **options)
        return [axis.images[0] for axis in figure.axes if axis.images and axis.get_title()]

    shared, separate = images(), images(scale_colors_per_submatrix=True)
    assert len(shows) == 2
    assert shared[0].get_clim() == shared[1].get_clim()
    assert separate[0].get_clim() != separate[1].get_clim()
    assert {image.get_cmap().name for image in shared} == {"coolwarm"}
    assert {image.get_cmap().name for image in images(colormap="viridis", show_plot=False)} == {"viridis"}
    assert len(shows) == 2, "show_plot=False shows nothing"
    logarithms = images(log_scale=True)[1].get_array()
    assert logarithms[0, 0] == pytest.approx(np.log10(200.0))
    with_bar, without = (
        len(jacobian_plot(jacobians, labels, show_plot=False, show_colorbar=bar).axes)
        for bar in (True, False)
    )
    assert with_bar == without + 1


# ------------------------------------------------------------------ options of PyTorch's


def test_nondet_tol_is_what_two_runs_may_differ_by() -> None:
    noisy = k.with_noise(k.square, 2)
    strict = by_kernel(noisy, [0.5, 3.0], raise_exception=False)
    tolerant = by_kernel(noisy, [0.5, 3.0], raise_exception=False, nondet_tol=100.0)
    assert strict.verdict == "NONDETERMINISTIC"
    assert tolerant.verdict != "NONDETERMINISTIC"


def test_fast_mode_finds_wrong_gradients_without_whole_jacobians() -> None:
    values = np.linspace(0.5, 1.5, 40).tolist()
    right = by_kernel(k.square, values, fast_mode=True)
    wrong = by_kernel(one_percent_off, values, fast_mode=True, rtol=1e-4, atol=0.0, raise_exception=False)
    assert (right.verdict, wrong.verdict) == ("AGREE", "WRONG")
    assert right.pairs[0].evaluated < 1600


@wp.kernel
def neighbours(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[(i + 1) % x.shape[0]]


def test_masked_leaves_out_what_the_sparsity_leaves_out() -> None:
    values = np.linspace(0.5, 1.5, 20).tolist()
    whole, masked = by_kernel(neighbours, values), by_kernel(neighbours, values, masked=True)
    assert (whole.verdict, masked.verdict) == ("AGREE", "AGREE")
    assert masked.pairs[0].evaluated <= 40 < whole.pairs[0].entries


def test_masked_is_accepted_of_second_derivatives() -> None:
    x, y = k.vector([0.5, 2.0]), k.vector([0.0, 0.0])
    results = [
        gradgradcheck(k.cube, 2, [x], [y], masked=masked, show_summary=False) for masked in (False, True)
    ]
    assert [result.verdict for result in results] == ["AGREE", "AGREE"]
    assert len({tuple(pair.evaluated for pair in result.pairs) for result in results}) == 1


# ------------------------------------------------------------------ tapes


def recorded() -> tuple[wp.Tape, Any, Any]:
    x, y = k.vector([1.0, 2.0]), k.vector([0.0, 0.0])
    with wp.Tape() as tape:
        wp.launch(k.square, 2, [x], [y])
    return tape, x, y


def test_get_adjoint_is_the_gradient() -> None:
    tape, x, y = recorded()
    tape.backward(grads={y: k.vector([1.0, 1.0])})
    assert tape.get_adjoint(x) is x.grad
    assert tape.get_adjoint(x).numpy().tolist() == [2.0, 4.0]
    assert tape.get_adjoint(k.vector([1.0], grad=False)) is None


def test_zero_zeroes_all_gradients() -> None:
    tape, x, y = recorded()
    tape.backward(grads={y: k.vector([1.0, 1.0])})
    tape.zero()
    assert x.grad.numpy().tolist() == y.grad.numpy().tolist() == [0.0, 0.0]


def test_recorded_launches_take_blocks_and_metadata() -> None:
    x, y = k.vector([1.0, 2.0]), k.vector([0.0, 0.0])
    tape = wp.Tape()
    tape.record_launch(k.square, 2, 0, [x], [y], "cpu", block_dim=64, metadata={"caller": {"lineno": 3}})
    tape.record_launch(k.square, dim=2, max_blocks=4, inputs=[x], outputs=[y], device=None)
    tape.backward(grads={y: k.vector([1.0, 1.0])})
    assert len(tape.records) == 2
    assert x.grad.numpy().tolist() == [2.0, 4.0]


def test_scopes_keep_their_metadata() -> None:
    tape = wp.Tape()
    tape.record_scope_begin("step", {"number": 3})
    tape.record_scope_end(remove_scope_if_empty=False)
    assert [(scope.name, scope.metadata) for scope in tape.scopes] == [("step", {"number": 3})]


def test_empty_scopes_go_unless_they_are_kept() -> None:
    for options, names in (({}, []), ({"remove_scope_if_empty": False}, ["step"])):
        tape = wp.Tape()
        tape.record_scope_begin("step")
        tape.record_scope_end(**options)
        assert [scope.name for scope in tape.scopes] == names


def test_scopes_are_left_out_of_the_graph_when_asked() -> None:
    x, y = k.vector([1.0, 2.0]), k.vector([0.0, 0.0])
    with wp.Tape() as tape:
        tape.record_scope_begin("my scope")
        wp.launch(k.square, 2, [x], [y])
        tape.record_scope_end()
    assert "my scope" in tape.visualize()
    assert "my scope" not in tape.visualize(ignore_graph_scopes=True)


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(PART.sub(lambda m: m[1] + table() + m[2], text), encoding="utf-8")
