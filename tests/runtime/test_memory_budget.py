"""`Tape(memory_budget=…)`: less memory, the same gradients to the last bit."""

from __future__ import annotations

import tracemalloc
import warnings
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tests.runtime.alias_programs import Program, gradient_of, grow, numbers
from tests.runtime.kernels import cube_in_place, square, total


@wp.kernel
def swing(x: wp.array(dtype=float), v: wp.array(dtype=float), dt: float):
    i = wp.tid()
    v[i] = v[i] - (wp.sin(x[i]) + 0.1 * v[i] * v[i] * v[i]) * dt
    x[i] = x[i] + v[i] * dt


def pendulums(count: int, steps: int, **options: Any) -> tuple[Any, Any, Any]:
    start = wp.array(np.linspace(-1.0, 2.0, count), dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape(**options) as tape:
        x, v = wp.clone(start), wp.zeros(count, dtype=float, requires_grad=True)
        for _ in range(steps):
            wp.launch(swing, count, inputs=[x, v, 0.01])
        wp.launch(total, count, inputs=[x, loss])
    return tape, start, loss


def kept(tape: Any) -> int:
    return int(tape.preserved_bytes + tape.livein_bytes)


@pytest.mark.parametrize("part", [2, 10, 20])
def test_a_long_simulation_takes_what_it_may_and_gives_the_same_bits(part: int) -> None:
    tape, start, loss = pendulums(20_000, 300)
    tape.backward(loss)
    expected, whole = start.grad.numpy().tobytes(), kept(tape)
    assert whole == 300 * 2 * 80_000
    budget = whole // part
    tape, start, loss = pendulums(20_000, 300, memory_budget=budget)
    assert kept(tape) <= budget // 2 + 160_000, "one launch more than half"
    assert len(tape.gradients) == 4  # makes their memory, which is not the tape's
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tape.backward(loss)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak + kept(tape) <= budget + 800_000, "and gradients, seeds and tables"
    assert start.grad.numpy().tobytes() == expected
    assert 250 < tape.backward_calls[-1].reran < 4 * 300


def test_what_fits_is_not_computed_again() -> None:
    tape, start, loss = pendulums(100, 50)
    tape.backward(loss)
    same, other, end = pendulums(100, 50, memory_budget=2 * kept(tape))
    same.backward(end)
    assert same.backward_calls[-1].reran == 0
    assert kept(same) == kept(tape)
    assert other.grad.numpy().tobytes() == start.grad.numpy().tobytes()


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_by_many_names(seed: int) -> None:
    program = Program(seed, steps=40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        memory, tape = program.run()
        tape.backward(memory.loss)
        expected, whole = gradient_of(memory), kept(tape)
        for budget in (whole // 3, 1):
            memory, tape = program.run(memory_budget=budget)
            for _ in range(2):
                tape.zero()
                tape.backward(memory.loss)
                assert tape.backward_calls[-1].reran > 0
                np.testing.assert_array_equal(gradient_of(memory), expected)


def test_gradients_that_are_kept_count_once_and_reach_the_tape_on_which_one_goes_on() -> None:
    def run(**options: Any) -> list[bytes]:
        x = wp.array([0.5, -0.2], dtype=float, requires_grad=True)
        y = wp.zeros(2, dtype=float, requires_grad=True, retain_grad=True)
        loss = wp.zeros(1, dtype=float, requires_grad=True)
        tape = wp.Tape(**options)
        with tape:
            for _ in range(9):
                wp.launch(square, 2, inputs=[x, y])
                wp.launch(cube_in_place, 2, inputs=[y])
        with tape:
            wp.copy(x, y)
            wp.launch(total, 2, inputs=[y, loss])
        tape.backward(loss)
        x.assign([9.0, 9.0])  # an optimiser's step; what backward needs is kept
        tape.zero()
        tape.backward(loss)
        return [a.grad.numpy().tobytes() for a in (x, y)]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(memory_budget=20) == run()


def test_custom_functions_are_not_run_again_and_see_the_values_of_then() -> None:
    seen: list[list[float]] = []

    def run(**options: Any) -> tuple[Any, Any]:
        x = numbers([0.5, 0.7])
        with wp.Tape(**options) as tape:
            for step in range(20):
                wp.launch(grow, 2, inputs=[x])
                if step == 5:
                    tape.record_func(lambda: seen.append(x.numpy().tolist()), [x])
        tape.backward(grads={x: [1.0, 1.0]})
        return tape, x

    _, x = run()
    with pytest.warns(wp.TapedebugWarning, match="is too small for this tape"):
        tape, other = run(memory_budget=40)
    assert tape.backward_calls[-1].reran >= 15
    assert seen[0] == seen[1] != x.numpy().tolist()
    assert x.grad.numpy().tobytes() == other.grad.numpy().tobytes()


def test_a_pass_that_fails_leaves_gradients_as_they_were() -> None:
    tape, start, loss = pendulums(50, 40, memory_budget=5000)

    def fail() -> None:
        raise RuntimeError("no")

    first = wp.Tape(memory_budget=100)
    x = wp.array([0.5], dtype=float, requires_grad=True)
    with first:
        first.record_func(fail, [x])
        for _ in range(40):
            wp.launch(cube_in_place, 1, inputs=[x])
    x.grad.fill_(3.0)
    with pytest.raises(RuntimeError):
        first.backward(grads={x: [1.0]})
    assert x.grad.numpy().tolist() == [3.0]
    tape.backward(loss)
    assert np.isfinite(start.grad.numpy()).all()


@pytest.mark.parametrize("mode", ["warn", "ignore"])
def test_modes_that_use_what_is_in_memory_compute_nothing_again(mode: str) -> None:
    def run(**options: Any) -> tuple[Any, bytes]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tape, start, loss = pendulums(30, 40, on_overwrite=mode, **options)
            tape.backward(loss)
        return tape, start.grad.numpy().tobytes()

    whole, expected = run()
    tape, found = run(memory_budget=2000)
    assert found == expected
    assert tape.backward_calls[-1].reran == 0
    assert kept(tape) <= max(2000, whole.livein_bytes)


def test_replays_checks_and_traces_are_as_without() -> None:
    tape, start, loss = pendulums(30, 40)
    less, other, end = pendulums(30, 40, memory_budget=2500)
    tape.backward(loss)
    less.backward(end)
    assert less.backward_calls[-1].reran
    assert less.replay().values(end).tobytes() == tape.replay().values(loss).tobytes()
    seeds = [
        t.replay().backward({s: [1.0]}).gradient(a).tobytes()
        for t, s, a in ((tape, loss, start), (less, end, other))
    ]
    assert seeds[0] == seeds[1]
    statuses = [[v.status for v in t.versions()] for t in (tape, less)]
    assert statuses[0] == statuses[1] and "preserved" in statuses[0]
    assert wp.diagnose(less).verdict == wp.diagnose(tape).verdict == "AGREE"


def test_reset_begins_anew() -> None:
    tape, *_ = pendulums(30, 40, memory_budget=2500)
    assert tape.preserved_bytes
    tape.reset()
    assert kept(tape) == 0
    x = wp.array([0.5], dtype=float, requires_grad=True)
    with tape:
        wp.launch(cube_in_place, 1, inputs=[x])
    tape.backward(grads={x: [1.0]})
    assert x.grad.numpy().tolist() == [0.75]
    assert tape.memory_budget == 2500


def test_a_budget_that_is_too_small_says_what_would_do_once() -> None:
    tape, _, loss = pendulums(1000, 50, memory_budget="10 kB")
    with pytest.warns(wp.TapedebugWarning) as caught:
        tape.backward(loss)
    (warning,) = caught
    assert warning.filename == __file__
    text = str(warning.message)
    assert text.startswith("backward: memory_budget=10000 is too small for this tape: it took ")
    assert text.endswith(" would do")
    enough = int(text.rpartition("about ")[2].split()[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tape.backward(loss)
        again, _, end = pendulums(1000, 50, memory_budget=enough)
        again.backward(end)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        (1, 1),
        (1e6, 1_000_000),
        ("500", 500),
        ("1 GB", 10**9),
        ("1.5MiB", 3 << 19),
        ("2 kb", 2000),
        (" .5 TB ", 5 * 10**11),
    ],
)
def test_amounts(given: Any, expected: int | None) -> None:
    assert wp.Tape(memory_budget=given).memory_budget == expected


@pytest.mark.parametrize(
    "given", [0, -1, True, "", "GB", "1 XB", "-1 GB", float("nan"), float("inf"), [1], "0.1"]
)
def test_wrong_amounts(given: Any) -> None:
    with pytest.raises(wp.TapeError) as caught:
        wp.Tape(memory_budget=given)
    assert str(caught.value) == (
        "Tape: memory_budget is a positive number of bytes or text such as '500 MB'; "
        f"got {given!r}\n  = hint: use one of these, or leave it out"
    )
