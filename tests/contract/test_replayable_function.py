"""Functions of a program's tape that run again: as operations on any memory."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

import tapedebug as td
from tapedebug._source import site_span
from tapedebug.autograd import end_to_end, gradcheck_tape
from tapedebug.autograd.subjects.whole_tape import whole_tape
from tapedebug.autograd.tapes import resolution
from tapedebug.autograd.thresholds import ASIDE_AGREES
from tapedebug.contract import Engine, KernelSource
from tapedebug.operations import (
    FunctionOperation,
    HostArray,
    OperationTape,
    Region,
    ReplayableFunction,
    RunsInFloat64,
)


def scaled(x, w):
    return (x * w.sum(),)


def scaled_backward(values, adjoints):
    x, w = values
    return [adjoints[0] * w.sum(), np.full_like(w, (adjoints[0] * x).sum())]


def not_scaled(values, adjoints):
    return [adjoints[0], None]


def floats(*values):
    own = np.array(values, np.float32)
    return HostArray(own, Region(own, np.zeros_like(own)), requires_grad=True)


def recorded(backward=scaled_backward, forward=scaled):
    x, w, y = floats(1, 2, 3), floats(0.5, 1), floats(0, 0, 0)

    def write():
        y.values[...] = forward(x.values, w.values)[0]

    function = ReplayableFunction(
        "scaled", forward, backward, [x, w], [y], ["x", "w", "y"], write,
        lambda: None, forward, labels=[(w, "weights")],
    )  # fmt: skip
    place = site_span((recorded.__code__, 0))
    tape = OperationTape(Engine("a test", "1", "cpu"))
    operation = FunctionOperation(function, [x, w], [y], place)
    tape.begin()
    tape.record(operation, function.run)
    tape.end()
    tape.name_array(w, "weights")
    return tape, operation, x, w, y


def test_it_runs_once_and_again_in_replays():
    tape, operation, x, w, y = recorded()
    operation.function.run()
    assert y.values.tolist() == [1.5, 3, 4.5]
    assert (operation.kind, operation.name, operation.function.__name__) == ("python", "scaled", "scaled")
    assert [(a.name, a.reads, a.writes, a.needs_before) for a in operation.accesses] == [
        ("x", True, False, True),
        ("w", True, False, True),
        ("y", False, True, False),
    ]
    assert operation.capability(KernelSource).text.name == "scaled"
    for wide in (False, True):
        replay = tape.new_replay(float64=wide)
        replay.forward().backward({y: np.array([1.0, 10.0, 100.0])})
        assert replay.gradient(x).tolist() == [1.5, 15, 150]
        assert replay.gradient(w).tolist() == [321, 321]
        assert not replay.gradient(y).any()


def test_it_runs_in_float64_only_if_its_results_are():
    def narrow(x, w):
        return (scaled(x, w)[0].astype(np.float32),)

    def refuses(x, w):
        assert x.dtype == np.float32
        return scaled(x, w)

    assert recorded()[1].capability(RunsInFloat64) is not None
    for forward in (narrow, refuses):
        assert recorded(forward=forward)[1].capability(RunsInFloat64) is None


@pytest.mark.parametrize(("backward", "verdict"), [(scaled_backward, "AGREE"), (not_scaled, "WRONG")])
def test_its_adjoint_is_checked(backward, verdict):
    tape, _, _, _, y = recorded(backward)
    assert td.diagnose(tape, loss={y: np.ones(3, np.float32)}).verdict == verdict


def test_the_programs_pass_reads_the_values_of_the_call_in_the_replays_precision():
    tape, _, x, w, y = recorded()
    x.values[...] = 9  # after the call, before backward
    with tape.reverse_pass({y: np.ones(3, np.float32)}):
        pass
    third, seeds = np.array([1, 2, 3]) / 3, {y: np.array([1.0, 10.0, 100.0])}
    replay = tape.new_replay(float64=True)
    replay.set(x, third)
    replay.forward().backward(seeds, consume="current")
    assert replay.gradient(w)[0] == pytest.approx(107, rel=1e-14)  # not 321, nor 107 to seven digits
    assert replay.gradient(x).tolist() == [1.5, 15, 150]
    replay.backward(seeds)
    assert replay.gradient(w)[0] == pytest.approx(107, rel=1e-14)


def refuses_float64(x, w):
    assert x.dtype == np.float32
    return (np.tanh(x) * x * w.sum(),)


def right(values, adjoints):
    x, w = values
    t = np.tanh(x)
    return [adjoints[0] * w.sum() * (t + x * (1 - t * t)), np.full_like(w, (adjoints[0] * t * x).sum())]


def wrong(values, adjoints):
    return [1.02 * adjoint for adjoint in right(values, adjoints)]


def test_in_float32_a_gradient_of_0_is_right_for_an_input_that_moves_nothing():
    def first_only(x, w):
        assert x.dtype == np.float32
        return (np.tanh(x) + 0 * w.sum(),)

    def backward(values, adjoints):
        return [adjoints[0] * (1 - np.tanh(values[0]) ** 2), np.zeros_like(values[1])]

    tape, _, _, _, y = recorded(backward, first_only)
    assert td.diagnose(tape, loss={y: np.ones(3, np.float32)}).verdict == "AGREE"


@pytest.mark.parametrize(("backward", "is_wrong"), [(right, False), (wrong, True)])
def test_beside_a_stationary_point_its_adjoint_is_compared_with_larger_steps(backward, is_wrong):
    tape, _, _, _, y = recorded(backward, refuses_float64)
    program = whole_tape(tape, {y: np.ones(3, np.float32)}, None, None)
    assert program.is_narrow
    exact = SimpleNamespace(exact=program.pull(program.seeds, double=True, preserved=True))
    for port in program.inputs:
        assert resolution._jumps(program, port, exact).any()  # the displacement is not lost in rounding
        level, found = resolution._aside(program, port)
        assert found == is_wrong
        assert (level > ASIDE_AGREES) == is_wrong


def beside_float32(backward):
    """Return a tape z = x · sum(y), y = f(v, w) with f in float32 and with `backward`; x reaches z alone."""
    v, w, x, y, z = floats(1, 2, 3), floats(0.5, 1), floats(3, 2, 1), floats(0, 0, 0), floats(0, 0, 0)
    tape = OperationTape(Engine("a test", "1", "cpu"))
    place = site_span((beside_float32.__code__, 0))
    tape.begin()
    for forward, reverse, a, b, result in [
        (refuses_float64, right, v, w, y),
        (scaled, backward, x, y, z),
    ]:

        def write(forward=forward, a=a, b=b, result=result):
            result.values[...] = forward(a.values, b.values)[0]

        name, params = forward.__name__, ["x", "w", "y"]
        function = ReplayableFunction(
            name, forward, reverse, [a, b], [result], params, write, lambda: None, forward
        )
        tape.record(FunctionOperation(function, [a, b], [result], place), function.run)
    tape.end()
    return tape, {"v": v, "w": w, "x": x, "y": y}, z


def test_differences_along_inputs_that_reach_no_operation_in_float32_are_those_of_float64():
    tape, arrays, z = beside_float32(scaled_backward)
    program = whole_tape(tape, {z: np.ones(3, np.float32)}, list(arrays.values()), None)
    assert program.is_narrow
    ports = dict(zip(["v", "w", "x"], program.inputs, strict=True))  # y is computed
    assert {name for name, port in ports.items() if program.rounds([port])} == {"v", "w"}
    found = end_to_end(tape, {z: np.ones(3, np.float32)}, labels={a: name for name, a in arrays.items()})
    assert found.verdict == "AGREE"
    bars = {check.name: max(probe.bar / probe.size for probe in check.probes) for check in found.inputs}
    assert bars["x"] < 1e-9 < min(bars["v"], bars["w"])  # x is not differentiated by fits to float32 values


def test_an_error_that_only_float64_resolves_is_found_beside_an_operation_in_float32():
    def off(values, adjoints):
        return [(1 + 3e-4) * adjoint for adjoint in scaled_backward(values, adjoints)]

    tape, _, z = beside_float32(off)
    found = end_to_end(tape, {z: np.ones(3, np.float32)}, rtol=1e-4)
    assert {check.verdict for check in found.inputs if check.array.values[0] == 3} == {"WRONG"}


def test_if_a_float64_run_gives_another_loss_each_time_all_differences_count_as_rounded(monkeypatch):
    tape, _, z = beside_float32(scaled_backward)
    program = whole_tape(tape, {z: np.ones(3, np.float32)}, None, None)
    objective, count = program._objective, itertools.count()
    monkeypatch.setattr(program, "_objective", lambda outputs: objective(outputs) + 1e-9 * next(count))
    assert all(program.rounds([port]) for port in program.inputs)


@pytest.mark.parametrize(("backward", "verdict"), [(right, "AGREE"), (wrong, "WRONG")])
def test_alone_in_float32_it_is_compared_with_differences_of_larger_steps(backward, verdict):
    tape, operation, _, _, y = recorded(backward, refuses_float64)
    operation.kind = "kernel"  # operations of kind "python" are not checked alone
    checked = gradcheck_tape(tape, show_summary=False, raise_exception=False)
    assert {pair.verdict for pair in checked.pairs} == {verdict}
    assert (
        "launch 0 (scaled): it computes in float32: it is compared with differences of larger steps, which "
        "have larger error bars"
    ) in checked.coverage.notes
    assert td.diagnose(tape, loss={y: np.ones(3, np.float32)}).verdict == verdict
