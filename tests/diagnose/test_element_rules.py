"""Rules `race`, `uninitialised-read` and `out-of-bounds`: what they say, and what is none of them."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._config import debugging

HERE = Path(__file__)
NAME = HERE.name
RULES = ("race", "uninitialised-read", "out-of-bounds")


def line_of(text: str) -> int:
    """The one line of this file that ends with `text`."""
    lines = HERE.read_text(encoding="utf-8").splitlines()
    (found,) = [number for number, line in enumerate(lines, start=1) if line.strip().endswith(text)]
    return found


@wp.kernel
def smooth(x: wp.array(dtype=float), n: int):
    i = wp.tid()
    if i + 1 < n:
        x[i] = 0.5 * x[i] + 0.25 * x[i + 1]  # smooth


@wp.kernel
def scatter(x: wp.array(dtype=float), to: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    y[to[i]] = x[i] * x[i]  # scatter


@wp.kernel
def accumulate(x: wp.array(dtype=float), to: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    y[to[i]] = y[to[i]] + x[i] * x[i]  # accumulate


@wp.kernel
def mixed(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if i == 2:
        y[0] = x[i]  # plain
    else:
        wp.atomic_add(y, 0, x[i])  # atomic


@wp.kernel
def flag(x: wp.array(dtype=float), found: wp.array(dtype=int), last: wp.array(dtype=int)):
    i = wp.tid()
    if x[i] > 0.0:
        found[0] = 1
        last[0] = i


@wp.kernel
def copy_to(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def ahead(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i + 1] * x[i]  # ahead


@wp.kernel
def put(x: wp.array(dtype=float), y: wp.array2d(dtype=float), column: int):
    i = wp.tid()
    y[i, column] = x[i]  # put


@wp.kernel
def interior(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    if i > 0 and i < n - 1:
        y[i] = x[i] * x[i]


@wp.kernel
def product(x: wp.array(dtype=float), y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * y[i])  # product


@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, x[wp.tid()] * x[wp.tid()])


@wp.kernel
def total2(x: wp.array2d(dtype=float), loss: wp.array(dtype=float)):
    i, j = wp.tid()
    wp.atomic_add(loss, 0, x[i, j] * x[i, j])


def floats(*values: float) -> Any:
    return wp.array(list(values), dtype=float, requires_grad=True)


def zeros(*shape: int) -> Any:
    return wp.zeros(shape, dtype=float, requires_grad=True)


def found(tape: Any, **options: Any) -> list[Any]:
    return [item for item in wp.diagnose(tape, **options).findings if item.rule in RULES]


@pytest.fixture(params=["elements", None], ids=["tracked", "plain"])
def tape(request: pytest.FixtureRequest) -> Any:
    return wp.Tape(track=request.param)


# ---------------------------------------------------------------------- race


def test_a_read_of_what_another_thread_writes(tape: Any) -> None:
    x, loss = floats(1, 2, 3, 4), zeros(1)
    with tape:
        wp.launch(smooth, 4, inputs=[x, 4])
        wp.launch(total, 4, inputs=[x, loss])
    tape.backward(loss)
    (race,) = found(tape)
    place = f"{NAME}:{line_of('# smooth')}"
    assert race.message == (
        "Threads 0 and 1 of launch 0 (smooth) race on x[1] without an atomic: "
        f"thread 0 reads it ({place}), thread 1 writes it ({place}). 2 elements are affected. "
        "With threads in another order, or at the same time, 2 of 4 numbers there differ, "
        "by up to 0.125, and the gradient by 8.1 %, the loss by 2.3 %."
    ), race.message
    assert (race.severity, race.arrays, race.launches) == ("error", ["x"], [0])
    assert race.location.line == line_of("# smooth")
    assert race.fix == (
        "read from one array and write to another in place of x, "
        "or write in a launch of its own what no other thread of it reads"
    )
    assert race.evidence["threads"] == [0, 1]
    assert race.evidence["accesses"] == ["read", "write"]


def test_two_writes(tape: Any) -> None:
    x, y, loss = floats(1, 2, 3), zeros(2), zeros(1)
    to = wp.array([0, 1, 0], dtype=int)
    with tape:
        wp.launch(scatter, 3, inputs=[x, to, y])
        wp.launch(total, 2, inputs=[y, loss])
    tape.backward(loss)
    (race,) = found(tape)
    assert (race.severity, race.arrays, race.evidence["element"]) == ("error", ["y"], [0])
    assert race.evidence["threads"] == [0, 2]
    assert race.evidence["lines"] == [line_of("# scatter")] * 2
    assert race.evidence["elements"] == 1
    assert race.fix.startswith("add with wp.atomic_add(y, …) if a sum is meant")


def test_a_lost_addition_shows_only_at_the_same_time(tape: Any) -> None:
    """Whatever the order, every thread adds: but all that read before any writes lose what others add."""
    x, y, loss = floats(1, 2, 4), zeros(1), zeros(1)
    to = wp.array([0, 0, 0], dtype=int)
    with tape:
        wp.launch(accumulate, 3, inputs=[x, to, y])
        wp.launch(total, 1, inputs=[y, loss])
    tape.backward(loss)
    (race,) = found(tape)
    assert race.severity == "error"
    assert race.evidence["max_change"] == 20.0  # of threads 1 and 2, which thread 0 wrote over
    assert race.evidence["loss_change"] == pytest.approx(1 - (1 / 21) ** 2)
    assert race.evidence["accesses"] == ["write", "write"]


def test_an_atomic_and_a_plain_write(tape: Any) -> None:
    x, y, loss = floats(1, 2, 3, 4), zeros(1), zeros(1)
    with tape:
        wp.launch(mixed, 4, inputs=[x, y])
        wp.launch(total, 1, inputs=[y, loss])
    tape.backward(loss)
    (race,) = found(tape)
    assert race.severity == "error"
    assert race.evidence["accesses"] == ["atomic", "write"]
    assert race.evidence["threads"] == [1, 2]
    assert race.location.line == line_of("# plain")


def test_the_same_value_by_many_is_harmless_and_so_is_what_the_loss_does_not_read(tape: Any) -> None:
    x, loss = floats(1, 2, 3), zeros(1)
    seen, last = wp.zeros(1, dtype=int), wp.zeros(1, dtype=int)
    with tape:
        wp.launch(flag, 3, inputs=[x, seen, last])
        wp.launch(total, 3, inputs=[x, loss])
    tape.backward(loss)
    one, two = sorted(found(tape), key=lambda item: item.arrays)
    assert (one.arrays, one.severity, two.arrays, two.severity) == (["last"], "info", ["seen"], "info")
    assert one.message.endswith("by up to 2; harmless: neither the loss nor its slopes depend on them.")
    assert two.message.endswith(
        "Harmless: measured, every order of threads leaves the same values and the same gradient."
    )
    assert not one.fix
    assert not two.fix


def test_without_a_loss_a_race_is_a_warning() -> None:
    x = floats(1, 2, 3, 4)
    with wp.Tape() as tape:
        wp.launch(smooth, 4, inputs=[x, 4])
    (race,) = found(tape)
    assert race.severity == "warning"
    assert race.message.endswith("what that does to a gradient was not measured.")


def test_without_a_loss_what_nothing_reads_is_harmless() -> None:
    x, seen, last = floats(1, 2, 3), wp.zeros(1, dtype=int), wp.zeros(1, dtype=int)
    with wp.Tape() as tape:
        wp.launch(flag, 3, inputs=[x, seen, last])
    severities = {item.arrays[0]: (item.severity, item.message) for item in found(tape)}
    assert severities["last"][0] == severities["seen"][0] == "info"
    assert severities["last"][1].endswith("harmless: nothing on the tape reads them.")


def test_a_time_loop_is_sampled_and_the_coverage_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    monkeypatch.setattr(
        importlib.import_module("tapedebug.diagnose.experiments.element_accesses"), "SAMPLED", (3, 5)
    )
    x, loss = floats(1, 2, 3, 4), zeros(1)
    with wp.Tape() as tape:
        for _ in range(20):
            wp.launch(smooth, 4, inputs=[x, 4])
        wp.launch(total, 4, inputs=[x, loss])
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    (race,) = [item for item in diagnosis.findings if item.rule == "race"]
    assert race.launches == [0, 5, 10, 14, 19]
    assert (
        "looked at element by element: 5 of 20 launches of smooth (from 0 to 19, evenly spread)"
        in diagnosis.coverage.notes
    )


def test_two_names_of_one_array_are_one_finding() -> None:
    x, loss = floats(1, 2, 3, 4, 5), zeros(1)
    with wp.Tape() as tape:
        wp.launch(ahead, 4, inputs=[x, x])
        wp.launch(total, 5, inputs=[x, loss])
    tape.backward(loss)
    (race,) = found(tape)
    assert race.arrays == ["x"]
    assert race.evidence["elements"] == 3


def test_neighbours_through_another_view_of_the_same_memory() -> None:
    x, loss = floats(1, 2, 3, 4, 5), zeros(1)
    with wp.Tape() as tape:
        wp.launch(copy_to, 4, inputs=[x[1:5], x[0:4]])
        wp.launch(total, 5, inputs=[x, loss])
    tape.backward(loss)
    (race,) = found(tape)
    assert race.severity == "error"
    with wp.Tape() as tape:
        wp.launch(copy_to, 2, inputs=[x[0:2], x[2:4]])
        wp.launch(copy_to, 2, inputs=[x[0:2], x[0:2]])
    assert not found(tape)


# -------------------------------------------------------- uninitialised-read


def test_a_read_of_what_nothing_wrote(tape: Any) -> None:
    x, y, loss = floats(1, 2, 3, 4), wp.empty(4, dtype=float, requires_grad=True), zeros(1)
    with tape:
        wp.launch(interior, 4, inputs=[x, y, 4])
        wp.launch(product, 4, inputs=[x, y, loss])
    tape.backward(loss)
    (unset,) = found(tape)
    assert unset.message.startswith(
        f"Thread 0 of launch 1 (product) reads y[0] ({NAME}:{line_of('# product')}), which was never "
        "written: y was created by empty(). 2 of its 4 elements are affected. With other numbers in its "
        "memory the gradient changes by "
    ), unset.message
    assert (unset.severity, unset.arrays, unset.launches) == ("error", ["y"], [1])
    assert unset.evidence["element"] == [0]
    assert unset.fix == "make y with zeros, or write every element before the first that is read"


def test_what_does_not_reach_the_loss_may_be_anything() -> None:
    x, y, loss = floats(1, 2, 3), wp.empty(3, dtype=float, requires_grad=True), zeros(1)
    spare = wp.zeros(3, dtype=float)
    with wp.Tape() as tape:
        wp.launch(copy_to, 3, inputs=[y, spare])
        wp.launch(total, 3, inputs=[x, loss])
    tape.backward(loss)
    (unset,) = found(tape)
    assert unset.severity == "info"
    assert unset.message.endswith(
        "Harmless: measured, neither the loss nor its gradient depends on what its memory holds."
    )


@pytest.mark.parametrize("how", ["launch", "fill", "copy", "assign", "numpy", "window", "before"])
def test_memory_that_somebody_wrote_is_not_uninitialised(how: str) -> None:
    x, y, loss = floats(1, 2, 3), wp.empty(3, dtype=float, requires_grad=True), zeros(1)
    window = y.numpy() if how == "window" else None
    if how == "before":
        wp.launch(copy_to, 3, inputs=[x, y])
    with wp.Tape() as tape:
        if how == "launch":
            wp.launch(copy_to, 3, inputs=[x, y])
        elif how == "fill":
            y.fill_(1.0)
        elif how == "copy":
            wp.copy(y, x)
        elif how == "assign":
            y.assign(np.ones(3))
        elif how == "numpy":
            y.numpy()[:] = 1.0
        elif window is not None:
            window[:] = 1.0
        wp.launch(product, 3, inputs=[x, y, loss])
    tape.backward(loss)
    assert not found(tape)


def test_zeros_are_not_uninitialised_and_an_atomic_reads() -> None:
    x = floats(1, 2, 3)
    for make, count in ((wp.zeros, 0), (wp.empty, 1), (wp.array, 1)):
        loss = make(shape=(1,), dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(total, 3, inputs=[x, loss])
        assert len(found(tape, loss=loss)) == count


def test_half_by_half_is_whole() -> None:
    x, y, loss = floats(1, 2, 3, 4), wp.empty(4, dtype=float, requires_grad=True), zeros(1)
    with wp.Tape() as tape:
        wp.launch(copy_to, 2, inputs=[x[0:2], y[2:4]])
        wp.launch(copy_to, 2, inputs=[x[2:4], y[0:2]])
        wp.launch(total, 4, inputs=[y, loss])
    tape.backward(loss)
    assert not found(tape)


# ------------------------------------------------------------- out-of-bounds


def test_beyond_the_end_of_the_memory() -> None:
    x, y, loss = floats(1, 2, 3), zeros(3), zeros(1)
    with wp.Tape() as tape:
        wp.launch(ahead, 3, inputs=[x, y])
        wp.launch(total, 2, inputs=[y[0:2], loss])
    tape.backward(loss)
    (outside,) = found(tape)
    assert outside.message == (
        f"Thread 2 of launch 0 (ahead) reads x[3] ({NAME}:{line_of('# ahead')}), and x has length 3. "
        "Memory 4 bytes past the end of the array's own was read: whatever is there."
    )
    assert (outside.severity, outside.arrays, outside.launches) == ("error", ["x"], [0])
    assert outside.location.line == line_of("# ahead")
    assert outside.fix == "test the index before x is used, make the array larger, or launch fewer threads"
    assert outside.evidence["inside_buffer"] is False


def test_in_the_next_row() -> None:
    x, y, loss = floats(1, 2), zeros(3, 4), zeros(1)
    with wp.Tape() as tape:
        wp.launch(put, 2, inputs=[x, y, 4])
        wp.launch(total2, (3, 4), inputs=[y, loss])
    tape.backward(loss)
    (outside,) = found(tape)
    assert outside.message == (
        f"Thread 0 of launch 0 (put) writes y[0, 4] ({NAME}:{line_of('# put')}), and axis 1 of y has "
        "length 4. So do 2 threads. Within the same memory y[1, 0] was written instead; "
        "without those threads the loss changes by 100 %."
    ), outside.message
    assert outside.severity == "error"
    assert outside.evidence["threads"] == 2


def test_within_the_memory_and_without_effect() -> None:
    """The last thread's number is not used."""
    x, y, loss = floats(1, 2, 3, 4), zeros(3), zeros(1)
    with wp.Tape() as tape:
        wp.launch(ahead, 3, inputs=[x[0:3], y])
        wp.launch(total, 2, inputs=[y[0:2], loss])
    tape.backward(loss)
    (outside,) = found(tape)
    assert outside.severity == "warning"
    assert outside.message.endswith("was read instead; the loss does not depend on that.")


