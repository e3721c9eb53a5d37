"""Arithmetic on long vectors in blocks: the numbers of NumPy on whole arrays, in less memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import end_to_end
from tapedebug.autograd.finite_diff.dot_product_test import _Test, dot_test
from tapedebug.autograd.subjects import long_vectors
from tapedebug.autograd.subjects.long_vectors import BLOCK
from tapedebug.autograd.subjects.probes import entry_scales, random_direction, random_directions, typical_size
from tapedebug.autograd.subjects.whole_tape import WholeTape, whole_tape

SIZES = (0, 5, BLOCK, BLOCK + 1, 3 * BLOCK + 7)


@pytest.mark.parametrize("size", SIZES)
def test_blocks_give_what_whole_arrays_give(size: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, size))
    narrow = long_vectors.compact(a.astype(np.float32).astype(np.float64), np.float32)
    assert narrow.dtype == (np.float32 if size > BLOCK else np.float64)
    for x in (a, narrow):
        wide = x.astype(np.float64)
        np.testing.assert_allclose(long_vectors.dot(x, b), wide @ b, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(long_vectors.dot_of_sizes(x, b), wide @ np.abs(b), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(long_vectors.square_of_products(x, b), ((wide * b) ** 2).sum(), rtol=1e-12)
        np.testing.assert_allclose(long_vectors.distance(x, b), np.linalg.norm(wide - b), rtol=1e-12)
        np.testing.assert_allclose(long_vectors.norm(x), np.linalg.norm(wide), rtol=1e-12)
        assert long_vectors.largest_difference(x, b) == np.abs(wide - b).max(initial=0.0)
    most = np.full(size, 0.5)
    long_vectors.raise_to_difference(most, a, b)
    np.testing.assert_array_equal(most, np.maximum(0.5, np.abs(a - b)))


@pytest.mark.parametrize("size", SIZES)
def test_the_sum_of_squares_is_that_of_the_whole_array_to_the_bit(size: int) -> None:
    values = np.random.default_rng(1).normal(size=size) * np.geomspace(1e-3, 1e3, max(1, size))[:size]
    for x in (values, values.astype(np.float32)):
        whole = x.astype(np.float64) ** 2
        assert long_vectors.sum_of_squares(x) == whole.sum()
        assert typical_size(x) == (np.sqrt(whole.mean()) if size else 1.0)


def test_inputs_are_displaced_in_blocks_as_a_whole() -> None:
    """Their values, in float32, and their displacements are those of the whole arrays to the bit."""
    x = wp.array(np.random.default_rng(2).normal(size=2 * BLOCK + 5), dtype=float, requires_grad=True)
    loss = wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(total, x.size, [x, loss])
    program = whole_tape(tape, {loss: np.ones(1)}, None, None)
    (port,) = program.inputs
    values, direction = x.numpy().astype(np.float64), random_direction(x.size, 0, 1)
    np.testing.assert_array_equal(program.displaced(port, 0.3, direction), 0.3 * direction + values)
    np.testing.assert_array_equal(program.scaled(port, direction.copy()), direction * values)
    assert program.typical(port) == np.sqrt(np.mean(values**2))
    np.testing.assert_array_equal(program.scales(port), entry_scales(values))


def test_numbers_that_float32_does_not_hold_stay_in_float64() -> None:
    values = np.ones(BLOCK + 1)
    values[-1] = 0.1
    assert long_vectors.compact(values, np.float32) is values
    assert long_vectors.compact(np.ones(BLOCK + 1), np.float64).dtype == np.float64


def test_a_nan_is_no_agreement() -> None:
    values = np.zeros(BLOCK + 1)
    values[-1] = np.nan
    assert np.isnan(long_vectors.distance(values, np.zeros(BLOCK + 1)))
    assert np.isnan(long_vectors.largest_difference(values, np.zeros(BLOCK + 1)))


def test_directions_of_long_inputs_are_drawn_one_by_one() -> None:
    for number in range(3):
        np.testing.assert_array_equal(random_direction(40, number, 3), random_directions(40, 3)[number])
    one, two = (random_direction(BLOCK * 2 + 3, number, 3) for number in range(2))
    for row in (one, two):
        assert np.abs(row).min() >= 0.5 and np.abs(row).max() <= 1.5
        assert abs(np.sign(row).mean()) < 0.02
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.02


@wp.kernel
def swing(x: wp.array(dtype=float), v: wp.array(dtype=float)):
    i = wp.tid()
    v[i] = v[i] - wp.sin(x[i]) * 0.1
    x[i] = x[i] + v[i] * 0.1


@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, x[wp.tid()] * x[wp.tid()])


def pendulums(**options: Any) -> tuple[wp.Tape, Any, Any]:
    count = BLOCK + 5
    x0 = wp.array(np.linspace(-1.0, 2.0, count), dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape(**options) as tape:
        x, v = wp.clone(x0), wp.zeros(count, dtype=float, requires_grad=True)
        for _ in range(3):
            wp.launch(swing, count, inputs=[x, v])
        wp.launch(total, count, inputs=[x, loss])
    tape.backward(loss)
    return tape, x0, loss


def test_gradients_of_long_inputs() -> None:
    tape, _, loss = pendulums()
    found = end_to_end(tape, loss, directions=1, max_seconds=0.5)
    assert found.verdict == "AGREE" and found.rel_error < 1e-5
    assert all(check.consumed.dtype == np.float32 for check in found.inputs)
    assert found.dot_product is not None and found.dot_product.agrees


def test_the_dot_product_test_of_a_large_tape_holds_one_copy_at_a_time() -> None:
    program = whole_tape(pendulums()[0], None, None, None)
    test = _Test(program, None)
    found = test.in_turn()
    assert found is not None and test._there is None
    both, (seed,) = test.result(), test.w.values()
    np.testing.assert_allclose(found.forward * seed[0], both.forward, rtol=1e-12)
    np.testing.assert_allclose(found.reverse * seed[0], both.reverse, rtol=1e-12)
    wrong = whole_tape(pendulums(on_overwrite="ignore")[0], None, None, None)
    assert _Test(wrong, None).in_turn() is None
    located = dot_test(wrong)
    assert located is not None and "overwritten before the reverse pass" in located.message


@pytest.mark.parametrize("on_overwrite", ["preserve", "ignore"])
def test_the_gradient_of_the_dot_product_test_is_not_computed_again(
    on_overwrite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It started from the one seed of the objective, and read what the tape's own reverse pass reads."""
    tape, _, loss = pendulums(on_overwrite=on_overwrite)
    expected = [*whole_tape(tape, None, None, None).gradient(preserved=True).values()]
    program = whole_tape(tape, None, None, None)
    _Test(program, None).in_turn()
    pulls: list[bool] = []
    pull = WholeTape.pull

    def counted(self: WholeTape, *args: Any, **options: Any) -> Any:
        pulls.append(True)
        return pull(self, *args, **options)

    monkeypatch.setattr(WholeTape, "pull", counted)
    for _ in range(2):
        found = program.gradient(preserved=True)
        for values, wanted in zip(found.values(), expected, strict=True):
            np.testing.assert_array_equal(values, wanted)
    # The second one is computed; so is the first if the two products differed.
    assert len(pulls) == (1 if on_overwrite == "preserve" else 2)
    assert whole_tape(tape, {loss: np.zeros(1)}, None, None).single_seed is None


def test_replaced_inputs_of_replays() -> None:
    """Constant values are not copied; `reset` restores those that the tape found, also of written arrays."""
    tape, x0, _ = pendulums()
    (x,) = {a for record in tape.records if record.name == "total" for a in record.args[:1]}
    for double in (False, True):
        replay = tape.new_replay(float64=double)
        plain = replay.forward(0).values(x)
        new = np.full(x0.shape, 0.25)
        new.flags.writeable = False
        replay.reset().set(x0, new)
        assert replay._inputs[x0] is None  # no launch writes it: memory keeps it
        assert not np.array_equal(replay.forward(0).values(x), plain)
        np.testing.assert_array_equal(replay.reset().values(x0), x0.numpy())
        np.testing.assert_array_equal(replay.forward(0).values(x), plain)
        own = np.full(x0.shape, 0.5)
        replay.reset().set(x0, own)
        own[:] = 9.0
        np.testing.assert_array_equal(replay.forward(0).reset().values(x0), x0.numpy())
        replay.set(x, np.full(x0.shape, 3.0))
        np.testing.assert_array_equal(replay.reset().forward(0).values(x), plain)
