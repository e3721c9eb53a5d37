"""`torch.function`: modules between two launches are run, reversed, replayed and checked like a launch."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug import contract
from tapedebug.autograd import end_to_end, gradcheck_tape
from tests.torch.networks import N, bent, by_torch, recorded, total, values

torch = pytest.importorskip("torch")
nn = torch.nn


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(5)


def policy() -> Any:
    return nn.Sequential(nn.Linear(N, 8), nn.Tanh(), nn.Linear(8, N))


def test_the_gradients_of_arrays_and_parameters_are_those_of_pytorch():
    module = policy()
    tape, x, loss = recorded(wp.torch.function(module, name="policy"))
    wide = copy.deepcopy(module).double()
    wide.zero_grad()
    value, gradient = by_torch(torch, wide)
    np.testing.assert_allclose(loss.numpy()[0], value, rtol=1e-5)
    np.testing.assert_allclose(x.grad.numpy(), gradient, rtol=1e-4, atol=1e-6)
    for own, other in zip(module.parameters(), wide.parameters(), strict=True):
        np.testing.assert_allclose(own.grad.numpy(), other.grad.numpy(), rtol=1e-4, atol=1e-6)
    tape.backward(loss)
    np.testing.assert_allclose(
        module[0].bias.grad.numpy(), 2 * wide[0].bias.grad.numpy(), rtol=1e-4, atol=1e-6
    )
    tape.zero()
    assert not module[0].bias.grad.any()


def test_it_is_one_operation_with_names_and_the_source_of_the_module():
    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(N, N)

        def forward(self, state):
            return self.layer(state)

    tape, *_ = recorded(wp.torch.function(Policy()))
    operation = tape.operations[1]
    assert (operation.kind, operation.name) == ("python", "Policy")
    assert [(a.name, a.reads, a.writes, a.active) for a in operation.accesses] == [
        ("state", True, False, True),
        ("layer.weight", True, False, True),
        ("layer.bias", True, False, True),
        ("output", False, True, True),
    ]
    assert operation.call_site.text.strip() == "action = net(y)"
    source = operation.capability(contract.KernelSource)
    assert source.text.lines[0].strip() == "def forward(self, state):"
    assert operation.capability(contract.HandWrittenAdjoint) is None
    assert operation.capability(contract.LibraryAdjoint).library == "PyTorch"
    labels = [info.label for info in wp.trace.record(tape).arrays]
    assert {"Policy.layer.weight", "Policy.layer.bias"} <= set(labels)


def test_it_runs_without_a_tape_and_into_an_array_that_exists():
    module = policy()
    net = wp.torch.function(module)
    x, out = wp.array(values(), dtype=float), wp.zeros(N)
    wanted = module(torch.tensor(values(), dtype=torch.float32)).detach().numpy()
    assert net(x, out=out) is out
    assert net(x).numpy().tolist() == out.numpy().tolist() == wanted.tolist()
    assert module[0].weight.grad is None


def test_vectors_several_arguments_and_several_results():
    def split(points, scale, *, power):
        return (points * scale).sum(1), (points**power).mean(), points.argmax(1)

    points = wp.array([[1.0, 2, 3], [4, 5, 6]], dtype=wp.vec3, requires_grad=True)
    scale = wp.array([2.0], dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        sums, mean, places = wp.torch.function(split)(points, scale, power=2)
    assert (sums.numpy().tolist(), mean.shape) == ([12, 30], (1,))
    assert mean.numpy()[0] == np.float32(91 / 6)
    assert (places.dtype, places.numpy().tolist(), places.requires_grad) == (wp.int64, [2, 2], False)
    tape.backward(grads={sums: wp.ones(2), mean: wp.full(1, 6.0)})
    assert points.grad.numpy().tolist() == [[4, 6, 8], [10, 12, 14]]
    assert scale.grad.numpy().tolist() == [21]
    into = wp.zeros(2, dtype=wp.vec3, requires_grad=True)
    with wp.Tape() as tape:
        wp.torch.function(lambda p: 2 * p)(points, out=into)
    assert into.numpy().tolist() == [[2, 4, 6], [8, 10, 12]]
    tape.zero()
    tape.backward(grads={into: wp.ones(2, dtype=wp.vec3)})
    assert points.grad.numpy().tolist() == [[2, 2, 2], [2, 2, 2]]


def test_one_array_as_two_arguments_and_as_the_result():
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    net = wp.torch.function(lambda a, b: a * b)
    with wp.Tape() as tape:
        y = net(x, x)
    tape.backward(grads={y: wp.ones(3)})
    assert x.grad.numpy().tolist() == [2, 4, 6]
    x.grad.zero_()
    with wp.Tape() as tape:
        net(x, x, out=x)
        net(x, x, out=x)
    tape.backward(grads={x: wp.ones(3)})
    assert x.grad.numpy().tolist() == [4, 32, 108]


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTM(3, 2, batch_first=True)

    def forward(self, x):
        return self.cell(x.reshape(1, 4, 3))[0].flatten()


class Running(nn.Module):
    """Changes one buffer by assignment and one in place, and adds a plain tensor."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(N))
        self.register_buffer("count", torch.tensor(0))
        self.shift = torch.full((N,), 0.5)

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x
        self.count += 1
        return (x + self.shift) * self.mean


