"""Tapes that record what an earlier one recorded take over what was worked out for it, and nothing else."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.runtime.launch.call_list import CallList
from tapedebug.runtime.memory.array import make
from tapedebug.runtime.memory.buffer import Buffer
from tapedebug.runtime.reverse import backward_pass, backward_plan_cache
from tapedebug.runtime.reverse.backward_plan_cache import BackwardPlanCache
from tests.runtime.kernels import cube_in_place, scale, square, total
from tests.sweeps import cases

pytestmark = pytest.mark.unoptimized

N = 6


@wp.kernel
def unused(x: wp.array(dtype=float), y: wp.array(dtype=float), other: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 3.0 * x[i]


@wp.kernel(enable_backward=False)
def mute(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 3.0 * x[i]


@pytest.fixture(autouse=True)
def outlines(monkeypatch: pytest.MonkeyPatch) -> Iterator[BackwardPlanCache]:
    """No outline of another test."""
    found = BackwardPlanCache()
    monkeypatch.setattr(backward_pass, "outlines", found)
    yield found


class Fit:
    """A small program and its arrays; each step is a tape of its own."""

    def __init__(self, n: int = N) -> None:
        self.values = np.linspace(0.5, 1.5, n, dtype=np.float32)
        self.x = wp.array(self.values, requires_grad=True)
        self.y, self.z, self.other = (wp.zeros(n, requires_grad=True) for _ in range(3))
        self.loss = wp.zeros(1, requires_grad=True)
        self.n = n

    def record(self, rate: float = 2.0, **options: Any) -> wp.Tape:
        tape = wp.Tape(**options)
        self.loss.zero_()
        with tape:
            wp.launch(square, self.n, [self.x, self.y])
            wp.launch(scale, self.n, [self.y, self.z, rate])
            wp.launch(total, self.n, [self.z, self.loss])
        return tape

    def step(self, rate: float = 2.0, **options: Any) -> wp.Tape:
        """Record and run back; gradients are those of this step alone."""
        tape = self.record(rate, **options)
        tape.zero()
        tape.backward(self.loss)
        return tape

    def is_right(self, rate: float = 2.0) -> bool:
        return bool((self.x.grad.numpy() == np.float32(2 * rate) * self.values).all())


def is_shared(tape: wp.Tape, other: wp.Tape) -> bool:
    """True if two tapes call the same compiled calls."""
    return tape._prepared.calls is other._prepared.calls


# What is shared ---------------------------------------------------------------------------------------------


def test_the_third_tape_of_a_kind_takes_over_what_was_worked_out_for_the_second() -> None:
    fit = Fit()
    tapes = [fit.step() for _ in range(4)]
    assert fit.is_right()
    assert [is_shared(tape, tapes[1]) for tape in tapes] == [False, True, True, True]


def test_numbers_may_differ_from_step_to_step() -> None:
    fit, last = Fit(), None
    for rate in (2.0, 3.0, 5.0, -0.0, 0.1, 0.1, 2.0):
        tape = fit.step(rate)
        assert fit.is_right(rate)
        assert last is None or rate == 3.0 or is_shared(tape, last)
        last = tape


def test_many_threads_are_looked_at_again_where_numbers_differ() -> None:
    """Numbers may decide which machine code runs, and in which chunks."""
    fit = Fit(5000)
    for rate in (2.0, 3.0, 5.0, 7.0):
        fit.step(rate)
        assert fit.is_right(rate)


def test_tapes_take_turns() -> None:
    """Both alive, with other numbers: each pass has its own."""
    fit = Fit()
    tapes = [(rate, fit.step(rate)) for rate in (2.0, 3.0, 5.0)]
    for rate, tape in [*tapes, *tapes[::-1], *tapes]:
        tape.zero()
        tape.backward(fit.loss)
        assert fit.is_right(rate)
        times = [record.backward_elapsed for record in tape.records]
        assert all(t is not None and t > 0 for t in times)


def test_a_tape_that_is_kept_goes_on_with_what_was_worked_out_for_it() -> None:
    """Also while newer ones record and reverse the same, with other numbers."""
    fit = Fit()
    for rate in (2.0, 3.0):
        fit.step(rate)
    kept = fit.step(5.0)
    prepared = kept._prepared
    for rate in (5.0, 7.0):
        fit.step(rate)
        kept.zero()
        kept.backward(fit.loss)
        assert kept._prepared is prepared
        assert fit.is_right(5.0)


def test_a_lent_seed_takes_calls_away_from_other_tapes() -> None:
    """Calls that read the caller's memory belong to one tape: the other one works out its own."""
    fit = Fit()
    for _ in range(3):
        kept = fit.record()
        kept.zero()
        kept.backward(grads={fit.z: np.ones(N, np.float32)})
    other = fit.record()
    other.backward(grads={fit.z: np.ones(N, np.float32)})
    assert is_shared(kept, other)
    backward_pass.outlines.forget(kept._prepared.outline)
    kept._prepared.outline = None
    other.zero()
    other.backward(grads={fit.z: np.ones(N, np.float32)})
    assert not is_shared(kept, other)
    assert fit.is_right()


