"""PyTorch functions between launches of NVIDIA Warp, alone and while it is watched."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tapedebug as td
from tapedebug.contract import LibraryAdjoint

pytestmark = pytest.mark.peer
wp = pytest.importorskip("warp")
torch = pytest.importorskip("torch")
N = 12


@wp.kernel
def bent(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i] + 0.3 * x[i]


@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, x[wp.tid()])


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(5)


def policy():
    return torch.nn.Sequential(torch.nn.Linear(N, 8), torch.nn.Tanh(), torch.nn.Linear(8, N))


def floats(values, grad=True):
    return wp.array(np.asarray(values, np.float32), dtype=float, requires_grad=grad, device="cpu")


def run(net, out=None, clear=lambda: None):
    """Run Σ bent(net(bent(x))) on a tape of Warp and reverse it; return x and loss."""
    x, y, z, loss = floats(np.linspace(-1, 1, N)), floats(np.zeros(N)), floats(np.zeros(N)), floats([0])
    tape = wp.Tape()
    with tape:
        wp.launch(bent, N, inputs=[x, y], device="cpu")
        action = net(y) if out is None else net(y, out=out)
        wp.launch(bent, N, inputs=[action, z], device="cpu")
        wp.launch(total, N, inputs=[z, loss], device="cpu")
    clear()
    tape.backward(loss)
    return x, loss


def by_torch(module):
    t = torch.tensor(np.linspace(-1, 1, N), dtype=torch.float32, requires_grad=True)

    def curve(v):
        return v * v + 0.3 * v

    module.zero_grad()
    loss = curve(module(curve(t))).sum()
    loss.backward()
    return loss.item(), t.grad.numpy(), [p.grad.clone().numpy() for p in module.parameters()]


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("to_none", [False, True])
def test_the_gradients_on_warps_tape_are_those_of_pytorch(watched, to_none):
    module = policy()
    net = td.torch.function(module)
    for _ in range(2):

        def go():
            return run(net, clear=lambda: module.zero_grad(set_to_none=to_none))

        if watched:
            with td.watch_warp() as session:
                x, loss = go()
            assert session.not_covered == []
        else:
            x, loss = go()
        found = [p.grad.clone().numpy() for p in module.parameters()]
        value, gradient, parameters = by_torch(module)
        np.testing.assert_allclose(loss.numpy()[0], value, rtol=1e-5)
        np.testing.assert_allclose(x.grad.numpy(), gradient, rtol=1e-4, atol=1e-6)
        for own, other in zip(found, parameters, strict=True):
            np.testing.assert_allclose(own, other, rtol=1e-4, atol=1e-6)


def test_values_that_a_later_call_overwrites_are_kept():
    net = td.torch.function(lambda a: a * a)
    x = floats([1, 2, 3])
    tape = wp.Tape()
    with tape:
        net(x, out=x)
        net(x, out=x)
    assert x.numpy().tolist() == [1, 16, 81]
    tape.backward(grads={x: floats([1, 1, 1])})
    assert x.grad.numpy().tolist() == [4, 32, 108]


@pytest.mark.parametrize("name", ["policy", "dropout", "batch normalization"])
def test_a_watched_tape_agrees_with_differences(name):
    module = {
        "policy": policy,
        "dropout": lambda: torch.nn.Sequential(torch.nn.Linear(N, N), torch.nn.Dropout(0.5)),
        "batch normalization": lambda: torch.nn.Sequential(
            torch.nn.Unflatten(0, (4, 3)), torch.nn.BatchNorm1d(3), torch.nn.Flatten(0)
        ),
    }[name]()
    with td.watch_warp() as session:
        run(td.torch.function(module, name="net"))
    (tape,) = session.tapes
    diagnosis = td.diagnose(tape)
    assert diagnosis.verdict == "AGREE"
    assert [f for f in diagnosis.findings if f.severity != "info"] == []
    operation = tape.operations[1]
    assert (operation.kind, operation.name) == ("python", "net")
    assert operation.capability(LibraryAdjoint).library == "PyTorch"
    labels = {info.label for info in td.trace.record(tape).arrays}
    assert {f"net.{name}" for name, _ in module.named_parameters()} <= labels


LAYER = torch.nn.Linear(N, N)


def in_part(v):
    h = torch.tanh(LAYER(v))
    return h / h.detach().abs().sum()  # in part


def through_numpy(v):
    return v + torch.from_numpy(np.sin(LAYER(v).detach().numpy()))  # through numpy


@pytest.mark.parametrize(("function", "text"), [(in_part, "in part"), (through_numpy, "through numpy")])
def test_a_gradient_that_ends_in_a_function_is_named_at_its_line(function, text):
    with td.watch_warp() as session:
        run(td.torch.function(function))
    diagnosis = td.diagnose(session.tapes[0])
    assert diagnosis.verdict == "WRONG"
    [finding] = [f for f in diagnosis.findings if f.severity == "error"]
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    line = next(n for n, code in enumerate(lines, 1) if code.endswith(f"# {text}"))
    assert (finding.rule, finding.location.line, finding.evidence["call"]) == (
        "disconnected",
        line,
        ".detach()",
    )


def test_what_does_not_fit_is_refused():
    net = td.torch.function(policy(), name="net")
    x, small = floats(np.zeros(N)), floats([0])
    with wp.Tape() as tape, pytest.raises(td.LaunchError) as caught:
        net(x, out=small)
    assert str(caught.value).startswith(
        "torch.function of net: it returned float32 of shape (12,) for output, which holds float32 of shape "
        "(1,)"
    )
    assert tape.launches == []
    assert net(x).numpy().tolist() == pytest.approx(policy_of(net)(torch.zeros(N)).tolist())


def policy_of(net):
    return net.module
