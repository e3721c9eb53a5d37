"""Forward replays that repeat only what other inputs can change, and restore only what is read."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.runtime.launch.call_list import CallList
from tapedebug.runtime.replay import dependent_records
from tapedebug.runtime.replay.dependent_records import first_overwrites
from tapedebug.runtime.replay.shadow import Shadow
from tapedebug.runtime.replay.shadow_memory import ShadowBuffer
from tests.runtime.kernels import cube_in_place, first_half, move, scale, square, total
from tests.sweeps import cases

N = 6


@wp.kernel
def add(x: wp.array(dtype=float), y: wp.array(dtype=float), z: wp.array(dtype=float)):
    i = wp.tid()
    z[i] = x[i] + y[i]


@pytest.fixture(autouse=True)
def _small_launches(monkeypatch):
    monkeypatch.setattr(dependent_records, "LEAST_THREADS", 1)


@pytest.fixture
def ran(monkeypatch):
    """The ranges of records that run."""
    found = []
    run = CallList.run

    def noted(self, first=0, last=None, **options):
        found.append((first, last))
        run(self, first, last, **options)

    monkeypatch.setattr(CallList, "run", noted)
    return found


def arrays(count, seed=0):
    rng = np.random.default_rng(seed)
    return [wp.array(rng.uniform(0.5, 1.0, N), dtype=float, requires_grad=True) for _ in range(count)]


def two_branches():
    x, y, a, b, c, d, z = arrays(7)
    loss = wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, N, inputs=[x, a])  # 0
        wp.launch(square, N, inputs=[y, b])  # 1
        wp.launch(square, N, inputs=[a, c])  # 2
        wp.launch(square, N, inputs=[b, d])  # 3
        wp.launch(add, N, inputs=[c, d, z])  # 4
        wp.launch(total, N, inputs=[z, loss])  # 5
    return tape, x, y, loss


def forward_only(tape, dtype=None):
    shadow = Shadow(tape.tracker, dtype)
    shadow.forward_only = True
    return shadow


def moved(shadow, changes):
    """Run a replay with other inputs as the checks do."""
    if shadow._found.keys() <= changes.keys():
        shadow.forward(0, 0)
    else:
        shadow.reset()
    for a, values in changes.items():
        shadow.set(a, values)
    return shadow.forward(0)


def fresh(tape, changes, dtype=None):
    shadow = Shadow(tape.tracker, dtype)
    for a, values in changes.items():
        shadow.set(a, values)
    return shadow.forward(0)


def test_records_that_do_not_depend_on_the_input_do_not_run_again(ran):
    tape, x, y, loss = two_branches()
    shadow = forward_only(tape, wp.float64)
    plain = shadow.forward(0).values(loss).tolist()
    assert ran == [(0, 6)]
    ran.clear()
    values = np.linspace(1, 2, N)
    moved(shadow, {x: values})
    assert ran == [(0, 1), (2, 3), (4, 6)]
    assert shadow.values(loss).tolist() == fresh(tape, {x: values}, wp.float64).values(loss).tolist()
    ran.clear()
    moved(shadow, {y: values})  # x is as it was: what depends on it runs once more
    assert ran == [(0, 6)]
    assert shadow.values(loss).tolist() == fresh(tape, {y: values}, wp.float64).values(loss).tolist()
    ran.clear()
    moved(shadow, {y: 2 * values})
    assert ran == [(1, 2), (3, 6)]
    ran.clear()
    assert moved(shadow, {}).values(loss).tolist() == plain
    assert ran == [(1, 2), (3, 6)]


def test_a_second_run_on_the_values_of_the_tape_repeats_every_record(ran):
    tape, *_ = two_branches()
    shadow = forward_only(tape)
    for run in (lambda: shadow.forward(0), lambda: moved(shadow, {}), lambda: shadow.forward(0)):
        ran.clear()
        run()
        assert ran == [(0, 6)]


def test_a_replay_that_may_run_backward_repeats_every_record(ran):
    tape, x, _, loss = two_branches()
    shadow = Shadow(tape.tracker)
    shadow.forward(0)
    ran.clear()
    shadow.set(x, np.ones(N)) if shadow.position == 0 else shadow.reset().set(x, np.ones(N))
    shadow.forward(0).backward({loss: [1.0]})
    assert ran[0] == (0, 6)


def test_a_launch_that_reads_what_a_later_one_overwrote_has_its_writer_run_again(ran):
    x, y, a, b, c = arrays(5)
    loss = wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, N, inputs=[y, a])  # 0: `a` is overwritten by 2
        wp.launch(add, N, inputs=[a, x, b])  # 1
        wp.launch(scale, N, inputs=[y, a, 3.0])  # 2
        wp.launch(add, N, inputs=[a, b, c])  # 3
        wp.launch(move, N, inputs=[y, a])  # 4: nothing reads this
        wp.launch(total, N, inputs=[c, loss])  # 5
    shadow = forward_only(tape)
    shadow.forward(0)
    ran.clear()
    changes = {x: np.full(N, 2.0)}
    moved(shadow, changes)
    assert ran == [(0, 6)]
    assert shadow.values(loss).tolist() == fresh(tape, changes).values(loss).tolist()


def test_memory_that_is_overwritten_first_is_not_restored(monkeypatch):
    tape, x, _, loss = two_branches()
    assert sorted(first_overwrites(tape.records).values()) == [0, 1, 2, 3, 4]
    shadow = forward_only(tape)
    shadow.forward(0)
    restored = []
    restart = ShadowBuffer.restart
    monkeypatch.setattr(
        ShadowBuffer, "restart", lambda self: (restored.append(self.buffer), restart(self))[1]
    )
    moved(shadow, {x: np.ones(N)})
    assert restored == [loss.buffer]


def test_what_is_read_before_a_run_is_what_the_tape_found():
    tape, x, _, _ = two_branches()
    a = tape.records[0].args[1]
    before = Shadow(tape.tracker).values(a).tolist()
    shadow = forward_only(tape)
    after = shadow.forward(0).values(a).tolist()
    assert after != before
    assert shadow.forward(0, 0).values(a).tolist() == before
    shadow.set(x, np.ones(N))
    assert shadow.forward(0, 1).values(a).tolist() == [1.0] * N
    assert shadow.reset().values(a).tolist() == before


class Stop(Exception):
    """Ends a run."""


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize("is_complete", [True, False])
def test_an_interrupted_run_leaves_nothing_behind(at, is_complete):
    tape, x, y, loss = two_branches()
    shadow = forward_only(tape)
    shadow.forward(0) if is_complete else shadow.forward(0, 5).forward(5)
    calls = iter(range(100))

    def pulse():
        if next(calls) == at:
            raise Stop

    shadow.pulse = pulse
    shadow.reset().set(x, np.full(N, 3.0))
    if at == 0 or is_complete:  # else it runs in one piece
        with pytest.raises(Stop):
            shadow.forward(0)
    shadow.pulse = None
    for record in tape.records[shadow.position :]:  # they have not run
        for p in record.plan.written:
            a = record.args[p]
            assert shadow.values(a).tolist() == Shadow(tape.tracker).values(a).tolist()
    for changes in ({y: np.full(N, 2.0)}, {}):
        moved(shadow, changes)
        assert shadow.values(loss).tolist() == fresh(tape, changes).values(loss).tolist()


def test_values_that_were_set_after_a_run_are_not_taken_for_those_of_the_run():
    tape, x, _, loss = two_branches()
    found = []
    for shadow in (forward_only(tape), Shadow(tape.tracker)):
        shadow.forward(0).set(x, np.full(N, 3.0))
        found.append(shadow.reset(discard=True).forward(0).values(loss).tolist())
    assert found[0] == found[1]


def random_tape(rng):
    """Return a tape of random launches, copies, fills and writes outside it, and its arrays."""
    pool = arrays(int(rng.integers(3, 9)), int(rng.integers(1 << 30)))
    loss = wp.zeros(N, requires_grad=True)

    def some():
        return pool[rng.integers(len(pool))]

    with wp.Tape() as tape:
        for _ in range(int(rng.integers(2, 14))):
            kind = rng.integers(9)
            if kind == 0:
                wp.launch(cube_in_place, N, inputs=[some()])
            elif kind == 1:
                wp.launch(first_half, N, inputs=[some()])
            elif kind == 2:
                some()[1:4].fill_(0.75)
            elif kind == 3:
                wp.copy(some(), some())
            elif kind == 4:
                wp.launch(total, N, inputs=[some(), loss])
            elif kind == 5 and rng.random() < 0.5:
                some().numpy()[2:] = rng.uniform(0.5, 1.0, N - 2)  # no record
            elif kind == 6:
                wp.launch(scale, N - 1, inputs=[some(), some(), 1.25])
            elif kind == 7:
                wp.launch(add, N, inputs=[some(), some(), some()])
            else:
                wp.launch(square, N, inputs=[some(), some()])
    return tape, [a for a in (*pool, loss) if tape.tracker.states.get(a) is not None]


def seen(shadow, pool, skip):
    """Run a replay, and return the content of all arrays after each record."""
    found = []
    shadow.forward(
        0, on_operation=lambda _: found.extend(shadow.values(a).tobytes() for a in pool), skip=skip
    )
    return found


def same(shadow, other, pool):
    return all(shadow.values(a).tobytes() == other.values(a).tobytes() for a in pool)


@pytest.mark.parametrize("seed", range(cases(full=2000, sample=150)))
def test_runs_with_other_inputs_equal_those_of_a_new_replay(seed):
    rng = np.random.default_rng(seed)
    tape, pool = random_tape(rng)
    if not pool:
        return
    dtype = wp.float64 if rng.random() < 0.5 else None
    shadow = forward_only(tape, dtype)
    for _ in range(8):
        changes = {a: rng.uniform(0.5, 1.0, N) for a in pool if rng.random() < 0.3}
        how = rng.integers(6)
        if how == 0:  # something is read in between
            shadow.forward(0, 0)
            assert shadow.values(pool[0]).shape == (N,)
        elif how == 1:  # a run ends early
            stop = int(rng.integers(len(tape.records) + 1))
            shadow.reset()
            shadow.forward(0, stop)
            assert same(shadow, Shadow(tape.tracker, dtype).forward(0, stop), pool)
            shadow.forward(stop)
            assert same(shadow, fresh(tape, {}, dtype), pool)
        elif how == 2:  # tangents, which read values as well
            shadow.reset().push({pool[0]: np.ones(N)})
            assert same(shadow, fresh(tape, {}, dtype), pool)
        elif how == 3:  # each record is observed, and some do not run
            skip = [record.index for record in tape.records if rng.random() < 0.2]
            assert seen(shadow.reset(), pool, skip) == seen(Shadow(tape.tracker, dtype), pool, skip)
            other = Shadow(tape.tracker, dtype).forward(0, skip=skip)
            assert same(shadow.reset().forward(0, skip=skip), other, pool)
        moved(shadow, changes)
        assert same(shadow, fresh(tape, changes, dtype), pool)
