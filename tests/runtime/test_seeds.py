"""The seeds of `Tape.backward`: remembered for checks, in memory that repeated passes use again."""

import numpy as np
import pytest

import tapedebug as wp


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@pytest.fixture
def recorded():
    x = wp.array(np.array([1.0, 2.0, 3.0]), dtype=float, requires_grad=True)
    y = wp.zeros_like(x)
    with wp.Tape() as tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
    return tape, x, y


def test_rows_of_a_jacobian_with_one_seed_array(recorded) -> None:
    tape, x, y = recorded
    seed = wp.zeros(3, dtype=float)
    rows = []
    for k in range(3):
        seed.assign(np.eye(3, dtype=np.float32)[k])
        tape.backward(grads={y: seed})
        rows.append(x.grad.numpy().tolist())
        tape.zero()
    assert rows == [[2, 0, 0], [0, 4, 0], [0, 0, 6]]


def test_only_the_last_call_keeps_its_seeds(recorded) -> None:
    tape, _, y = recorded
    for k in range(4):
        tape.backward(grads={y: np.full(3, float(k))})
    assert [{a is y: v.tolist() for a, v in call.seeds.items()} for call in tape.backward_calls] == [
        {},
        {},
        {},
        {True: [3, 3, 3]},
    ]


def test_seeds_that_were_read_do_not_change_afterwards(recorded) -> None:
    tape, _, y = recorded
    tape.backward(grads={y: np.full(3, 7.0)})
    seeds = tape.backward_calls[-1].seeds
    for k in range(3):
        tape.backward(grads={y: np.full(3, float(k))})
    assert seeds[y].tolist() == [7, 7, 7]


def test_a_gradient_may_be_its_own_seed(recorded) -> None:
    tape, x, y = recorded
    y.grad.assign(np.array([1, 10, 100], dtype=np.float32))
    tape.backward(grads={y: y.grad})
    assert x.grad.numpy().tolist() == [2, 40, 600]


def test_a_pass_that_fails_leaves_the_last_seeds(recorded) -> None:
    tape, _, y = recorded
    tape.backward(grads={y: np.full(3, 7.0)})
    tape.backward(grads={y: np.full(3, 8.0)})

    def fail() -> None:
        raise ValueError("mine")

    with tape:
        tape.record_func(fail, [y])
    with pytest.raises(ValueError, match="mine"):
        tape.backward(grads={y: np.full(3, 9.0)})
    assert tape.backward_calls[-1].seeds[y].tolist() == [8, 8, 8]


def test_whether_a_pass_begins_from_the_same_seeds_is_said_of_small_and_large_ones():
    for n in (1, 3, 2000, 50_000):
        x, y = wp.ones(n, requires_grad=True), wp.zeros(n, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(square, n, inputs=[x, y])
        seeds = [np.ones(n, np.float32) for _ in range(4)]
        seeds[2][-1 if n < 40_000 else 0] = 2.0
        for seed in seeds:
            tape.backward(grads={y: seed})
        found = [event.again for event in tape.tracker.log.events if event.kind == "backward"]
        assert found == [False, True, False, False]


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("size", [3, 5000], ids=["small", "large"])
@pytest.mark.parametrize("step", [1, 2], ids=["contiguous", "with gaps"])
def test_seeds_of_every_float_size_and_layout(kind: str, size: int, step: int) -> None:
    """Small seeds are copied by their address, where they have a plain type and their gradient no gaps."""
    if kind == "bfloat16":
        pytest.importorskip("ml_dtypes")
    dtype = getattr(wp, kind)

    @wp.kernel
    def double(x: wp.array(dtype=dtype), y: wp.array(dtype=dtype)):
        i = wp.tid()
        y[i] = x[i] + x[i]

    x = wp.zeros(size, dtype=dtype, requires_grad=True)
    whole = wp.zeros(size * step + 2, dtype=dtype, requires_grad=True)
    y = whole[2::step]
    with wp.Tape() as tape:
        wp.launch(double, size, inputs=[x, y])
    numbers = np.float32(np.arange(size) % 100)
    given = wp.array(numbers, dtype=dtype)
    for seed in (given, numbers, given):
        tape.backward(grads={y: seed})
        assert (np.float64(x.grad.numpy()) == 2.0 * numbers).all()
        assert not np.float64(whole.grad.numpy()).any()
        tape.zero()
    given.zero_()  # a seed is a copy
    ((_, kept),) = tape.backward_calls[-1].seeds.items()
    assert (np.float64(kept) == numbers).all()
