"""Rule `disconnected` at the border to NumPy, PyTorch and JAX: where values left, where they came back."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp

HERE = Path(__file__)
VALUES = (0.3, 1.7, -0.4, 0.9, 2.2, -1.1)
FEW = (0.3, -0.7)


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i] + 0.1 * x[i]


@wp.kernel
def scaled(x: wp.array(dtype=float), factor: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = factor * x[i]


@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, x[wp.tid()])


def line_of(text: str) -> int:
    lines = HERE.read_text(encoding="utf-8").splitlines()
    return next(n for n, line in enumerate(lines, start=1) if text in line and "line_of(" not in line)


def floats(*values: float) -> Any:
    return wp.array(list(values), dtype=float, requires_grad=True)


def ours(values: Any, *, requires_grad: bool = True) -> Any:
    return wp.array(np.asarray(values, np.float32), dtype=float, requires_grad=requires_grad)


def through(between: Any, values: Any = VALUES, *, also: bool = False) -> tuple[Any, Any]:
    """The square of `x` goes through `between`, is squared, and summed; `also` directly."""
    x, loss = floats(*values), wp.zeros(1, dtype=float, requires_grad=True)
    y = wp.zeros_like(x)
    with wp.Tape() as tape:
        wp.launch(square, dim=len(values), inputs=[x], outputs=[y])
        m = between(y)
        z = wp.zeros(m.shape, dtype=float, requires_grad=True)
        wp.launch(square, dim=m.shape, inputs=[m], outputs=[z])
        wp.launch(total, dim=m.shape, inputs=[z], outputs=[loss])
        if also:
            wp.launch(total, dim=len(values), inputs=[y], outputs=[loss])
    tape.backward(loss)
    return tape, x


def alarms(diagnosis: Any) -> list[Any]:
    return [item for item in diagnosis.findings if item.severity != "info"]


# ------------------------------------------------------------------------- NumPy, one function a way


def by_sine(y: Any) -> Any:
    return ours(np.sin(y.numpy()))


def by_flip(y: Any) -> Any:
    values = y.numpy()[::-1]
    return ours(values)


def by_padding(y: Any) -> Any:
    return ours(np.concatenate([y.numpy(), y.numpy()]))


def by_matrix(y: Any) -> Any:
    count = y.shape[0]
    matrix = np.arange(count * count, dtype=np.float32).reshape(count, count) / 10
    mixed = matrix @ y.numpy()
    return ours(np.maximum(mixed, 0.0))


def by_list(y: Any) -> Any:
    changed = []
    for value in y.list():
        changed.append(math.tanh(value))  # noqa: PERF401
    return wp.array(changed, dtype=float, requires_grad=True)


def by_elements(y: Any) -> Any:
    return wp.array([math.exp(y[i]) for i in range(y.shape[0])], dtype=float, requires_grad=True)


def by_iteration(y: Any) -> Any:
    return wp.array([float(value) ** 3 for value in y], dtype=float, requires_grad=True)


def by_interface(y: Any) -> Any:
    return wp.from_numpy(np.cos(np.asarray(y)), dtype=float, requires_grad=True)


def by_dlpack(y: Any) -> Any:
    values = np.from_dlpack(y)
    return wp.array(np.exp(values), dtype=float, requires_grad=True)


def by_assigning(y: Any) -> Any:
    made = wp.zeros(y.shape, dtype=float, requires_grad=True)
    made.assign(np.cos(y.numpy()))
    return made


def by_slices(y: Any) -> Any:
    made = wp.zeros(y.shape, dtype=float, requires_grad=True)
    made[:] = np.cos(y.numpy())
    return made


def by_filling(y: Any) -> Any:
    made = wp.zeros(y.shape, dtype=float, requires_grad=True)
    made.fill_(float(y.numpy().sum()))
    return made


def by_full(y: Any) -> Any:
    return wp.full(y.shape, float(np.linalg.norm(y.numpy())), dtype=float, requires_grad=True)


def smooth(values: Any) -> Any:
    padded = np.pad(values, 1, mode="edge")
    return (padded[:-2] + padded[1:-1] + padded[2:]) / 3


def read_smooth(y: Any) -> Any:
    seen = y.numpy()
    print(seen.mean())
    return smooth(seen)


def by_helpers(y: Any) -> Any:
    return ours(read_smooth(y))


def by_loop(y: Any) -> Any:
    values = y.numpy().copy()
    for _ in range(3):
        values = np.sqrt(np.abs(values))
    return ours(values)


WAYS = [
    by_sine,
    by_flip,
    by_padding,
    by_matrix,
    by_list,
    by_elements,
    by_iteration,
    by_interface,
    by_dlpack,
    by_assigning,
    by_slices,
    by_filling,
    by_full,
    by_helpers,
    by_loop,
]


@pytest.mark.sweep
@pytest.mark.parametrize("also", [False, True], ids=["alone", "beside another way"])
@pytest.mark.parametrize("values", [VALUES, FEW], ids=["six", "two"])
@pytest.mark.parametrize("between", WAYS, ids=lambda way: way.__name__)
def test_values_that_went_through_numpy_are_found(between: Any, values: Any, also: bool) -> None:
    tape, x = through(between, values, also=also)
    assert x.grad.numpy().any() == also
    (finding,) = alarms(wp.diagnose(tape))
    assert (finding.rule, finding.severity) == ("disconnected", "warning")
    start = "The gradient of x misses what flows through m" if also else "The gradient of x is exactly 0"
    assert finding.message.startswith(f"{start}: y, which launch 0 (square) writes, left the tape at ")
    assert "No gradient follows through NumPy. The loss does depend on that: perturbing m " in finding.message
    evidence = finding.evidence
    assert (evidence["kind"], evidence["inputs"]) == ("through NumPy", ["x"])
    assert evidence["read_at"]["line"] == finding.call_site.line
    code = between.__code__
    lines = {line for _, _, line in code.co_lines() if line}
    if between is not by_helpers:
        assert evidence["read_at"]["line"] in lines
    if between not in (by_sine, by_flip, by_padding, by_matrix, by_helpers, by_loop):
        assert evidence["came_in_at"]["line"] in lines
    assert evidence["loss_moves"] > 0
    assert "in a kernel" in finding.fix


def test_both_lines_are_told() -> None:
    tape, _ = through(by_matrix)
    (finding,) = alarms(wp.diagnose(tape))
    left, back = line_of("mixed = matrix @ y.numpy()"), line_of("return wp.array(np.asarray(values,")
    assert finding.message == (
        f"The gradient of x is exactly 0: y, which launch 0 (square) writes, left the tape at "
        f"test_interop.py:{left} (numpy), and came back as m at test_interop.py:{back} (array), which "
        "launch 1 (square) reads. The code computes m from what was read. No gradient follows through NumPy. "
        "The loss does depend on that: perturbing m by 0.1% moves the loss by "
        f"{finding.evidence['loss_moves']:.3g}."
    )
    assert finding.fix == "compute m from y in a kernel"


def test_a_number_that_a_launch_is_given() -> None:
    x, w = floats(*VALUES), floats(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    y, out, loss = wp.zeros_like(x), wp.zeros_like(x), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, dim=6, inputs=[x], outputs=[y])
        size = float(np.linalg.norm(y.numpy()))
        print("size", size)
        wp.launch(scaled, dim=6, inputs=[w, 1.0 / size], outputs=[out])
        wp.launch(total, dim=6, inputs=[out], outputs=[loss])
        wp.launch(total, dim=6, inputs=[y], outputs=[loss])
    tape.backward(loss)
    (finding,) = alarms(wp.diagnose(tape))
    left, back = line_of("size = float(np.linalg"), line_of("inputs=[w, 1.0 / size]")
    assert finding.message.startswith(
        f"The gradient of x misses what flows through factor: y, which launch 0 (square) writes, left the "
        f"tape at test_interop.py:{left} (numpy), and came back as the number factor that launch 1 (scaled) "
        f"is given at test_interop.py:{back}. The code computes factor from what was read."
    )
    moved = 1e-3 * 21.0 / np.linalg.norm(np.square(VALUES) + 0.1 * np.array(VALUES))
    assert finding.evidence["loss_moves"] == pytest.approx(moved, rel=1e-2)
    assert finding.fix == "give scaled the array y in place of the number factor"


@pytest.mark.parametrize("early", [True, False], ids=["before the tape uses it", "after"])
def test_an_input_that_leaves_by_itself(early: bool) -> None:
    x, loss = floats(*VALUES), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        if early:
            m = ours(np.tanh(x.numpy()))
        wp.launch(total, dim=6, inputs=[x], outputs=[loss])
        if not early:
            m = ours(np.tanh(x.numpy()))
        wp.launch(total, dim=6, inputs=[m], outputs=[loss])
    tape.backward(loss)
    (finding,) = alarms(wp.diagnose(tape))
    assert finding.message.startswith(
        "The gradient of x misses what flows through m: x, an input of the tape, left the tape at"
    )


def test_a_loop_is_one_finding() -> None:
    x, loss = floats(*VALUES), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        state = x
        for _ in range(4):
            y = wp.zeros_like(x)
            wp.launch(square, dim=6, inputs=[state], outputs=[y])
            wp.launch(total, dim=6, inputs=[y], outputs=[loss])
            state = ours(0.5 * np.tanh(y.numpy()))
    tape.backward(loss)
    (finding,) = alarms(wp.diagnose(tape))
    assert finding.evidence["occurrences"] == 3
    assert finding.message.endswith("2 more like it (×3).")


def test_a_long_tape_that_logs_every_step_needs_no_cap() -> None:
    """Hundreds of reads at one line, and as many numbers at another: one pair of places."""
    x, loss = floats(*VALUES), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        state = x
        for _ in range(450):
            y = wp.zeros_like(x)
            wp.launch(scaled, dim=6, inputs=[state, 0.999], outputs=[y])
            assert np.isfinite(y.numpy().max())
            state = y
        wp.launch(total, dim=6, inputs=[state], outputs=[loss])
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    assert alarms(diagnosis) == []
    assert not [note for note in diagnosis.coverage.notes if "left the tape" in note]


# ------------------------------------------------------------------------- what only looks like it


def shown(values: Any) -> None:
    print(values.min(), values.max())


def only_logged(y: Any) -> Any:
    shown(y.numpy())
    print(y.list()[0], float(y[1]))
    return ours(np.linspace(0.0, 1.0, y.shape[0]))


def noise_renewed(y: Any) -> Any:
    print(float(y.numpy().sum()))
    rng = np.random.default_rng(3)
    return ours(rng.normal(size=y.shape[0]))


def shape_only(y: Any) -> Any:
    values = y.numpy()
    return ours(np.ones_like(values) * len(values))


def a_mask(y: Any) -> Any:
    return ours(np.where(y.numpy() > 0.5, 1.0, 0.25))


def kept_in_a_log(y: Any) -> Any:
    log: dict[str, Any] = {"target": np.linspace(1.0, 2.0, y.shape[0])}
    log["y"] = y.numpy().copy()
    history = []
    history.append(log["y"].mean())
    return ours(log["target"])


def a_name_used_again(y: Any) -> Any:
    values = y.numpy()
    print(values)
    values = np.linspace(-1.0, 1.0, y.shape[0])
    return ours(values)


LOOK_ALIKES = [only_logged, noise_renewed, shape_only, a_mask, kept_in_a_log, a_name_used_again]


@pytest.mark.parametrize("between", LOOK_ALIKES, ids=lambda way: way.__name__)
def test_what_does_not_follow_from_what_was_read_is_none_of_it(between: Any) -> None:
    tape, _ = through(between, also=True)
    diagnosis = wp.diagnose(tape)
    assert (diagnosis.verdict, alarms(diagnosis)) == ("AGREE", [])
    assert not [note for note in diagnosis.coverage.notes if "left the tape" in note]


def a_constant(y: Any) -> Any:
    return ours(np.tanh(y.numpy()), requires_grad=False)


def test_a_constant_without_gradient_is_a_note() -> None:
    tape, _ = through(a_constant, also=True)
    diagnosis = wp.diagnose(tape)
    assert (diagnosis.verdict, alarms(diagnosis)) == ("AGREE", [])
    left, back = (
        line_of("np.tanh(y.numpy()), requires_grad=False"),
        line_of("return wp.array(np.asarray(values"),
    )
    (note,) = [note for note in diagnosis.coverage.notes if "left the tape" in note]
    assert note == (
        f"y left the tape at test_interop.py:{left} (numpy), and m came in at test_interop.py:{back} (array)"
        ": the second follows from the first, and is a constant without requires_grad"
    )


def test_a_step_that_is_chosen_from_a_detached_copy_is_none_of_it() -> None:
    """Without a gradient on purpose: a number has no `requires_grad` that could say so."""
    x, y, out = (floats(*VALUES) for _ in range(3))
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, dim=6, inputs=[x], outputs=[y])
        fastest = np.abs(wp.clone(y, requires_grad=False).numpy()).max()
        wp.launch(scaled, dim=6, inputs=[y, 0.5 / float(fastest)], outputs=[out])
        wp.launch(total, dim=6, inputs=[out], outputs=[loss])
    tape.backward(loss)
    assert alarms(wp.diagnose(tape)) == []


def test_what_is_detached_on_purpose_is_a_note() -> None:
    torch = pytest.importorskip("torch")
    tape, _ = through(
        lambda y: wp.from_torch(torch.sin(wp.to_torch(y).detach()), requires_grad=True), also=True
    )
    diagnosis = wp.diagnose(tape)
    assert alarms(diagnosis) == []
    assert any("came in at" in note for note in diagnosis.coverage.notes)


def unknown(function: Any) -> Any:
    def between(y: Any) -> Any:
        return ours(function(y.numpy()))

    return between


def test_what_an_unknown_function_does_is_a_note_unless_a_gradient_is_gone() -> None:
    tape, _ = through(unknown(np.sin), also=True)
    diagnosis = wp.diagnose(tape)
    assert alarms(diagnosis) == []
    (note,) = [note for note in diagnosis.coverage.notes if "left the tape" in note]
    assert note.endswith("if the second follows from the first, its gradient is not carried")
    tape, _ = through(unknown(np.sin))
    (finding,) = alarms(wp.diagnose(tape))
    assert finding.evidence["known_by"] == "unsure"


def test_without_source_values_tell() -> None:
    names = {"wp": wp, "np": np}
    exec("def between(y):\n    return wp.array(y.numpy() * 2.0, dtype=float, requires_grad=True)", names)
    tape, _ = through(names["between"], (*VALUES, 0.7, 1.3, -2.1, 0.05, 1.1), also=True)
    (finding,) = alarms(wp.diagnose(tape))
    assert finding.evidence["known_by"] == "values"
    assert "The values of m are those of y (11 values, times 2, plus" in finding.message
    exec("def between(y):\n    return wp.array(np.sin(y.numpy()), dtype=float, requires_grad=True)", names)
    tape, _ = through(names["between"], also=True)
    diagnosis = wp.diagnose(tape)
    assert alarms(diagnosis) == []
    assert any("if the second follows from the first" in note for note in diagnosis.coverage.notes)


def test_an_update_of_an_input_is_none_of_it() -> None:
    x, loss = floats(*VALUES), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(total, dim=6, inputs=[x], outputs=[loss])
        x.assign(x.numpy() - 0.1)
        wp.launch(total, dim=6, inputs=[x], outputs=[loss])
    tape.backward(loss)
    assert not [item for item in alarms(wp.diagnose(tape)) if item.rule == "disconnected"]


def test_what_is_read_later_is_not_told() -> None:
    """Values that are printed when the array is there already."""

    def between(y: Any) -> Any:
        made = ours(np.linspace(0.0, 1.0, y.shape[0]))
        made.numpy()[0] = 0.5
        print(y.numpy())
        return made

    tape, _ = through(between, also=True)
    assert not [item for item in alarms(wp.diagnose(tape)) if item.rule == "disconnected"]


# ------------------------------------------------------------------------------------ PyTorch, JAX


def torch_ways() -> dict[str, Any]:
    torch = pytest.importorskip("torch")
    weights = torch.linspace(-1.0, 1.0, 36).reshape(6, 6)
    return {
        "sin": torch.sin,
        "linear": lambda v: weights[: len(v), : len(v)] @ v,
        "relu": lambda v: torch.relu(v - 0.2),
        "flip": lambda v: v.flip(0).contiguous(),
        "cat": lambda v: torch.cat([v, v]),
        "clone": lambda v: v.clone(),
        "mean": lambda v: v - v.mean(),
    }


NAMES = ["sin", "linear", "relu", "flip", "cat", "clone", "mean"]


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded by PyTorch", "no_grad"])
@pytest.mark.parametrize("values", [VALUES, FEW], ids=["six", "two"])
@pytest.mark.parametrize("name", NAMES)
def test_values_that_went_through_pytorch_are_found(name: str, values: Any, recorded: bool) -> None:
    function = torch_ways()[name]
    import torch

    def between(y: Any) -> Any:
        with torch.set_grad_enabled(recorded):
            return wp.from_torch(function(wp.to_torch(y)), requires_grad=True)

    tape, x = through(between, values)
    assert not x.grad.numpy().any()
    (finding,) = alarms(wp.diagnose(tape))
    line = line_of("return wp.from_torch(function(wp.to_torch(y)), requires_grad=True)")
    assert finding.message.startswith(
        f"The gradient of x is exactly 0: y, which launch 0 (square) writes, left the tape at "
        f"test_interop.py:{line} (to_torch), and came back as m at test_interop.py:{line} (from_torch), "
        "which "
    )
    assert "No gradient follows through PyTorch. The loss does depend on that" in finding.message
    assert finding.evidence["kind"] == "through PyTorch"
    same = finding.evidence["known_by"] == "values" and name == "clone"
    advice = "pass y to square" if same else "or call the PyTorch function through tapedebug.torch.function"
    assert advice in finding.fix
    if recorded:
        assert finding.evidence["known_by"] == "graph"
        assert (
            "PyTorch's graph leads from m back to y; without its part the gradient of x is" in finding.message
        )


@pytest.mark.parametrize("name", NAMES)
def test_how_far_the_gradient_is_off_is_that_of_pytorch(name: str) -> None:
    function = torch_ways()[name]
    import torch

    tape, x = through(lambda y: wp.from_torch(function(wp.to_torch(y)), requires_grad=True), also=True)
    (finding,) = alarms(wp.diagnose(tape))
    v = torch.tensor(VALUES, requires_grad=True)
    y = v * v + 0.1 * v
    m = function(y)
    ((m * m + 0.1 * m).sum() + y.sum()).backward()
    right = v.grad.numpy()
    error = np.linalg.norm(x.grad.numpy() - right) / np.linalg.norm(right)
    assert finding.evidence["relative_error"]["x"] == pytest.approx(error, rel=1e-4)


def test_a_function_of_pytorch_without_slope_is_none_of_it() -> None:
    torch = pytest.importorskip("torch")
    tape, _ = through(
        lambda y: wp.from_torch(torch.sign(wp.to_torch(y)) + 0.5, requires_grad=True), also=True
    )
    assert alarms(wp.diagnose(tape)) == []


def test_a_view_of_a_tensor_has_a_gradient_of_its_own() -> None:
    pytest.importorskip("torch")
    tape, _ = through(lambda y: wp.from_torch(wp.to_torch(y).reshape(6), requires_grad=True), also=True)
    (finding,) = alarms(wp.diagnose(tape))
    assert finding.evidence["known_by"] == "graph"


def test_a_shared_gradient_is_none_of_it() -> None:
    pytest.importorskip("torch")
    tape, x = through(lambda y: wp.from_torch(wp.to_torch(y)), also=True)
    assert x.grad.numpy().any()
    assert alarms(wp.diagnose(tape)) == []


def model() -> tuple[Any, Any, Any]:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    return torch, torch.nn.Linear(3, 6), torch.tensor([0.5, -1.0, 2.0])


def behind_a_model(layer: Any, given: Any, **options: Any) -> tuple[Any, Any, Any]:
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    made = layer(given)
    with wp.Tape() as tape:
        m = wp.from_torch(made, requires_grad=True, **options)
        z = wp.zeros_like(m)
        wp.launch(square, dim=6, inputs=[m], outputs=[z])
        wp.launch(total, dim=6, inputs=[z], outputs=[loss])
    tape.backward(loss)
    return tape, m, made


def test_parameters_of_a_model_that_get_no_gradient() -> None:
    _, layer, given = model()
    tape, m, _ = behind_a_model(layer, given)
    norm = np.linalg.norm(m.grad.numpy())
    diagnosis = wp.diagnose(tape)
    (finding,) = alarms(diagnosis)
    line = line_of("m = wp.from_torch(made, requires_grad=True, **options)")
    assert (finding.rule, finding.severity, finding.call_site.line) == ("disconnected", "warning", line)
    assert finding.message == (
        f"m came in at test_interop.py:{line} (from_torch) as made, which PyTorch computes from 2 leaves of "
        f"shape (6, 3) and (6,). Their gradient ends in m.grad (norm {norm:.3g}): their own grad is None."
    )
    assert finding.fix == (
        "call made.backward(wp.to_torch(m.grad)) after Tape.backward, or make the launches a function of "
        "PyTorch with tapedebug.torch.from_tape"
    )
    assert diagnosis.verdict == "AGREE"


def test_following_the_advice_gives_the_gradient_of_the_model() -> None:
    torch, layer, given = model()
    tape, m, made = behind_a_model(layer, given)
    made.backward(wp.to_torch(m.grad))
    found = layer.weight.grad.clone()
    assert alarms(wp.diagnose(tape)) == []
    layer.zero_grad()
    right = layer(given)
    (right * right + 0.1 * right).sum().backward()
    torch.testing.assert_close(found, layer.weight.grad)


def test_gradients_that_were_there_before_are_no_proof() -> None:
    _, layer, given = model()
    layer(given).sum().backward()
    tape, m, _ = behind_a_model(layer, given)
    (finding,) = alarms(wp.diagnose(tape))
    assert "nothing has read that since Tape.backward" in finding.message
    print(np.abs(m.grad.numpy()).max())  # it may have been handed on by way of NumPy
    assert alarms(wp.diagnose(tape)) == []


@pytest.mark.parametrize(
    "case", ["handed by autograd.grad", "no pass", "detached", "given gradient", "no grad"]
)
def test_models_that_need_nothing_are_none_of_it(case: str) -> None:
    torch, layer, given = model()
    if case == "handed by autograd.grad":
        tape, m, made = behind_a_model(layer, given)
        torch.autograd.grad(made, list(layer.parameters()), wp.to_torch(m.grad))
    elif case == "given gradient":
        tape, *_ = behind_a_model(layer, given, grad=torch.zeros(6))
    elif case == "detached":
        tape, *_ = behind_a_model(lambda v: layer(v).detach(), given)
    elif case == "no grad":
        with torch.no_grad():
            tape, *_ = behind_a_model(layer, given)
    else:
        m, loss = None, wp.zeros(1, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            m = wp.from_torch(layer(given), requires_grad=True)
            wp.launch(total, dim=6, inputs=[m], outputs=[loss])
    assert alarms(wp.diagnose(tape)) == []


def test_diagnosing_leaves_pytorch_alone() -> None:
    torch, layer, _ = model()
    layer = torch.nn.Linear(6, 6)
    kept = []

    def between(y: Any) -> Any:
        seen = wp.to_torch(y)
        kept.extend((seen, torch.sin(layer(seen))))
        return wp.from_torch(kept[1], requires_grad=True)

    tape, _ = through(between, also=True)
    before = kept[0].grad.clone()
    (finding,) = alarms(wp.diagnose(tape))
    assert "(and to 2 tensors of its own, which get none either)" in finding.message
    assert torch.equal(kept[0].grad, before)
    assert layer.weight.grad is None
    kept[1].sum().backward()  # the graph is there still


def test_values_that_went_through_jax_are_found() -> None:
    jax = pytest.importorskip("jax")
    tape, _ = through(lambda y: wp.clone(wp.from_jax(jax.numpy.sin(wp.to_jax(y))), requires_grad=True))
    (finding,) = alarms(wp.diagnose(tape))
    assert finding.evidence["kind"] == "through JAX"
    assert (finding.evidence["read_by"], finding.evidence["came_in_by"]) == ("to_jax", "from_jax")


def test_a_tensor_that_is_only_looked_at_is_told_as_pytorchs() -> None:
    """The chain ends at `y`, which a launch should have read; the line that looked at it comes first."""
    pytest.importorskip("torch")
    x, w, loss = floats(*VALUES), floats(*VALUES), wp.zeros(1, dtype=float, requires_grad=True)
    y = wp.zeros_like(x)
    with wp.Tape() as tape:
        wp.launch(square, dim=6, inputs=[x], outputs=[y])
        print(wp.to_torch(y).sum())
        wp.launch(total, dim=6, inputs=[w], outputs=[loss])
    tape.backward(loss)
    (finding,) = alarms(wp.diagnose(tape))
    assert finding.evidence["kind"] == "through PyTorch"
    assert "while the tape recorded, and no gradient follows through PyTorch." in finding.message
