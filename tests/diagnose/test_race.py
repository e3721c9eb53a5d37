"""Rule `race`: races that one set of inputs hides, exchanges that one thread wins, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._progress import OutOfTime
from tapedebug.diagnose.experiments.element_accesses import element_of, elements_of
from tapedebug.diagnose.experiments.thread_order import ThreadOrders
from tapedebug.diagnose.rules import race
from tapedebug.trace import Finding, Trace
from tests.autograd import kernels as k

RNG = np.random.default_rng(0)
DATA = {
    "dip": [5.0, 4, 3, 1, 2, 3, 4, 6],
    "random": RNG.uniform(1, 9, 64),
    "falling": np.arange(8.0, 0, -1),
    "rising": np.arange(1.0, 9),
    "many": RNG.uniform(1, 9, 5000),
}


# ------------------------------------------------------------------- kernels


@wp.kernel
def nearest(d: wp.array(dtype=float), best: wp.array(dtype=float)):
    v = d[wp.tid()] * d[wp.tid()]
    if best[0] > v:
        best[0] = v


@wp.kernel
def largest(d: wp.array(dtype=float), best: wp.array(dtype=float)):
    best[0] = wp.max(best[0], d[wp.tid()] * d[wp.tid()])


@wp.kernel
def nearest_64(d: wp.array(dtype=wp.float64), best: wp.array(dtype=wp.float64)):
    v = d[wp.tid()] * d[wp.tid()]
    if best[0] > v:
        best[0] = v


@wp.kernel
def longest(d: wp.array(dtype=wp.vec2), best: wp.array(dtype=wp.vec2)):
    v = d[wp.tid()]
    if wp.length_sq(v) > wp.length_sq(best[0]):
        best[0] = v


@wp.kernel
def which(d: wp.array(dtype=float), best: wp.array(dtype=float), who: wp.array(dtype=int)):
    i = wp.tid()
    if best[0] > d[i]:
        best[0] = d[i]
        who[0] = i


@wp.kernel
def rollout(u: wp.array(dtype=float), x: wp.array(dtype=float)):
    t = wp.tid()
    x[t + 1] = x[t] + 0.1 * u[t]


@wp.kernel
def rollout_2(u: wp.array(dtype=wp.vec2), x: wp.array(dtype=wp.vec2)):
    t = wp.tid()
    x[t + 1] = x[t] + 0.1 * u[t]


@wp.kernel
def two_sources(a: wp.array(dtype=float), b: wp.array(dtype=float), y: wp.array(dtype=float)):
    if wp.tid() == 0:
        y[0] = a[0]
    else:
        y[0] = b[0]


@wp.kernel
def equal_or_not(a: wp.array(dtype=float), b: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if a[i] == b[i]:
        y[0] = 2.0 * a[0]
    else:
        y[0] = float(2 + i) * a[0]


@wp.kernel
def left_of_old(u: wp.array(dtype=float), x: wp.array(dtype=float), y: wp.array(dtype=float)):
    """The elements of x end the same in every order; what was read from them does not."""
    i = wp.tid()
    y[i] = x[(i + 1) % 4] * u[i]
    x[i] = 7.0


@wp.kernel
def last_wins(u: wp.array(dtype=float), y: wp.array(dtype=float)):
    wp.atomic_exch(y, 0, u[wp.tid()] * u[wp.tid()])  # exch


@wp.kernel
def first_wins(u: wp.array(dtype=float), owner: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    if wp.atomic_cas(owner, 0, -1, i) == -1:
        y[0] = u[i] * u[i]


@wp.kernel
def first_value(u: wp.array(dtype=float), y: wp.array(dtype=float)):
    wp.atomic_cas(y, 0, 0.0, u[wp.tid()] * u[wp.tid()])


@wp.kernel
def handed_round(u: wp.array(dtype=float), slot: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.atomic_exch(slot, 0, u[i]) * float(i)


@wp.kernel
def added_and_exchanged(u: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if i == 1:
        wp.atomic_exch(y, 0, u[i])
    else:
        wp.atomic_add(y, 0, u[i])


# look-alikes


@wp.kernel
def same_constant(u: wp.array(dtype=float), y: wp.array(dtype=float), flag: wp.array(dtype=int)):
    i = wp.tid()
    y[i] = u[i] * u[i]
    if u[i] > 0.0:
        flag[0] = 1


@wp.kernel
def set_once(u: wp.array(dtype=float), y: wp.array(dtype=float), flag: wp.array(dtype=int)):
    i = wp.tid()
    y[i] = u[i] * u[i]
    if flag[0] == 0:
        flag[0] = 1


@wp.kernel
def level_set(u: wp.array(dtype=float), y: wp.array(dtype=float), flag: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = u[i] * u[i]
    flag[0] = wp.max(flag[0], 1.0)


@wp.kernel
def same_of_all(u: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[0] = u[0] * u[1]


@wp.kernel
def seen_by_nobody(u: wp.array(dtype=float), y: wp.array(dtype=float), last: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = u[i] * u[i]
    last[0] = u[i]


@wp.kernel
def summed(u: wp.array(dtype=float), y: wp.array(dtype=float)):
    wp.atomic_add(y, 0, u[wp.tid()] * u[wp.tid()])


@wp.kernel
def extremes(u: wp.array(dtype=float), y: wp.array(dtype=float)):
    wp.atomic_max(y, 0, u[wp.tid()] * u[wp.tid()])
    wp.atomic_min(y, 1, u[wp.tid()])


@wp.kernel
def own_exchange(u: wp.array(dtype=float), slot: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = u[i] + wp.atomic_exch(slot, i, u[i] * u[i])


@wp.kernel
def own_claim(u: wp.array(dtype=float), owner: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    if wp.atomic_cas(owner, i, 0, 1) == 0:
        y[i] = u[i] * u[i]


@wp.kernel
def raised_flag(u: wp.array(dtype=float), y: wp.array(dtype=float), flag: wp.array(dtype=int)):
    i = wp.tid()
    y[i] = u[i] * u[i]
    wp.atomic_exch(flag, 0, 1)


@wp.kernel
def claimed_flag(u: wp.array(dtype=float), y: wp.array(dtype=float), flag: wp.array(dtype=int)):
    i = wp.tid()
    y[i] = u[i] * u[i]
    wp.atomic_cas(flag, 0, 0, 1)


@wp.kernel
def summed_beside_a_flag(u: wp.array(dtype=float), y: wp.array(dtype=float)):
    """One array with a flag at its end, the sums in front."""
    i = wp.tid()
    wp.atomic_add(y, i % 2, u[i] * u[i])
    y[3] = 1.0


@wp.kernel
def one_of_them(u: wp.array(dtype=float), claim: wp.array(dtype=int), y: wp.array(dtype=float)):
    """The first thread computes for all: the result is the same, whichever thread that is."""
    if wp.atomic_cas(claim, 0, 0, 1) == 0:
        y[0] = u[0] * u[1]


@wp.kernel
def squares(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, y[wp.tid()] * y[wp.tid()])


@wp.kernel
def squares_64(y: wp.array(dtype=wp.float64), loss: wp.array(dtype=wp.float64)):
    wp.atomic_add(loss, 0, y[wp.tid()] * y[wp.tid()])


@wp.kernel
def squares_2(y: wp.array(dtype=wp.vec2), loss: wp.array(dtype=float)):
    v = y[wp.tid()] - wp.vec2(0.3, 0.1)
    wp.atomic_add(loss, 0, wp.dot(v, v))


@wp.kernel
def from_one(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    d = y[wp.tid()] - 1.0
    wp.atomic_add(loss, 0, d * d)


# -------------------------------------------------------------------- helpers


def floats(values: Any, dtype: Any = float) -> Any:
    return wp.array(np.asarray(values, float), dtype=dtype, requires_grad=True)


def ints(*values: int) -> Any:
    return wp.array(list(values), dtype=int)


def races(kernel: Any, dim: int, arrays: Sequence[Any], result: Any, total: Any = squares) -> list[Any]:
    """The findings `race` of a tape that launches a kernel and sums up `result`."""
    loss = wp.zeros(1, dtype=wp.float64 if total is squares_64 else float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=dim, inputs=list(arrays))
        wp.launch(total, dim=result.shape[0], inputs=[result], outputs=[loss])
    tape.backward(loss)
    diagnosis = wp.diagnose(tape, loss=loss, progress=False)
    assert not [note for note in diagnosis.coverage.notes if "error in tapedebug" in note]
    return [item for item in diagnosis.findings if item.rule == "race"]


def error_of(found: list[Any]) -> Any:
    errors = [item for item in found if item.severity == "error"]
    assert errors, found
    return errors[0]


# ---------------------------------------------------------------------- races


@pytest.mark.sweep
@pytest.mark.parametrize("name", list(DATA))
@pytest.mark.parametrize(("kernel", "start"), [(nearest, 1e6), (largest, 0.0), (which, 1e6)])
def test_a_running_extreme_is_a_race_whatever_the_data(kernel: Any, start: float, name: str) -> None:
    best, more = floats([start]), [ints(0)] if kernel is which else []
    race = error_of(races(kernel, len(DATA[name]), [floats(DATA[name]), best, *more], best))
    assert race.evidence["element"] == [0]
    assert "without an atomic" in race.message
    assert "the gradient by" in race.message
    assert race.evidence["gradient_change"] > 1e-3


@pytest.mark.parametrize("name", ["dip", "falling", "rising"])
def test_in_float64_too(name: str) -> None:
    best = floats([1e6], wp.float64)
    error_of(races(nearest_64, len(DATA[name]), [floats(DATA[name], wp.float64), best], best, squares_64))


@pytest.mark.parametrize("reversed_too", [False, True])
def test_of_vectors(reversed_too: bool) -> None:
    """The element is anywhere in memory, also through a reversed array."""
    d = np.stack([DATA["dip"], np.linspace(0, 1, 8)], axis=1)
    best = wp.zeros(3, dtype=wp.vec2, requires_grad=True)
    view = best[::-1] if reversed_too else best
    error_of(races(longest, 8, [floats(d, wp.vec2), view], view, squares_2))


def test_a_rollout_whose_inputs_are_zero() -> None:
    """Every order leaves the same values, but not the same gradient."""
    u, x = floats(np.zeros(5)), wp.zeros(6, dtype=float, requires_grad=True)
    (race,) = races(rollout, 5, [u, x], x[5:6], from_one)
    assert race.severity == "error"
    assert "Every order of threads leaves the same values there, but the gradient differs by" in race.message
    assert race.evidence["changed"] == 0
    assert race.fix.startswith("read from one array and write to another")


def test_a_rollout_of_vectors_whose_inputs_are_zero() -> None:
    u = floats(np.zeros((5, 2)), wp.vec2)
    x = wp.zeros(6, dtype=wp.vec2, requires_grad=True)
    error_of(races(rollout_2, 5, [u, x], x[5:6], squares_2))


def test_two_threads_write_values_that_happen_to_be_equal() -> None:
    y = wp.zeros(1, dtype=float, requires_grad=True)
    race = error_of(races(two_sources, 2, [floats([2.0]), floats([2.0]), y], y))
    assert race.evidence["changed"] == 0
    assert race.evidence["accesses"] == ["write", "write"]


def test_displaced_inputs_show_what_these_inputs_hide() -> None:
    """Both threads write the same where two inputs are equal, as they are here."""
    y = wp.zeros(1, dtype=float, requires_grad=True)
    race = error_of(races(equal_or_not, 2, [floats([2.0, 2.0]), floats([2.0, 2.0]), y], y))
    assert race.evidence["displaced"]
    assert "With these inputs the order of threads is not seen; with inputs displaced by 0.1 %, " in str(
        race.message
    )


def test_elements_that_end_the_same_and_were_read_in_between() -> None:
    x, y = wp.zeros(4, dtype=float), wp.zeros(4, dtype=float, requires_grad=True)
    x.fill_(3.0)
    race = error_of(races(left_of_old, 4, [floats([1, 2, 3, 4]), x, y], y))
    assert race.arrays == ["arrays[1]"]


# ------------------------------------------------------------------ exchanges


def _exchanges() -> dict[str, Callable[[], tuple[Any, list[Any], Any]]]:
    def u() -> Any:
        return floats([1, 2, 3, 4])

    def y(n: int = 1) -> Any:
        return wp.zeros(n, dtype=float, requires_grad=True)

    return {
        "last": lambda: (last_wins, [u(), own := y()], own),
        "first": lambda: (first_wins, [u(), ints(-1), own := y()], own),
        "first value": lambda: (first_value, [u(), own := y()], own),
        "handed round": lambda: (handed_round, [u(), y(), own := y(4)], own),
        "added and exchanged": lambda: (added_and_exchanged, [u(), own := y()], own),
    }


@pytest.mark.parametrize("name", list(_exchanges()))
@pytest.mark.parametrize("tracked", [False, True])
def test_an_exchange_that_the_last_or_the_first_thread_wins(name: str, tracked: bool) -> None:
    kernel, arrays, result = _exchanges()[name]()
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape(track="elements" if tracked else None) as tape:
        wp.launch(kernel, dim=4, inputs=arrays)
        wp.launch(squares, dim=result.shape[0], inputs=[result], outputs=[loss])
    tape.backward(loss)
    found = [item for item in wp.diagnose(tape, loss=loss, progress=False).findings if item.rule == "race"]
    race = error_of([item for item in found if "exchange" in item.evidence["accesses"]])
    assert ", where the order of threads decides: thread 0 " in race.message
    assert "exchanges it (test_race.py:" in race.message
    assert race.fix.startswith("give each thread its own element of ")
    assert "wp.atomic_add, wp.atomic_max or wp.atomic_min" in race.fix


# ----------------------------------------------------------------- look-alikes


@pytest.mark.parametrize(
    ("kernel", "extra"),
    [
        (same_constant, [0]),
        (set_once, [0]),
        (raised_flag, [0]),
        (claimed_flag, [0]),
        (level_set, [0.0]),
        (seen_by_nobody, [0.0]),
    ],
    ids=lambda value: getattr(value, "key", ""),
)
def test_flags_and_values_that_no_gradient_depends_on(kernel: Any, extra: list[Any]) -> None:
    flag = wp.array(extra, dtype=int if isinstance(extra[0], int) else float)
    for u in ([1.0, 2, 3, 4], [0.0, 0, 0, 0]):
        y = wp.zeros(4, dtype=float, requires_grad=True)
        assert {item.severity for item in races(kernel, 4, [floats(u), y, flag], y)} <= {"info"}


@pytest.mark.parametrize("kernel", [same_of_all, summed, extremes, summed_beside_a_flag])
def test_sums_extremes_and_one_value_by_all(kernel: Any) -> None:
    for u in (DATA["random"], np.zeros(64)):
        y = wp.array([0.0, 0.5, 0.0, 0.0], dtype=float, requires_grad=True)
        assert {item.severity for item in races(kernel, 64, [floats(u), y], y)} <= {"info"}


def test_exchanges_of_elements_of_ones_own_are_silent() -> None:
    for kernel, slot in ((own_exchange, floats([7, 8, 9, 10])), (own_claim, ints(0, 0, 0, 0))):
        y = wp.zeros(4, dtype=float, requires_grad=True)
        assert not races(kernel, 4, [floats([1, 2, 3, 4]), slot, y], y)


def test_who_comes_first_computes_the_same() -> None:
    y = wp.zeros(1, dtype=float, requires_grad=True)
    found = races(one_of_them, 4, [floats([1, 2]), ints(0), y], y)
    assert {item.severity for item in found} == {"info"}


# ------------------------------------------------------------------ what ends a measurement


def two_races() -> wp.Tape:
    """A tape of two kernels with races."""
    d = wp.array([3.0, 2.0, 1.0, 4.0], dtype=float, requires_grad=True)
    best, other, loss = (wp.full(1, 9.0, dtype=float, requires_grad=True) for _ in range(3))
    with wp.Tape() as tape:
        wp.launch(nearest, 4, [d], [best])
        wp.launch(largest, 4, [d], [other])
        wp.copy(loss, best)
    tape.backward(loss)
    return tape


def ended_at_the_second(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """The measurement of the second race raises an error."""
    done: list[object] = []
    plain = race._measured

    def measured(*args: Any) -> Any:
        done.append(args)
        if len(done) == 2:
            raise error
        return plain(*args)

    monkeypatch.setattr(race, "_measured", measured)


def test_a_conflict_is_reported_although_its_effect_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    ended_at_the_second(monkeypatch, OutOfTime("time was up"))
    found = wp.diagnose(two_races())
    races = [finding for finding in found.findings if finding.rule == "race"]
    assert sorted(finding.evidence["measured"] for finding in races) == [False, True]
    assert "was not measured." in next(f.message for f in races if not f.evidence["measured"])
    assert found.coverage.partial
    assert "race: time was up before the effect of 1 conflict was measured" in found.coverage.notes
    assert "race" in found.rules and "wrong-adjoint" in found.rules


def test_ctrl_c_keeps_the_conflicts(monkeypatch: pytest.MonkeyPatch) -> None:
    ended_at_the_second(monkeypatch, KeyboardInterrupt())
    seen: list[Trace] = []
    with pytest.raises(KeyboardInterrupt):
        wp.diagnose(two_races(), so_far=seen.append)
    races = [finding for finding in seen[-1].findings if finding.rule == "race"]
    assert sorted(finding.evidence["measured"] for finding in races) == [False, True]


@wp.kernel
def added(x: wp.array(dtype=float), total: wp.array(dtype=float), n: int):
    i = wp.tid()
    total[i % n] = total[i % n] + x[i]


def sums(threads: int) -> wp.Tape:
    """A tape whose threads lose additions to four sums if they run at the same time."""
    x = wp.array(np.linspace(1.0, 2.0, threads), dtype=float, requires_grad=True)
    total, loss = wp.zeros(4, dtype=float, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(added, threads, [x, total, 4])
        wp.launch(k.total, 4, [total, loss])
    tape.backward(loss)
    return tape


def orders_compared(monkeypatch: pytest.MonkeyPatch, tape: wp.Tape) -> tuple[Finding, int]:
    """The finding about the sums of a tape, and the number of orders in which its loss was computed."""
    plain, runs = ThreadOrders._slopes, list[Any]()

    def counted(orders: ThreadOrders, schedule: Any, displaced: bool) -> Any:
        runs.extend([] if schedule is None else [schedule])
        return plain(orders, schedule, displaced)

    monkeypatch.setattr(ThreadOrders, "_slopes", counted)
    (found,) = wp.diagnose(tape).by_rule("race")
    return found, len(runs)


def test_of_large_launches_orders_are_compared_until_one_proves_the_gradient_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, runs = orders_compared(monkeypatch, sums(64))
    assert (whole.severity, runs, whole.evidence["at_least"]) == ("error", 5, False)
    assert "at least" not in whole.message
    monkeypatch.setattr(race, "MANY_PIECES", 60)
    found, runs = orders_compared(monkeypatch, sums(64))
    assert (found.severity, runs, found.evidence["at_least"]) == ("error", 1, True)
    assert "the gradient by at least " in found.message
    assert 0.001 < found.evidence["gradient_change"] <= whole.evidence["gradient_change"]
    assert found.evidence["changed"] == whole.evidence["changed"], "values are compared in each order"


@pytest.mark.parametrize("strides", [(16, 4), (4, 16), (48, 12)])
def test_elements_are_found_by_the_offsets_of_their_scalars(strides: tuple[int, int]) -> None:
    shape = (4, 4) if strides == (4, 16) else (3, 4)
    a = SimpleNamespace(scalar_dtype=np.dtype("float32"), ndim=2, shape=shape, strides=strides)
    wanted = list(np.ndindex(shape))
    offsets = [int(np.dot(index, strides)) // 4 for index in wanted]
    assert elements_of(a, offsets).tolist() == [list(index) for index in wanted]
    assert [element_of(a, offset) for offset in offsets] == wanted