def test_a_tape_that_ran_late_shares_although_its_arrays_were_written_since() -> None:
    """A write after the last record changes no adjoint, where no needed value was overwritten."""
    fit = Fit()
    tapes = [fit.record(rate) for rate in (2.0, 2.0, 2.0, 2.0)]
    assert all(tape.outside for tape in tapes[:3])
    for tape in tapes:
        tape.zero()
        tape.backward(fit.loss)
        assert fit.is_right()
    assert is_shared(tapes[1], tapes[2])
    assert is_shared(tapes[1], tapes[3])


def test_the_same_tape_may_record_again() -> None:
    fit, tape = Fit(), wp.Tape()
    for rate in (2.0, 3.0, 5.0, 7.0):
        tape.reset()
        fit.loss.zero_()
        with tape:
            wp.launch(square, N, [fit.x, fit.y])
            wp.launch(scale, N, [fit.y, fit.z, rate])
            wp.launch(total, N, [fit.z, fit.loss])
        fit.x.grad.zero_()
        tape.backward(fit.loss)
        assert fit.is_right(rate)


def test_a_step_of_an_optimiser_between_two_tapes_is_followed() -> None:
    fit = Fit()
    for _ in range(5):
        fit.step()
        assert fit.is_right()
        fit.values -= 0.1 * fit.x.grad.numpy()
        fit.x.assign(fit.values)


def test_copies_are_those_of_the_tape() -> None:
    """Their arguments are not packed: two tapes with the same arrays may copy them otherwise."""
    fit, tapes = Fit(), []
    for into, other, slope in [(fit.y, fit.z, 30.0)] * 3 + [(fit.z, fit.y, 0.0)] * 4 + [(fit.y, fit.z, 30.0)]:
        fit.loss.zero_()
        with wp.Tape() as tape:
            wp.launch(square, N, [fit.x, fit.y])
            wp.launch(scale, N, [fit.x, fit.z, 3.0])
            wp.copy(into, other)
            wp.launch(scale, N, [fit.y, fit.other, 10.0])
            wp.launch(total, N, [fit.other, fit.loss])
        fit.x.grad.zero_()
        tape.backward(fit.loss)
        expected = np.full(N, slope, np.float32) if slope else 20 * fit.values
        assert (fit.x.grad.numpy() == expected).all()
        tapes.append(tape)
    assert is_shared(tapes[1], tapes[2])
    assert not is_shared(tapes[2], tapes[3])
    assert is_shared(tapes[3], tapes[6])


# What is not shared -----------------------------------------------------------------------------------------


def shorter(fit: Fit) -> None:
    fit.n = N - 1


def gradient_taken(fit: Fit) -> None:
    fit.y.grad = wp.zeros(N)


def retained(fit: Fit) -> None:
    fit.y.retain_grad = True


def without_gradient(fit: Fit) -> None:
    fit.y.requires_grad = False


def another_array(fit: Fit) -> None:
    fit.y = wp.zeros(N, requires_grad=True)


def strong_zero(fit: Fit) -> None:
    wp.config.strong_zero = True


def verified(fit: Fit) -> None:
    wp.config.verify_fp = True


