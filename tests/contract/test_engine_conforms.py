"""Our engine has every member of the debugger's contract, and keeps its promises."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import tapedebug as wp
from tapedebug import contract
from tapedebug.runtime.replay.shadow import Shadow
from tests import reference_engine as engine
from tests import reference_operations as operations
from tests.runtime.kernels import square, total


@pytest.fixture
def tape():
    x, y, loss = wp.ones(2, requires_grad=True), wp.zeros(2, requires_grad=True), wp.zeros(1)
    loss.requires_grad = True
    with wp.Tape() as tape:
        tape.record_scope_begin("step")
        wp.launch(square, 2, inputs=[x], outputs=[y])
        tape.record_scope_end()
        x.numpy()[0] = 2
        wp.launch(total, 2, inputs=[x, loss])
    tape.backward(loss)
    return tape


def members(protocol):
    inherited = {name for base in protocol.__mro__ for name in getattr(base, "__annotations__", {})}
    defined = {name for base in protocol.__mro__[:-3] for name in vars(base)}
    return {name for name in inherited | defined if not name.startswith("_")}


def parts(tape):
    first = tape.operations[0]
    return {
        contract.RecordedTape: tape,
        contract.Operation: first,
        contract.Array: first.accesses[0].array,
        contract.Place: first.call_site,
        contract.Scope: tape.scopes[0],
        contract.OutsideWrite: tape.outside_writes[0],
        contract.ReversePass: tape.reverse_passes[0],
        contract.Replay: tape.new_replay(),
        contract.TangentReplay: tape.new_replay(),
    }


@pytest.fixture
def reference():
    """Return a tape of the reference engine, with a reverse pass."""
    x, y, loss = engine.array([1.0, 2.0]), engine.zeros(2), engine.zeros(1)
    with engine.Tape() as tape:
        operations.square(x, y)
        operations.total(y, loss)
    tape.backward(loss)
    return tape


def test_every_member_exists_on_the_reference_engine(reference):
    first = reference.operations[0]
    found = {
        contract.RecordedTape: reference,
        contract.Operation: first,
        contract.Array: first.accesses[0].array,
        contract.Place: first.call_site,
        contract.ReversePass: reference.reverse_passes[0],
        contract.Replay: reference.new_replay(),
    }
    for protocol, part in found.items():
        assert [name for name in sorted(members(protocol)) if not hasattr(part, name)] == [], protocol


def test_every_member_exists(tape):
    for protocol, found in parts(tape).items():
        names = members(protocol)
        assert len(names) > 3, protocol
        assert [name for name in sorted(names) if not hasattr(found, name)] == [], protocol
    assert contract.is_recorded_tape(tape)
    assert not contract.is_recorded_tape(tape.operations[0])


def test_parameters_have_the_names_and_kinds_of_the_protocol(tape):
    for protocol in (contract.RecordedTape, contract.Operation, contract.Replay, contract.TangentReplay):
        for name in members(protocol):
            wanted = getattr(protocol, name, None)
            if inspect.isfunction(wanted):
                mine = inspect.signature(getattr(type(parts(tape)[protocol]), name)).parameters
                for parameter in list(inspect.signature(wanted).parameters.values())[1:]:
                    if parameter.kind is not parameter.POSITIONAL_ONLY:
                        assert parameter.name in mine, (protocol, name)


def test_an_array_of_another_engine_is_refused(tape):
    class Other:
        def __repr__(self):
            return "<another engine's array>"

    with pytest.raises(wp.TapeError, match="<another engine's array> is not on the tape"):
        tape.new_replay().values(Other())
    assert tape.names(Other()) == []


def test_values_that_are_set_before_the_first_operation_stay_until_reset(tape):
    x = tape.operations[1].args[0]
    replay = tape.new_replay()
    replay.set(x, [3.0, 4.0])
    assert replay.forward(0).values(tape.operations[0].args[1]).tolist() == [9, 16]
    assert replay.forward(0).values(x).tolist() == [2, 1], "an outside write replaces them"
    assert replay.reset().forward(0).values(tape.operations[0].args[1]).tolist() == [1, 1]


def test_values_that_are_set_later_are_never_lost_in_silence(tape):
    x, loss = tape.operations[1].args
    replay = tape.new_replay().forward(0, 1)
    replay.set(x, [3.0, 4.0])
    for restart in (replay.forward, lambda: replay.forward(0)):
        with pytest.raises(wp.TapeError, match=r"would be lost: forward\(0\) starts over") as caught:
            restart()
        assert "call reset(discard=True) before set(); else go on with forward(1)" in str(caught.value)
    for _ in range(2):  # the same call gives the same answer
        with pytest.raises(wp.TapeError, match=r"would be lost: reset\(\) drops them") as caught:
            replay.reset()
        assert "before set(); to use these, go on with forward(1)" in str(caught.value)
    assert replay.reset(discard=True).forward(0).values(x).tolist() == [2, 1]
    replay.set(x, [3.0, 4.0])
    with pytest.raises(wp.TapeError, match=r"would be lost: reset\(\) drops them"):
        replay.reset()
    replay.backward({loss: np.ones(1)}, consume="current")  # uses them
    replay.reset()


def test_one_name_says_that_a_replay_is_in_float64(tape):
    assert [tape.new_replay(float64=wide).is_float64 for wide in (False, True)] == [False, True]
    assert not hasattr(Shadow, "f64")


@pytest.mark.parametrize("wide", [False, True])
def test_hooks_of_a_replay_change_values_and_adjoints_as_it_runs(tape, wide):
    x, y = (tape.operations[0].args[p] for p in (0, 1))
    loss = tape.operations[-1].args[1]
    replay, seen = tape.new_replay(float64=wide), []

    def doubled(own, operation):
        assert own is replay
        seen.append(operation.index)
        if operation.index == 0:
            own.set(y, 2 * own.values(y))

    def cleared(own, operation):
        seen.append(operation.index)
        own.set_gradient(x, np.zeros(x.shape))

    replay.after_operation, replay.after_adjoint = doubled, cleared
    replay.forward(stop=1)
    assert replay.values(y).tolist() == [2, 2]
    replay.forward(1).backward({loss: np.ones(1)})
    count = len(tape.operations)
    assert seen == [*range(count), *reversed(range(count))]
    assert replay.gradient(x).tolist() == [0, 0]
    assert replay.reset().forward(stop=1).values(y).tolist() == [2, 2], "what a hook sets is never unused"