def test_launches_that_were_checked_are_not_looked_at_again() -> None:
    x, y = floats(1, 2, 3, 4), zeros(3)
    wp.config.check_bounds = True
    try:
        with wp.Tape() as tape:
            wp.launch(ahead, 3, inputs=[x, y])
    finally:
        wp.config.check_bounds = None
    assert not found(tape)


def test_an_index_far_outside_is_told_and_nothing_of_others_is_written() -> None:
    """Replays happen in memory with nothing around it."""
    x, y = floats(1, 2), zeros(40, 4)
    loss = zeros(1)
    with wp.Tape() as tape:
        wp.launch(put, 2, inputs=[x, y[0:2], 100])
        wp.launch(total2, (40, 4), inputs=[y, loss])
    tape.backward(loss)
    (outside,) = found(tape)
    assert outside.evidence["element"] == [0, 100]
    assert outside.evidence["inside_buffer"] is True
    assert "Within the same memory y[25, 0] was written instead" in outside.message


@wp.kernel
def gathered(keys: wp.array(dtype=int), x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[keys[i]]  # gathered


@wp.kernel
def doubled(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * 2.0  # doubled


@pytest.mark.parametrize("unknown", [True, False])
def test_an_index_beyond_the_memory_of_replays_ends_in_a_finding(unknown: bool) -> None:
    """Unchecked replays of such a launch would end the process."""
    base, far = np.zeros(30_000_000, np.float32), 25_000_000
    x = wp.array(base[:3] if unknown else base[-3:], dtype=float, copy=False, requires_grad=True)
    y, loss = zeros(3), zeros(1)
    with wp.Tape() as tape:
        if unknown:
            wp.launch(gathered, 3, inputs=[wp.array([0, 1, far], dtype=int), x, y])
        else:
            wp.launch(doubled, 3, inputs=[x, y])
        wp.launch(total, 2, inputs=[y[0:2], loss])
    if not unknown:  # as if it had been launched so, and the process had survived
        record = tape.records[0]
        record.dim, record.threads = (far,), far
        record.packed = far.to_bytes(8, "little") + record.packed[8:]
    diagnosis = wp.diagnose(tape, loss)
    (outside,) = [finding for finding in diagnosis.findings if finding.rule == "out-of-bounds"]
    name = "gathered" if unknown else "doubled"
    assert outside.message.startswith(
        f"Thread {2 if unknown else 3} of launch 0 ({name}) reads x[{far if unknown else 3}] "
        f"({NAME}:{line_of('# ' + name)}), and x has length 3."
    )
    if not unknown:
        assert outside.fix == "launch doubled with dim=3, which fits x, or test the index before x is used"
    assert diagnosis.coverage.partial
    notes = [note for note in diagnosis.coverage.notes if "is outside axis 0" in note]
    assert len(notes) <= 2, notes


@wp.kernel
def by_value(v: wp.array(dtype=float), w: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = w[int(v[i])]


@pytest.mark.parametrize("checked", [False, True])
def test_an_index_that_leaves_its_array_at_other_values_alone_is_no_finding(checked: bool) -> None:
    """Finite differences move `v[2]` to where `int(v[2])` is outside: that is no bug of the program."""
    v, w, out, loss = floats(0.5, 1.5, 2.65), floats(1, 2, 3), zeros(3), zeros(1)
    with debugging() if checked else contextlib.nullcontext(), wp.Tape() as tape:
        wp.launch(by_value, 3, inputs=[v, w, out])
        wp.launch(total, 3, inputs=[out, loss])
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    assert diagnosis.verdict == "AGREE"
    assert not [finding for finding in diagnosis.findings if finding.rule == "out-of-bounds"]