CHANGES = [shorter, gradient_taken, retained, without_gradient, another_array, strong_zero, verified]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_has_changed_is_worked_out_anew(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("strong_zero", "verify_fp"):
        monkeypatch.setattr(wp.config, name, getattr(wp.config, name))
    fit = Fit()
    before = [fit.step() for _ in range(3)][-1]
    change(fit)
    tape = fit.step()
    assert not is_shared(tape, before)
    gradient = 4.0 * fit.values
    gradient[fit.n :] = 0
    if not fit.y.requires_grad:
        gradient[:] = 0
    assert (fit.x.grad.numpy() == gradient).all()
    if fit.y.retain_grad:
        assert (fit.y.grad.numpy() == 2).all()
    fit.step()
    assert (fit.x.grad.numpy() == gradient).all()


def test_a_gradient_that_is_switched_off_after_the_recording() -> None:
    fit = Fit()
    for _ in range(3):
        fit.step()
    tape = fit.record()
    fit.x.requires_grad = False
    tape.backward(fit.loss)
    fit.x.requires_grad = True
    assert tape.backward_calls[0].loss is fit.loss


def kept(fit: Fit) -> None:
    wp.launch(scale, N, [fit.z, fit.x, 1.0])


def in_place(fit: Fit) -> None:
    wp.launch(cube_in_place, N, [fit.z])


def not_recorded(fit: Fit) -> None:
    wp.launch(scale, N, [fit.z, fit.other, 1.0])
    wp.launch(scale, N, [fit.x, fit.other, 1.0], record_tape=False)


def idle(fit: Fit) -> None:
    wp.launch(unused, N, [fit.z, fit.other, fit.y])


CLOSE = [kept, in_place, not_recorded, idle]


@pytest.mark.parametrize("more", CLOSE, ids=lambda more: more.__name__)
def test_tapes_that_need_a_closer_look_share_nothing(more: Any, outlines: BackwardPlanCache) -> None:
    fit, found = Fit(), []
    for _ in range(4):
        fit.x.assign(np.linspace(0.5, 1.5, N, dtype=np.float32))
        with wp.Tape() as tape:
            wp.launch(square, N, [fit.x, fit.z])
            more(fit)
        for a in (fit.x, fit.z, fit.other):
            a.grad.zero_()
        tape.backward(grads={fit.z: np.ones(N, np.float32), fit.x: np.zeros(N, np.float32)})
        found.append(fit.x.grad.numpy().tolist())
    assert found[1:] == found[:-1]
    assert not outlines._known


def test_a_memory_budget_shares_nothing(outlines: BackwardPlanCache) -> None:
    fit = Fit()
    for _ in range(4):
        fit.step(memory_budget="1 MB")
        assert fit.is_right()
    assert not outlines._known


def test_a_kernel_without_an_adjoint_is_told_of_each_time() -> None:
    fit = Fit()
    for _ in range(4):
        with wp.Tape() as tape:
            wp.launch(mute, N, [fit.x, fit.y])
        with pytest.warns(UserWarning, match="passes no gradient on"):
            tape.backward(grads={fit.y: np.ones(N, np.float32)})


def test_two_gradients_of_one_memory_share_nothing(outlines: BackwardPlanCache) -> None:
    """Addresses do not say then which array is meant."""
    fit = Fit()
    own = Buffer.at(fit.y.ptr, fit.y.buffer.nbytes, fit.y, private=True)
    twin = make(own, own.address, wp.float32, (N,), (4,))
    twin.requires_grad = True
    for seen in (fit.y, fit.y, twin, twin, fit.y, twin):
        fit.loss.zero_()
        with wp.Tape() as tape:
            wp.launch(square, N, [fit.x, fit.y])
            wp.launch(scale, N, [twin, fit.z, 3.0])
            wp.launch(total, N, [seen, fit.loss])
        tape.zero()
        tape.backward(fit.loss)
        assert (fit.x.grad.numpy() == (2 * fit.values if seen is fit.y else 0)).all()
        assert (twin.grad.numpy() == (seen is twin)).all()
    assert not outlines._known


def test_seeds_that_are_lent_end_the_sharing() -> None:
    """A launch that reads a seed where the caller has it is another call than the usual."""
    n = 1 << 18
    x, y = (wp.ones(n, requires_grad=True) for _ in range(2))
    seeds = [wp.full(n, value, dtype=float) for value in (2.0, 3.0, 5.0)]
    copied = [np.full(n, value, np.float32) for value in (7.0, 11.0)]
    for seed in (*copied, *seeds, *copied, *copied, *seeds, *copied):
        with wp.Tape() as tape:
            wp.launch(square, n, [x, y])
        x.grad.zero_()
        tape.backward(grads={y: seed})
        value = float(seed[0] if isinstance(seed, np.ndarray) else seed.numpy()[0])
        assert (x.grad.numpy() == 2 * value).all()


def test_what_was_interrupted_is_worked_out_anew(
    outlines: BackwardPlanCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers were put in, or were not: nobody knows."""
    fit = Fit()
    for _ in range(3):
        fit.step(2.0)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    tape = fit.record(3.0)
    tape.zero()
    with monkeypatch.context() as patch:
        patch.setattr(CallList, "__setitem__", interrupted)
        (outline,) = outlines._known.values()
        outline._large = {0: outline.calls[0]}
        with pytest.raises(KeyboardInterrupt):
            tape.backward(fit.loss)
    for rate in (2.0, 3.0, 5.0):
        fit.step(rate)
        assert fit.is_right(rate)


def test_long_tapes_share_nothing(outlines: BackwardPlanCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backward_plan_cache, "LONGEST", 2)
    fit = Fit()
    for _ in range(4):
        fit.step()
    assert not outlines._known


# What an outline keeps --------------------------------------------------------------------------------------


def test_an_outline_keeps_no_array_alive_and_goes_with_the_first(outlines: BackwardPlanCache) -> None:
    fit = Fit()
    for _ in range(4):
        fit.step()
    assert len(outlines._known) == 1
    gone = [weakref.ref(each) for each in (fit.y, fit.y.buffer, fit.y.grad.buffer, fit.loss)]
    gc.disable()
    try:
        fit.y = None
        assert gone[0]() is None
        assert not outlines._known
        del fit
        assert [each() for each in gone] == [None] * 4
    finally:
        gc.enable()


def test_no_more_than_a_few_are_kept(outlines: BackwardPlanCache) -> None:
    fits = [Fit() for _ in range(40)]
    for fit in fits:
        for _ in range(3):
            fit.step()
            assert fit.is_right()
    assert 0 < len(outlines._known) <= 16


# Random programs --------------------------------------------------------------------------------------------


def walk(seed: int) -> list[list[float]]:
    """Gradients of a loop whose tapes are mostly, not always, alike."""
    rng = np.random.default_rng(seed)
    arrays = [wp.array(rng.uniform(0.5, 1.5, N).astype(np.float32), requires_grad=True) for _ in range(5)]
    loss, found = wp.zeros(1, requires_grad=True), []
    kinds = rng.integers(0, 5, 6)
    places = rng.integers(0, 5, (6, 2))
    for _ in range(10):
        rates, sizes, at = np.round(rng.uniform(0.5, 1.5, 6), 1), [N] * 6, places.copy()
        if rng.random() < 0.3:
            sizes[rng.integers(6)] = N - 1
        if rng.random() < 0.3:
            at[rng.integers(6)] = rng.integers(0, 5, 2)
        for a in arrays:
            a.assign(np.linspace(0.5, 1.5, N, dtype=np.float32))
        loss.zero_()
        with wp.Tape() as tape:
            for kind, (p, q), rate, size in zip(kinds, at, rates, sizes, strict=True):
                x, y = arrays[p], arrays[q]
                if kind == 0 or x is y:
                    wp.launch(total, size, [x, loss])
                elif kind == 1:
                    wp.copy(y, x)
                elif kind == 2:
                    wp.launch(square, size, [x, y])
                elif kind == 3 and rng.random() < 0.5:
                    y.fill_(float(rate))
                else:
                    wp.launch(scale, size, [x, y, float(rate)])
            wp.launch(total, N, [arrays[0], loss])
        if rng.random() < 0.1:
            arrays[rng.integers(5)].grad = wp.zeros(N)
        tape.zero()
        for _ in range(1 + int(rng.random() < 0.2)):
            tape.backward(loss)
        found.append([float(v) for a in arrays for v in a.grad.numpy()])
    return found


@pytest.mark.sweep
@pytest.mark.parametrize("block", range(cases(full=4, sample=2)))
def test_random_loops_have_the_gradients_of_tapes_that_share_nothing(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed = 0
    follow = backward_pass.Prepared._follow

    def counted(self: Any, *args: Any) -> Any:
        nonlocal followed
        followed += 1
        return follow(self, *args)

    monkeypatch.setattr(backward_pass.Prepared, "_follow", counted)
    seeds = range(50 * block, 50 * block + 50)
    shared = [walk(seed) for seed in seeds]
    assert followed > 20
    monkeypatch.setattr(backward_pass, "key_of", lambda tracker: None)
    assert shared == [walk(seed) for seed in seeds]
