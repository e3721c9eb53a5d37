"""A gradient that ends inside or beside a PyTorch function is found, with its line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tapedebug as wp
from tests.torch.networks import N, recorded

torch = pytest.importorskip("torch")

LAYER = torch.nn.Linear(N, N)


def line_of(text):
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.rstrip().endswith(f"# {text}"))


def in_part(x):
    h = torch.tanh(LAYER(x))
    return h / h.detach().abs().sum()  # in part


def as_a_whole(x):
    return torch.tanh(LAYER(x).detach())  # as a whole


def through_numpy(x):
    return x + torch.from_numpy(np.sin(LAYER(x).detach().numpy()))  # through numpy


def as_a_number(x):
    return x * x.max().item()  # as a number


def as_data(x):
    return x * torch.tanh(x).data  # as data


def without_gradient(x):
    with torch.no_grad():
        h = torch.tanh(x)  # without gradient
    return h * x


CASES = [
    (in_part, "in part", ".detach()"),
    (as_a_whole, "as a whole", ".detach()"),
    (through_numpy, "through numpy", ".detach()"),
    (as_a_number, "as a number", ".item()"),
    (as_data, "as data", ".data"),
    (without_gradient, "without gradient", "tanh under torch.no_grad()"),
]


@pytest.mark.parametrize(("function", "text", "call"), CASES, ids=[c[1] for c in CASES])
def test_the_call_that_ends_the_gradient_is_named_with_its_line(function, text, call):
    tape, *_ = recorded(wp.torch.function(function))
    diagnosis = wp.diagnose(tape)
    assert diagnosis.verdict == "WRONG"
    [finding] = [f for f in diagnosis.findings if f.severity == "error"]
    assert (finding.rule, finding.launches, finding.evidence["kind"]) == ("disconnected", [1], "in PyTorch")
    assert (finding.location.line, finding.location.function) == (line_of(text), function.__name__)
    assert finding.message.startswith(
        f"The gradient ends in launch 1 ({function.__name__}), at test_stops.py:{line_of(text)}: {call} "
        "returns values that PyTorch does not differentiate, and the results depend on them."
    )
    assert "x" in finding.inputs
    assert finding.fix.startswith("compute this value so that PyTorch differentiates it")


def test_values_that_are_only_looked_at_end_no_gradient():
    seen = []

    def looked_at(x):
        seen.append(x.detach().numpy().mean() + x.max().item())
        shifted = x - x.max().detach()
        weights = torch.exp(shifted) / torch.exp(shifted).sum()
        return LAYER(x) * weights

    tape, *_ = recorded(wp.torch.function(looked_at))
    assert tape.operations[1].capability(wp.contract.LibraryAdjoint).stops() == []
    diagnosis = wp.diagnose(tape)
    assert (diagnosis.verdict, diagnosis.findings) == ("AGREE", [])
    assert seen


@pytest.mark.parametrize("between", ["detach", "numpy"])
def test_a_round_trip_between_two_launches_is_named_at_its_line(between):
    def net(y):
        if between == "numpy":
            made = np.tanh(y.numpy())
            return wp.array(made, dtype=float, requires_grad=True)  # by numpy
        out = torch.tanh(LAYER(wp.to_torch(y))).detach()
        return wp.from_torch(out, requires_grad=True)  # by detach

    tape, *_ = recorded(net)
    [finding] = wp.diagnose(tape).by_rule("disconnected")
    assert finding.severity != "info"
    assert finding.evidence["came_in_at"]["line"] == line_of(f"by {between}")
    assert f"test_stops.py:{line_of(f'by {between}')}" in finding.message
    assert ("tapedebug.torch.function" in finding.fix) == (between == "detach")


def test_one_finding_for_the_steps_of_a_loop():
    def steps(y):
        net = wp.torch.function(in_part)
        for _ in range(3):
            y = net(y)
        return y

    tape, *_ = recorded(steps)
    [finding] = [f for f in wp.diagnose(tape).findings if f.severity == "error"]
    assert finding.launches == [1, 2, 3]
