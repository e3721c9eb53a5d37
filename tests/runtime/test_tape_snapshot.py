"""`Tape.at`: the user's arrays as they were at any launch, and everything as it was before at the end."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.runtime.state import state
from tests.runtime.alias_programs import Program
from tests.runtime.kernels import cube_in_place, square, total


def vector(*values: float) -> Any:
    return wp.array(list(values), dtype=float, requires_grad=True)


def chain(**options: Any) -> tuple[Any, Any, Any, Any]:
    """x → x³ in place → y = x² → x³ in place → loss = Σ y."""
    x, y, loss = vector(2.0, -1.0), wp.zeros(2, requires_grad=True), wp.zeros(1, requires_grad=True)
    with wp.Tape(**options) as tape:
        wp.launch(cube_in_place, 2, inputs=[x])
        wp.launch(square, 2, inputs=[x, y])
        wp.launch(cube_in_place, 2, inputs=[x])
        wp.launch(total, 2, inputs=[y, loss])
    return tape, x, y, loss


def picture(tape: Any) -> list[Any]:
    found = []
    for buffer, ledger in tape.tracker.ledgers.items():
        grad = buffer.adjoint
        found.append((buffer.data.tobytes(), buffer.fill, buffer.writes, buffer.windows, buffer.watch))
        found.append(grad and (grad.data.tobytes(), grad.fill, grad.writes, grad.windows, grad.watch))
        found.append((len(ledger.states), len(ledger.liveins), len(ledger.needs), dict(ledger.guarded)))
    return [*found, len(tape.outside), len(tape.records), tape.tracker.kept, state.tape, state.moment]


def test_values_at_every_moment() -> None:
    tape, x, y, loss = chain()
    before = picture(tape)
    seen = []
    for launch in range(4):
        for when in ("before", "after"):
            with tape.at(launch, when):
                seen.append((x.numpy()[0], y.numpy()[0], loss.numpy()[0]))
            assert picture(tape) == before
    assert seen == [
        (2, 0, 0),
        (8, 0, 0),
        (8, 0, 0),
        (8, 64, 0),
        (8, 64, 0),
        (512, 64, 0),
        (512, 64, 0),
        (512, 64, 65),
    ]


def test_adjoints_at_every_moment() -> None:
    tape, x, y, loss = chain()
    tape.backward(loss)
    x.grad.fill_(7.0)
    before = picture(tape)
    seen = []
    for launch in (3, 2, 1, 0):
        for when in ("after", "before"):
            with tape.at(launch, when, backward=True) as moment:
                seen.append((x.grad.numpy()[0], y.grad.numpy()[0], loss.grad.numpy()[0]))
                assert moment.uncovered == []
            assert picture(tape) == before
    assert seen == [
        (0, 0, 1),
        (0, 1, 1),
        (0, 1, 1),
        (0, 1, 1),
        (0, 1, 1),
        (16, 0, 1),
        (16, 0, 1),
        (192, 0, 1),
    ]


def test_adjoints_of_another_loss_and_of_seeds() -> None:
    tape, x, y, loss = chain()
    with tape.at(1, "before", loss=loss):
        assert x.grad.numpy().tolist() == [16.0, -2.0]
    with tape.at(1, "before", backward=True, grads={y: [1.0, 10.0]}):
        assert x.grad.numpy().tolist() == [16.0, -20.0]
    assert not x.grad.numpy().any() and loss.requires_grad


def test_adjoints_are_those_that_the_mode_consumes() -> None:
    tape, x, _, loss = chain(on_overwrite="ignore")
    tape.backward(loss)
    with tape.at(1, "before", backward=True):
        assert x.numpy()[0] == 8.0
        assert x.grad.numpy()[0] == 2 * 512.0


@pytest.mark.parametrize("seed", range(5))
def test_random_programs_by_many_names(seed: int) -> None:
    program = Program(seed, steps=15)
    whole, tape = program.run()
    picked = [whole.plain, whole.other, whole.shared, whole.bodies["mass"], whole.index]
    before = picture(tape)
    for stop in range(1, len(tape.records), 4):
        expected = tape.replay(stop=stop)
        with tape.at(stop):
            for a in picked:
                if tape.tracker.uses(a):
                    known = expected.space.buffers[a.buffer]
                    np.testing.assert_array_equal(a._numpy_view(), known.view(a))
        assert picture(tape) == before


def test_what_is_done_in_the_block_is_undone() -> None:
    tape, x, y, loss = chain()
    tape.backward(loss)
    before = picture(tape)
    other = wp.Tape()
    with other:
        wp.launch(square, 2, inputs=[x, y])
    before = picture(tape)
    kept = [picture(other), other.preserved_bytes]
    with tape.at(1):
        wp.launch(square, 2, inputs=[x, y])
        assert y.numpy().tolist() == [64.0, 1.0]
        x.assign([9.0, 9.0])
        y.numpy()[:] = 5.0
        x.grad.zero_()
        tape.zero()
        assert wp.autograd.gradcheck(square, 2, [x], [y], show_summary=False)
    assert picture(tape) == before
    assert [picture(other), other.preserved_bytes] == kept


def test_views_that_outlive_the_block_are_looked_at_by_tapes() -> None:
    x, y = vector(2.0, 3.0), wp.zeros(2, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[x, y])
    with tape.at(0):
        view = x.numpy()
    assert view.tolist() == [2.0, 3.0]
    view[:] = 10.0
    tape.backward(grads={y: [1.0, 1.0]})
    assert x.grad.numpy().tolist() == [4.0, 6.0]
    assert [event.how for event in tape.outside] == ["numpy"]


def test_views_that_end_in_the_block_need_no_more_looking() -> None:
    x, y = vector(2.0, 3.0), wp.zeros(2, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[x, y])
    view = x.numpy()
    assert tape.preserved_bytes == 8
    with tape.at(0):
        del view
    assert tape.preserved_bytes == 0


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_errors_put_everything_back(error: type[BaseException]) -> None:
    tape, x, _, loss = chain()
    tape.backward(loss)
    before = picture(tape)
    with pytest.raises(error), tape.at(1, backward=True):
        assert x.numpy()[0] == 8.0
        raise error
    assert picture(tape) == before


def test_ctrl_c_while_the_arrays_are_swapped(monkeypatch: pytest.MonkeyPatch) -> None:
    from tapedebug.runtime.replay import tape_snapshot as room

    tape, _, _, loss = chain()
    tape.backward(loss)
    before = picture(tape)
    write, calls = room._write, [0]

    def slow(*args: Any) -> None:
        calls[0] += 1
        write(*args)
        if calls[0] == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(room, "_write", slow)
    with pytest.raises(KeyboardInterrupt), tape.at(1, backward=True):
        raise AssertionError("the block is not entered")
    assert calls[0] > 2, "the interrupt waits until all is swapped"
    assert picture(tape) == before


def test_memory_that_runs_out_while_the_arrays_are_swapped(monkeypatch: pytest.MonkeyPatch) -> None:
    from tapedebug.runtime.replay import tape_snapshot as room

    tape, *_ = chain()
    before = picture(tape)
    write, calls = room._write, [0]

    def failing(*args: Any) -> None:
        calls[0] += 1
        write(*args)
        if calls[0] == 2:
            raise MemoryError

    monkeypatch.setattr(room, "_write", failing)
    with pytest.raises(MemoryError), tape.at(1):
        pass
    assert picture(tape) == before


def test_a_moment_can_be_visited_again_and_says_what_it_is() -> None:
    tape, x, _, loss = chain()
    tape.backward(loss)
    moment = tape.at(-2, "after", backward=True)
    assert repr(moment) == "<moment after launch 2 (cube_in_place), with adjoints>"
    assert (moment.record, moment.when, moment.stop) == (tape.records[2], "after", 3)
    for _ in range(2):
        with moment as found:
            assert found is moment
            assert x.numpy()[0] == 512.0
    with tape.at(tape.records[1]):
        assert x.numpy()[0] == 8.0


def test_with_a_memory_budget() -> None:
    x = vector(1.001, 0.999)
    with wp.Tape(memory_budget=20) as tape:
        for _ in range(6):
            wp.launch(cube_in_place, 2, inputs=[x])
    with tape.at(3, grads={x: [1.0, 1.0]}):
        assert x.numpy()[0] == pytest.approx(1.001**27, rel=1e-5)
        assert x.grad.numpy()[0] == pytest.approx(27 * 1.001 ** (27 * 26), rel=1e-3)


def test_custom_functions_run_forward_only() -> None:
    x = vector(2.0)
    with wp.Tape() as tape:
        wp.launch(cube_in_place, 1, inputs=[x])
        tape.record_func(lambda: None, [x])
        wp.launch(cube_in_place, 1, inputs=[x])
    with tape.at(2) as moment:
        assert x.numpy().tolist() == [8.0]
        assert moment.uncovered == ["record 1 is a custom function (<lambda>), which is not replayed"]
    with pytest.raises(wp.TapeError) as caught, tape.at(0, grads={x: [1.0]}):
        pass
    assert str(caught.value) == (
        "at: record 1 is a custom function (<lambda>), which works on the arrays themselves: there are no "
        "adjoints without it\n  = hint: pass backward=False"
    )


def test_what_is_refused_in_the_block() -> None:
    tape, x, y, loss = chain()
    tape.backward(loss)
    inside = "the arrays are those of <moment before launch 1 (square)>"
    hint = "\n  = hint: leave that `with` block first"
    before = picture(tape)

    def nested() -> None:
        with tape.at(2):
            pass

    def recording() -> None:
        with wp.Tape():
            pass

    refused = {
        nested: f"at: {inside} already, and moments do not nest",
        recording: f"cannot start recording: {inside}, not those of now",
        tape.replay: f"replay: {inside}, not those of now",
        lambda: tape.backward(loss): f"backward: {inside}, not those of now",
        tape.reset: f"reset: {inside}, not those of now",
        lambda: wp.diagnose(tape): f"diagnose: {inside}, not those of now",
    }
    with tape.at(1):
        for action, message in refused.items():
            with pytest.raises(wp.TapeError) as caught:
                action()
            assert str(caught.value) == message + hint
    assert picture(tape) == before
    with pytest.raises(wp.TapeError) as caught, wp.Tape(), tape.at(1):
        pass
    assert str(caught.value) == (
        "at: a tape is recording, and would record what is done at another time\n"
        "  = hint: leave the `with` block of the tape first"
    )
    assert state.tape is None and x.numpy()[0] == 512.0 and y.numpy()[0] == 64.0


@pytest.mark.parametrize(
    ("launch", "options", "message"),
    [
        (4, {}, "at: 4 is no launch of this tape, which has 4"),
        (-5, {}, "at: -5 is no launch of this tape, which has 4"),
        ("1", {}, "at: '1' is no launch of this tape, which has 4"),
        (True, {}, "at: True is no launch of this tape, which has 4"),
        (1, {"when": "during"}, "at: when is 'before' or 'after'; got 'during'\n  = hint: use one of these"),
        (
            1,
            {"backward": True},
            "at: no loss is known: backward has not been called on this tape\n"
            "  = hint: pass loss=… or grads=…, as for backward",
        ),
    ],
)
def test_messages(launch: Any, options: Any, message: str) -> None:
    tape, *_ = chain()
    with pytest.raises(wp.TapeError) as caught:
        tape.at(launch, **options)
    hint = "" if "hint" in message else "\n  = hint: pass an index from 0 to 3, or one of tape.records"
    assert str(caught.value) == message + hint
    with pytest.raises(wp.TapeError) as caught:
        wp.Tape().at(0)
    assert str(caught.value) == "at: the tape is empty\n  = hint: run the launches inside `with tape:` first"
