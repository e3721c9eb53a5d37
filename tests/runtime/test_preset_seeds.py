"""Seeds in gradients: when they count, when they do not, and whose memory they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapedebug as wp

N = 3


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def triple(y: wp.array(dtype=float), z: wp.array(dtype=float)):
    i = wp.tid()
    z[i] = 3.0 * y[i]


@wp.kernel
def add_up(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, y[wp.tid()])


@wp.kernel
def advance(x: wp.array(dtype=float), u: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] * 2.0 + u[i]


@wp.kernel
def in_time(x: wp.array2d(dtype=float), t: int):
    i = wp.tid()
    x[t + 1, i] = 2.0 * x[t, i]


def zeros(n: int = N) -> Any:
    return wp.zeros(n, dtype=float, requires_grad=True)


def inputs() -> Any:
    return wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)


def squares() -> tuple[wp.Tape, Any, Any]:
    x, y = inputs(), zeros()
    with wp.Tape() as tape:
        wp.launch(square, dim=N, inputs=[x], outputs=[y])
    return tape, x, y


def sums() -> tuple[wp.Tape, Any, Any, Any]:
    x, y, loss = inputs(), zeros(), zeros(1)
    with wp.Tape() as tape:
        wp.launch(square, dim=N, inputs=[x], outputs=[y])
        wp.launch(add_up, dim=N, inputs=[y], outputs=[loss])
    return tape, x, y, loss


def seeds(tape: wp.Tape) -> list[tuple[Any, list[float]]]:
    return [(a, seed.ravel().tolist()) for a, seed in tape.seeds.items()]


def test_a_tape_remembers_the_seeds_of_its_last_pass() -> None:
    tape, _, y = squares()
    assert tape.seeds == {}
    y.grad.assign([1.0, 0.0, 2.0])
    assert seeds(tape) == [(y, [1.0, 0.0, 2.0])], "what the first pass would begin from"
    tape.backward()
    assert seeds(tape) == [(y, [1.0, 0.0, 2.0])] and not y.grad.numpy().any()
    assert [call.preset for call in tape.backward_calls] == [[y]]
    y.grad.fill_(5.0)
    assert seeds(tape) == [(y, [1.0, 0.0, 2.0])], "that of the pass that ran"
    tape.backward()
    assert seeds(tape) == [(y, [5.0, 5.0, 5.0])]
    tape.zero()
    assert seeds(tape) == [(y, [5.0, 5.0, 5.0])]
    tape.backward()
    assert tape.seeds == {}
    tape.reset()
    assert tape.seeds == {}


def test_beside_a_loss_and_grads() -> None:
    tape, x, y, loss = sums()
    y.grad.fill_(2.0)
    tape.backward(loss)
    assert dict(seeds(tape)) == {y: [2.0] * N, loss: [1.0]}
    np.testing.assert_allclose(x.grad.numpy(), 3 * 2 * x.numpy())
    assert tape.backward_calls[-1].objective is None
    tape.zero()
    y.grad.fill_(2.0)
    tape.backward(grads={y: np.ones(N)})
    assert seeds(tape) == [(y, [1.0] * N)], "what is given replaces what is there"
    tape.zero()
    loss.grad.fill_(1.0)
    tape.backward()
    assert tape.backward_calls[-1].objective is loss and tape.backward_calls[-1].loss is None


def test_gradients_of_inputs_are_no_seeds() -> None:
    tape, x, y = squares()
    x.grad.fill_(7.0)
    y.grad.fill_(1.0)
    tape.backward()
    assert seeds(tape) == [(y, [1.0] * N)]
    np.testing.assert_allclose(x.grad.numpy(), 7 + 2 * x.numpy())


def test_what_a_pass_leaves_in_a_state_that_is_overwritten_is_no_seed() -> None:
    x, u = inputs(), inputs()
    with wp.Tape() as tape:
        wp.launch(advance, dim=N, inputs=[x, u])
    x.grad.fill_(1.0)
    for number in (1, 2, 3):
        tape.backward()
        assert seeds(tape) == ([(x, [1.0] * N)] if number == 1 else []), number
        assert x.grad.numpy().tolist() == [2.0] * N, "looking at it changes nothing"
    assert u.grad.numpy().tolist() == [1.0] * N
    x.grad.fill_(2.0)
    tape.backward()
    assert seeds(tape) == [(x, [2.0] * N)], "the same numbers, written again"
    assert u.grad.numpy().tolist() == [3.0] * N


def test_the_same_seed_once_more_through_numpy() -> None:
    """A kernel adds to the loss, so that its gradient still is 1 after a pass."""
    tape, x, _, loss = sums()
    for number in (1, 2, 3):
        loss.grad.numpy()[0] = 1.0
        tape.backward()
        np.testing.assert_allclose(x.grad.numpy(), number * 2 * x.numpy())
        assert seeds(tape) == [(loss, [1.0])]
    window = loss.grad.numpy()
    for factor in (2.0, 3.0):
        x.grad.zero_()
        window[0] = factor
        tape.backward(grads={})
        np.testing.assert_allclose(x.grad.numpy(), factor * 2 * x.numpy())


def test_the_seed_of_an_earlier_loss_is_none_of_the_next() -> None:
    x, one, two = inputs(), zeros(1), zeros(1)
    with wp.Tape() as tape:
        wp.launch(add_up, dim=N, inputs=[x], outputs=[one])
        wp.launch(add_up, dim=N, inputs=[x], outputs=[two])
    one.grad.fill_(1.0)
    tape.backward()
    two.grad.fill_(1.0)
    tape.backward()
    assert seeds(tape) == [(two, [1.0])] and x.grad.numpy().tolist() == [2.0] * N
    assert [call.objective for call in tape.backward_calls] == [one, two]


def test_what_another_tape_left_counts_and_is_known_as_such() -> None:
    tape, x, y, loss = sums()
    tape.backward(loss)
    with wp.Tape() as again:
        wp.launch(square, dim=N, inputs=[x], outputs=[y])
        wp.launch(add_up, dim=N, inputs=[y], outputs=[loss])
    assert again.seeds == {}
    y.grad.fill_(1.0)
    again.backward()
    assert dict(seeds(again)) == {y: [1.0] * N, loss: [1.0]}
    assert list(again.backward_calls[-1].stale) == [loss]


def test_the_pass_of_another_tape_gives_a_seed() -> None:
    x, y, z = inputs(), zeros(), zeros()
    with wp.Tape() as first:
        wp.launch(square, dim=N, inputs=[x], outputs=[y])
    with wp.Tape() as second:
        wp.launch(triple, dim=N, inputs=[y], outputs=[z])
    z.grad.fill_(1.0)
    second.backward()
    first.backward()
    assert seeds(first) == [(y, [3.0] * N)] and not first.backward_calls[-1].stale
    np.testing.assert_allclose(x.grad.numpy(), 6 * x.numpy())


@pytest.mark.parametrize("given", [False, True])
def test_arrays_that_share_elements_have_one_seed_for_each(given: bool) -> None:
    x, y = inputs(), zeros(4)
    with wp.Tape() as tape:
        wp.launch(square, dim=N, inputs=[x], outputs=[y[:3]])
        wp.launch(square, dim=N, inputs=[x], outputs=[y[1:]])
        wp.launch(square, dim=2, inputs=[x], outputs=[y[2:]])
    part = next(a for a in tape.tracker.states if a.shape == (2,))
    y.grad.assign([1.0, 2.0, 3.0, 4.0])
    tape.backward(grads={part: np.array([30.0, 40.0])} if given else None)
    whole = np.zeros(4)
    for a, seed in tape.seeds.items():
        start = (a.ptr - y.ptr) // 4
        assert not (whole[start : start + a.size] * seed).any(), "an element has two seeds"
        whole[start : start + a.size] += seed
    expected = [1.0, 2.0, 30.0, 40.0] if given else [1.0, 2.0, 3.0, 4.0]
    assert whole.tolist() == expected
    shadow = tape.replay().backward(tape.seeds)
    np.testing.assert_allclose(shadow.gradient(x), x.grad.numpy())
    assert wp.diagnose(tape, progress=False).verdict == "AGREE"


def test_a_slice_a_strided_view_and_a_row() -> None:
    x, y = inputs(), zeros(2 * N)
    with wp.Tape() as tape:
        wp.launch(square, dim=N, inputs=[x], outputs=[y[::2]])
    y.grad.fill_(1.0)
    tape.backward()
    ((a, seed),) = seeds(tape)
    assert a.shape == (N,) and seed == [1.0] * N
    states = wp.zeros((3, N), dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        for t in range(2):
            wp.launch(in_time, dim=N, inputs=[states, t])
    states[2].grad.fill_(1.0)
    tape.backward()
    assert states.grad.numpy()[0].tolist() == [4.0] * N
    assert seeds(tape) == [(states, [0.0] * 6 + [1.0] * 3)]
    assert wp.diagnose(tape, progress=False).verdict == "AGREE"


@wp.struct
class Body:
    q: wp.array(dtype=wp.vec2)


@wp.kernel
def move(x: wp.array(dtype=float), body: Body):
    i = wp.tid()
    body.q[i] = wp.vec2(x[i], x[i] * x[i])


def test_a_member_of_a_struct() -> None:
    x, body = inputs(), Body()
    body.q = wp.zeros(N, dtype=wp.vec2, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(move, dim=N, inputs=[x, body])
    body.q.grad.fill_(1.0)
    tape.backward()
    np.testing.assert_allclose(x.grad.numpy(), 1 + 2 * x.numpy())
    assert [seed for _, seed in seeds(tape)] == [[1.0] * 2 * N]
    assert wp.diagnose(tape, progress=False).verdict == "AGREE"


def test_a_retained_gradient_is_no_seed_of_the_next_pass() -> None:
    x, y, z = inputs(), zeros(), zeros()
    y.retain_grad = True
    with wp.Tape() as tape:
        wp.launch(square, dim=N, inputs=[x], outputs=[y])
        wp.launch(triple, dim=N, inputs=[y], outputs=[z])
    for number in (1, 2):
        z.grad.fill_(1.0)
        tape.backward()
        assert seeds(tape) == [(z, [1.0] * N)]
        np.testing.assert_allclose(x.grad.numpy(), number * 6 * x.numpy())


def test_a_pass_that_fails_forgets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tape, _, y = squares()
    y.grad.fill_(1.0)
    tape.backward()
    y.grad.fill_(4.0)
    prepared: Any = tape._prepared

    def fail(tracker: Any) -> None:
        raise RuntimeError("no")

    with monkeypatch.context() as patched, pytest.raises(RuntimeError):
        patched.setattr(prepared, "run", fail)
        tape.backward()
    assert seeds(tape) == [(y, [1.0] * N)]


def test_a_moment_has_the_adjoints_of_such_a_pass() -> None:
    x, y, z = inputs(), zeros(), zeros()
    with wp.Tape() as tape:
        wp.launch(square, dim=N, inputs=[x], outputs=[y])
        wp.launch(triple, dim=N, inputs=[y], outputs=[z])
    z.grad.fill_(2.0)
    with tape.at(1, "before", backward=True):
        assert y.grad.numpy().tolist() == [6.0] * N
    tape.backward()
    with tape.at(1, "before", backward=True):
        assert y.grad.numpy().tolist() == [6.0] * N
    assert not y.grad.numpy().any()


# Memory of other libraries ---------------------------------------------------------------------------------


def test_a_tensor_that_was_given_as_a_gradient_is_not_changed() -> None:
    torch: Any = pytest.importorskip("torch")
    tape, x, y = squares()
    seed = torch.tensor([1.0, -2.0, 3.0])
    y.grad = wp.from_torch(seed)
    for number in (1, 2):
        tape.backward()
        assert seed.tolist() == [1.0, -2.0, 3.0]
        np.testing.assert_allclose(x.grad.numpy(), number * 2 * x.numpy() * seed.numpy())
    seed.mul_(2.0)
    tape.backward()
    assert seeds(tape) == [(y, [2.0, -4.0, 6.0])] and seed.tolist() == [2.0, -4.0, 6.0]
    tape.backward(grads={y: torch.ones(N)})
    assert seed.tolist() == [2.0, -4.0, 6.0]
    y2: Any = wp.from_torch(torch.zeros(N), grad=torch.ones(N))
    with wp.Tape() as tape:
        wp.launch(square, dim=N, inputs=[x], outputs=[y2])
    tape.backward()
    assert y2.grad.numpy().tolist() == [1.0] * N


@pytest.mark.parametrize("kind", ["torch", "numpy", "array"])
def test_seeds_that_are_passed_are_not_changed(kind: str) -> None:
    tape, _, y, _ = sums()
    seed: Any = np.array([1.0, -2.0, 3.0], np.float32)
    if kind == "torch":
        seed = pytest.importorskip("torch").from_numpy(seed)
    elif kind == "array":
        seed = wp.array(seed, dtype=float)
    tape.backward(grads={y: seed})
    assert np.asarray(seed.numpy() if kind != "numpy" else seed).tolist() == [1.0, -2.0, 3.0]


def test_a_numpy_array_that_was_given_as_a_gradient_is_not_changed() -> None:
    tape, x, _, loss = sums()
    mine = np.array([2.0], np.float32)
    loss.grad = wp.array(mine, dtype=float, copy=False)
    for number in (1, 2):
        tape.backward()
        assert mine.tolist() == [2.0]
        np.testing.assert_allclose(x.grad.numpy(), number * 4 * x.numpy())
    tape.backward(loss)
    assert mine.tolist() == [2.0]
    tape.zero()
    assert mine.tolist() == [0.0], "that is what zero is for"


def test_gradients_that_are_wanted_in_a_tensor_arrive_there() -> None:
    """Gradients of inputs, of states that are overwritten, and of arrays that retain theirs."""
    torch: Any = pytest.importorskip("torch")
    x, u, y = inputs(), inputs(), zeros()
    held = {name: torch.zeros(N) for name in "xuy"}
    x.grad, u.grad, y.grad = (wp.from_torch(held[name]) for name in "xuy")
    y.retain_grad = True
    loss = zeros(1)
    with wp.Tape() as tape:
        wp.launch(advance, dim=N, inputs=[x, u])
        wp.launch(square, dim=N, inputs=[x], outputs=[y])
        wp.launch(add_up, dim=N, inputs=[y], outputs=[loss])
    tape.backward(loss)
    now = 2 * x.numpy()
    np.testing.assert_allclose(held["u"], now)
    np.testing.assert_allclose(held["x"], 2 * now)
    assert held["y"].tolist() == [1.0] * N


def test_an_own_array_that_was_given_as_a_gradient_is_used_up_as_in_warp() -> None:
    tape, _, y = squares()
    mine = wp.ones(N, dtype=float)
    y.grad = mine
    tape.backward()
    assert y.grad is mine and mine.numpy().tolist() == [0.0] * N


def test_the_gradient_that_a_tensor_and_its_array_share_is_used_up() -> None:
    """It is the array's own, and torch adds to it: what a pass has used must not be there for the next."""
    torch: Any = pytest.importorskip("torch")
    t = torch.zeros(N, requires_grad=True)
    x, y = inputs(), wp.from_torch(t)
    with wp.Tape() as tape:
        wp.launch(square, dim=N, inputs=[x], outputs=[y])
    for number in (1, 2):
        t.grad += 1.0
        tape.backward()
        np.testing.assert_allclose(x.grad.numpy(), number * 2 * x.numpy())
    assert seeds(tape) == [(y, [1.0] * N)] and t.grad.tolist() == [0.0] * N