class Scaled(nn.Module):
    """A parameter without dimensions, and layers that are not registered."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.7))
        self.layers = [nn.Linear(N, N) for _ in range(2)]

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return torch.cat([torch.zeros(3), x * self.scale])


class Noisy(nn.Module):
    def forward(self, x):
        noise = torch.rand(N) + torch.randn_like(x) + torch.empty(N).uniform_()
        return x * (noise + torch.distributions.Normal(0.0, 1.0).rsample((N,)))


class Normalized(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Unflatten(0, (4, 3)), nn.BatchNorm1d(3), nn.Linear(3, 3), nn.Flatten(0))


MODULES = {
    "dropout": lambda: nn.Sequential(nn.Linear(N, N), nn.Dropout(0.5), nn.Tanh()),
    "batch normalization": Normalized,
    "inplace activation inside": lambda: nn.Sequential(
        nn.Linear(N, N), nn.ReLU(inplace=True), nn.Linear(N, N)
    ),
    "attention": lambda: nn.Sequential(
        nn.Unflatten(0, (4, 3)),
        nn.LayerNorm(3),
        nn.TransformerEncoderLayer(3, 1, 8),
        nn.Flatten(0),
    ),
    "recurrent": Recurrent,
    "running": Running,
    "scaled": Scaled,
    "noisy": Noisy,
    "weight normalization": lambda: torch.nn.utils.parametrizations.weight_norm(nn.Linear(N, 4)),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_agree_with_differences_in_float64(name):
    tape, *_ = recorded(wp.torch.function(MODULES[name]()))
    diagnosis = wp.diagnose(tape)
    assert diagnosis.verdict == "AGREE"
    assert [f for f in diagnosis.findings if f.severity != "info"] == []
    assert [note for note in diagnosis.trace.coverage.notes if "not entirely float64" in note] == []
    assert tape.replay().matches_live()


def test_float64_replays_run_the_module_in_float64():
    module = policy()
    tape, x, loss = recorded(wp.torch.function(module))
    replay = tape.new_replay(float64=True)
    replay.set(x, values() / 2)
    replay.forward().backward({loss: np.ones(1)})
    value, gradient = by_torch(torch, copy.deepcopy(module).double(), values() / 2)
    np.testing.assert_allclose(replay.values(loss)[0], value, rtol=1e-6)
    np.testing.assert_allclose(replay.gradient(x), gradient, rtol=1e-5)
    assert module[0].weight.dtype == torch.float32
    assert torch.get_default_dtype() == torch.float32


def test_tangents_and_gradcheck():
    tape, *_ = recorded(wp.torch.function(policy()))
    whole = end_to_end(tape)
    assert whole.verdict == "AGREE"
    assert whole.dot_product.agrees
    checked = gradcheck_tape(tape, end_to_end=True, show_summary=False)
    assert {pair.verdict for pair in checked.pairs if pair.launch == 1} == {"AGREE"}


def test_training_with_an_optimizer_that_sets_gradients_to_none():
    module, fit = policy(), policy()
    fit.load_state_dict(module.state_dict())
    net = wp.torch.function(module)
    optimizers = [torch.optim.Adam(m.parameters(), lr=0.01) for m in (module, fit)]
    for step in range(4):
        x, loss = wp.array(values(), dtype=float), wp.zeros(1, requires_grad=True)
        with wp.Tape() as tape:
            y = net(x)
            z = wp.zeros(N, requires_grad=True)
            wp.launch(bent, N, inputs=[y, z])
            wp.launch(total, N, inputs=[z, loss])
        optimizers[0].zero_grad(set_to_none=step != 2)
        tape.backward(loss)
        optimizers[0].step()
        optimizers[1].zero_grad()
        out = fit(torch.tensor(values(), dtype=torch.float32))
        (out * out + 0.3 * out).sum().backward()
        optimizers[1].step()
        assert wp.diagnose(tape).findings == []
    for own, other in zip(module.parameters(), fit.parameters(), strict=True):
        np.testing.assert_allclose(own.detach().numpy(), other.detach().numpy(), rtol=1e-4, atol=1e-6)


def test_gradients_of_pytorch_itself_are_added_to():
    module = policy()
    (module[2].bias ** 2).sum().backward()
    own = module[2].bias.grad.clone()
    recorded(wp.torch.function(module))
    both = module[2].bias.grad.clone()
    module.zero_grad()
    recorded(wp.torch.function(module))
    np.testing.assert_allclose((own + module[2].bias.grad).numpy(), both.numpy(), rtol=1e-5)


def test_a_replay_keeps_the_training_mode_and_the_random_numbers_of_the_call():
    module = nn.Sequential(nn.Linear(N, N), nn.Dropout(0.5))
    tape, *_ = recorded(wp.torch.function(module))
    module.eval()
    state = torch.get_rng_state()
    assert tape.replay().matches_live()
    assert wp.diagnose(tape).verdict == "AGREE"
    assert not module[1].training
    assert torch.equal(torch.get_rng_state(), state)


def test_buffers_are_outputs_and_the_next_call_reads_them():
    module = Running()
    net = wp.torch.function(module)
    x = wp.array(values(), dtype=float)
    buffer = module.mean
    net(x)
    net(x)
    assert module.mean is buffer
    np.testing.assert_allclose(buffer.numpy(), 0.19 * values(), rtol=1e-5)
    assert module.count.item() == 2
    module = Normalized()
    twin = copy.deepcopy(module)
    wp.torch.function(module)(x)
    twin(torch.tensor(values(), dtype=torch.float32))
    assert torch.equal(module[1].running_mean, twin[1].running_mean)
    assert module[1].num_batches_tracked.item() == 1


FACTOR = torch.ones(N)
HELPER = nn.Linear(N, N)
BEFORE = 2 * torch.ones(N, requires_grad=True)


def helper(x):
    return HELPER(x)


def test_parameters_that_a_function_uses_through_another_one_take_part():
    HELPER.zero_grad()

    def outer(x):
        return helper(x)

    tape, *_ = recorded(wp.torch.function(outer))
    assert HELPER.weight.grad.abs().sum() > 0
    assert [a.name for a in tape.operations[1].accesses] == ["x", "parameter 0", "parameter 1", "output"]
    assert wp.diagnose(tape).verdict == "AGREE"


def add_one(x):
    x += 1
    return x


def double_factor(x):
    FACTOR.mul_(2)
    return x * FACTOR


class ChangesItsParameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.Parameter(torch.ones(N))

    def forward(self, x):
        self.p.data.mul_(2)
        return x * self.p


class KeepsItsState(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = torch.zeros(N)

    def forward(self, x):
        self.hidden = self.hidden + x
        return self.hidden


REFUSED = [
    (lambda: add_one, "it changes its argument x in place", "let it change a copy: x = x.clone()"),
    (
        lambda: double_factor,
        "it changes its tensor FACTOR while it runs, which replays could not repeat",
        "register it as a buffer",
    ),
    (ChangesItsParameter, "it changes its parameter p while it runs", "change it after the call"),
    (KeepsItsState, "it assigns another tensor to hidden", "register it as a buffer"),
    (
        lambda: lambda x: x * BEFORE,
        "it uses a tensor that was computed before the call, so that the tape lacks a part",
        "compute it inside the function",
    ),
    (lambda: lambda x: {"a": x}, "it returned dict, and a tape needs tensors", "return a tensor"),
    (lambda: lambda x: x.to(torch.bfloat16), "result 0 is of torch.bfloat16", "convert it: result.float()"),
    (
        lambda: nn.Linear(N, N, dtype=torch.bfloat16),
        "its parameter weight is of torch.bfloat16",
        "module.float()",
    ),
    (lambda: nn.Linear(N, N, device="meta"), "its parameter weight is on meta", "module.cpu()"),
]


@pytest.mark.parametrize(("make", "message", "hint"), REFUSED, ids=[r[1][:40] for r in REFUSED])
def test_what_cannot_be_repeated_is_refused_and_everything_stays_as_it_was(make, message, hint):
    module = make()
    x = wp.array(values(), dtype=float, requires_grad=True)
    before = (
        {n: t.clone() for n, t in getattr(module, "named_parameters", dict)()}
        if isinstance(module, nn.Module)
        else {}
    )
    with wp.Tape() as tape, pytest.raises(wp.LaunchError) as caught:
        wp.torch.function(module, name="it")(x)
    text = str(caught.value)
    assert text.startswith(f"torch.function of it: {message}")
    assert hint in text.partition("= hint: ")[2]
    assert tape.records == []
    assert x.numpy().tolist() == values().astype(np.float32).tolist()
    assert FACTOR.tolist() == [1] * N
    for name, tensor in before.items():
        if tensor.device.type == "cpu":
            assert torch.equal(dict(module.named_parameters())[name], tensor)
    if isinstance(module, KeepsItsState):
        assert not module.hidden.any()


def test_arguments_that_do_not_fit():
    net = wp.torch.function(nn.Linear(N, N), name="net")
    x = wp.array(values(), dtype=float)
    cases = {
        "no argument is an array; got Tensor": lambda: net(torch.zeros(N)),
        "out must be an array, or a tuple of arrays; got 3": lambda: net(x, out=3),
        "it returns 1 tensor, and out has 2 arrays": lambda: net(x, out=(x, x)),
        "forward returned shape (12,) for output, whose shape is (3,)": lambda: net(x, out=wp.zeros(3)),
    }
    for message, action in cases.items():
        with pytest.raises(wp.LaunchError) as caught:
            action()
        assert str(caught.value).startswith(f"torch.function of net: {message}")
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        net(wp.zeros(3))
    with pytest.raises(wp.LaunchError, match=r"torch.function: 3 cannot be called"):
        wp.torch.function(3)


def test_an_operation_that_draws_other_numbers_in_float64_is_said_to_be_in_float32():
    def gamma(x):
        return (
            x
            * torch.poisson(torch.full((N,), 30.0, dtype=x.dtype))
            * torch.bernoulli(torch.sigmoid(x.detach()) * 0 + 0.5)
        )

    tape, *_ = recorded(wp.torch.function(gamma))
    assert wp.diagnose(tape).trace.coverage.notes[0] == (
        "the float64 reference is not entirely float64: record 1 (gamma) computes in float32: it draws "
        "random numbers, and PyTorch draws others in float64"
    )


def test_a_module_that_insists_on_float32_runs_in_float32():
    def insists(x):
        assert x.dtype == torch.float32
        return torch.tanh(x) * x

    tape, *_ = recorded(wp.torch.function(insists))
    diagnosis = wp.diagnose(tape)
    assert diagnosis.verdict != "WRONG"
    assert diagnosis.trace.coverage.notes[0] == (
        "the float64 reference is not entirely float64: record 1 (insists) computes in float32: forward "
        "raises AssertionError if it is given float64"
    )


def test_launches_inside_a_function_are_part_of_it():
    def launches(x):
        a, b = wp.from_torch(x.detach()), wp.zeros(N)
        wp.launch(bent, N, inputs=[a, b])
        return x + wp.to_torch(b)

    tape, *_ = recorded(wp.torch.function(launches))
    assert [record.name for record in tape.records] == ["bent", "launches", "bent", "total"]
