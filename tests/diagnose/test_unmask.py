"""Bugs that hide others: tapes and runs with the first one fixed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.diagnose.experiments.patched_tape import patched_tape
from tapedebug.trace.recording import record_with_arrays

HERE = Path(__file__)


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel(enable_backward=False)
def cube_without_adjoint(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i] * x[i]


@wp.kernel
def root_of_rest(x: wp.array(dtype=float), y: wp.array(dtype=float), z: wp.array(dtype=float)):
    i = wp.tid()
    z[i] = wp.sqrt(x[i] - y[i])


@wp.kernel
def mix(x: wp.array(dtype=float), y: wp.array(dtype=float), z: wp.array(dtype=float)):
    i = wp.tid()
    z[i] = x[i] * y[i]


@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, x[wp.tid()])


def floats(*values: float, requires_grad: bool = True) -> Any:
    return wp.array(list(values), dtype=float, requires_grad=requires_grad)


def zeros(count: int, *, requires_grad: bool = True) -> Any:
    return wp.zeros(count, dtype=float, requires_grad=requires_grad)


def alarms(tape: Any, **options: Any) -> list[Any]:
    return [item for item in wp.diagnose(tape, **options).findings if item.severity != "info"]


def chain(kernel: Any, *, alive: bool, mode: str = "preserve", outside: bool = False) -> Any:
    """x → y → z → loss, `y` written twice, perhaps without a gradient."""
    x, y, z, loss = floats(1.5, 2.0, 3.0), zeros(3, requires_grad=alive), zeros(3), zeros(1)
    weight = floats(1.0, 1.0, 1.0)
    with wp.Tape(on_overwrite=mode) as tape:
        wp.launch(kernel, dim=3, inputs=[x], outputs=[y])
        if outside:
            weight.numpy()[:] = 2.0
        wp.launch(mix, dim=3, inputs=[weight, y], outputs=[z])
        wp.launch(total, dim=3, inputs=[z], outputs=[loss])
        wp.copy(y, z)
        wp.launch(mix, dim=3, inputs=[x, y], outputs=[z])
        wp.launch(total, dim=3, inputs=[z], outputs=[loss])
    return tape, x, y, loss


@pytest.mark.parametrize("mode", ["preserve", "ignore"])
@pytest.mark.parametrize("outside", [False, True])
def test_a_fixed_tape_has_the_gradient_of_the_right_one(mode: str, outside: bool) -> None:
    tape, x, y, loss = chain(square, alive=False, mode=mode, outside=outside)
    right, other, _, right_loss = chain(square, alive=True, mode=mode, outside=outside)
    right.backward(right_loss)
    recorded = record_with_arrays(tape)
    number = recorded.id_of(y)
    assert number is not None
    shadow = patched_tape(recorded, {number}).replay()
    shadow.backward({loss: np.ones(1)}, consume="current" if mode == "ignore" else "versions")
    assert shadow.gradient(x).tolist() == other.grad.numpy().tolist()
    assert shadow.values(loss).tolist() == loss.numpy().tolist()


def test_a_kernel_without_an_adjoint_gets_one() -> None:
    tape, x, y, loss = chain(cube_without_adjoint, alive=True)
    recorded = record_with_arrays(tape)
    number = recorded.id_of(y)
    assert number is not None
    fixed = patched_tape(recorded, {number})
    fixed_trace = record_with_arrays(fixed).trace
    assert [kernel.enable_backward for kernel in recorded.trace.kernels] == [False, True, True]
    assert [kernel.enable_backward for kernel in fixed_trace.kernels] == [True, True, True]
    assert not cube_without_adjoint.enable_backward, "the user's kernel is what it was"
    shadow = fixed.replay()
    shadow.backward({loss: np.ones(1)})
    values = np.float32([1.5, 2.0, 3.0])
    # loss = Σ x³ + Σ x · x³
    assert shadow.gradient(x) == pytest.approx(3 * values**2 + 4 * values**3)


def test_the_first_launches_alone() -> None:
    tape, x, _, loss = chain(square, alive=True, mode="ignore")
    fixed = patched_tape(record_with_arrays(tape), (), 3)
    shadow = fixed.replay()
    assert len(fixed.records) == 3
    shadow.backward({loss: np.ones(1)}, consume="current")
    assert shadow.gradient(x).tolist() == [3.0, 4.0, 6.0], "nothing has overwritten y yet"


@pytest.mark.filterwarnings("ignore::tapedebug.TapedebugWarning")
def test_the_tape_and_its_arrays_are_as_they_were() -> None:
    tape, x, y, loss = chain(square, alive=False, mode="warn")
    before = {a: (a.numpy().copy(), len(a.buffer.watch), a.buffer.writes) for a in (x, y, loss)}
    records, needs = list(tape.records), [len(ledger.needs) for ledger in tape.ledgers()]
    recorded = record_with_arrays(tape)
    patched_tape(recorded, {recorded.id_of(y) or 0})
    for a, (values, watch, writes) in before.items():
        assert a.numpy().tolist() == values.tolist()
        assert (len(a.buffer.watch), a.buffer.writes) == (watch, writes)
        assert a.requires_grad is (a is not y)
    assert tape.records == records
    assert [len(ledger.needs) for ledger in tape.ledgers()] == needs
    assert all(old.plan is new.plan for old, new in zip(records, tape.records, strict=True))


def three_deep() -> Any:
    """The loss is reset on the tape; behind that a chain is severed; behind that a value is overwritten."""
    x, y, loss = floats(1.5, 2.0, 3.0), zeros(3, requires_grad=False), zeros(1)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
        wp.launch(total, dim=3, inputs=[y], outputs=[loss])
        x.fill_(7.0)
        wp.launch(total, dim=3, inputs=[x], outputs=[loss])
        loss.zero_()
    tape.backward(loss)
    return tape, x, loss


def test_three_bugs_behind_each_other() -> None:
    tape, _, loss = three_deep()
    found = {item.rule: item for item in alarms(tape, loss=loss)}
    assert list(found) == ["after-loss", "disconnected", "overwrite"]
    assert found["disconnected"].evidence["behind"] == "after-loss"
    assert found["disconnected"].message.endswith(
        "It is hidden by what after-loss says, and was seen with that fixed."
    )
    assert found["overwrite"].evidence["behind"] in ("after-loss", "disconnected")
    assert found["overwrite"].severity == "error"


def test_an_interrupt_keeps_what_was_found_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["tapedebug.diagnose.unmask"]
    plain = module.apply_rules

    def interrupted(*args: Any) -> None:
        plain(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "apply_rules", interrupted)
    tape, _, loss = three_deep()
    seen: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        wp.diagnose(tape, loss, so_far=seen.append)
    found = {item.rule: item for item in seen[-1].findings if item.severity != "info"}
    assert found["disconnected"].evidence["behind"] == "after-loss"
    notes = seen[-1].coverage.notes
    (note,) = [note for note in notes if note.startswith("what stands behind what was found was cut short")]
    assert note.endswith(": interrupted")


def test_nothing_is_told_twice() -> None:
    tape, _, loss = three_deep()
    messages = [(item.rule, *item.launches) for item in wp.diagnose(tape, loss=loss).findings]
    assert len(messages) == len(set(messages))


def test_what_was_detached_on_purpose_stays_so() -> None:
    x, y, other, loss = floats(1.5, 2.0, 3.0), zeros(3), zeros(3, requires_grad=False), zeros(1)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
        fixed = wp.clone(y, requires_grad=False)
        z = zeros(3)
        wp.launch(mix, dim=3, inputs=[fixed, x], outputs=[z])
        fixed.fill_(1.0)
        wp.launch(square, dim=3, inputs=[x], outputs=[other])
        wp.launch(total, dim=3, inputs=[z], outputs=[loss])
        wp.launch(total, dim=3, inputs=[other], outputs=[loss])
    tape.backward(loss)
    found = alarms(tape)
    assert {item.rule for item in found} == {"disconnected", "overwrite"}
    assert [item.evidence.get("behind") for item in found if item.rule == "overwrite"] == [None]


def test_nan_in_every_gradient_hides_nothing_further_up() -> None:
    x, y, z, loss = floats(1.5, 2.0, 3.0), zeros(3), zeros(3), zeros(1)
    squares = floats(2.25, 4.0, 9.0, requires_grad=False)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
        wp.launch(root_of_rest, dim=3, inputs=[y, squares], outputs=[z])
        x.assign([1.0, 5.0, 2.0])
        wp.launch(total, dim=3, inputs=[z], outputs=[loss])
    tape.backward(loss)
    assert not np.isfinite(x.grad.numpy()).any()
    found = {item.rule: item for item in alarms(tape, inputs=[x])}
    assert set(found) >= {"nonfinite", "overwrite"}
    assert found["overwrite"].evidence["behind"] == "nonfinite"


@wp.kernel
def whole_numbers(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.floor(10.0 * x[i])


@wp.kernel
def descend(x: wp.array(dtype=float), slope: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] - 0.1 * slope[i]


def fit(*, zero: bool) -> Any:
    x = floats(1.55, 2.05, 3.01)
    for _ in range(3):
        y, loss = zeros(3), zeros(1)
        with wp.Tape() as tape:
            wp.launch(whole_numbers, dim=3, inputs=[x], outputs=[y])
            wp.launch(total, dim=3, inputs=[y], outputs=[loss])
        tape.backward(loss)  # the pass
        wp.launch(descend, dim=3, inputs=[x, x.grad])  # the step
        if zero:
            tape.zero()
    return tape


def test_a_gradient_of_zero_that_nothing_zeroes() -> None:
    found = {item.rule: item for item in alarms(fit(zero=False))}
    assert set(found) == {"flat-op", "accumulated"}
    lines = HERE.read_text(encoding="utf-8").splitlines()
    ends = ("# the pass", "# the step")
    passes, step = (next(n for n, line in enumerate(lines, 1) if line.endswith(text)) for text in ends)
    finding = found["accumulated"]
    assert finding.message == (
        f"Nothing zeroed the gradient of x before backward ran at test_unmask.py:{passes}, and x was updated "
        f"since the pass before at test_unmask.py:{step}. The gradient is exactly 0 in every pass, which "
        "hides it; it will accumulate once the flat-op finding is fixed."
    )
    assert finding.fix == f"call tape.zero() or x.grad.zero_() after the update at test_unmask.py:{step}"
    assert {item.rule for item in alarms(fit(zero=True))} == {"flat-op"}


def test_of_a_long_tape_the_coverage_says_what_was_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["tapedebug.diagnose.unmask"], "MOST_LAUNCHES", 2)
    tape, *_ = chain(square, alive=False, mode="ignore")
    messages = (
        "behind what was found only overwrite, disconnected, duplicate-launch, seed, nonfinite, flat-op were"
    )
    tape.backward(tape.records[-1].args[1])
    notes = wp.diagnose(tape).coverage.notes
    assert f"{messages} looked for: the tape is long" in notes
