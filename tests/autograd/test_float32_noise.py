"""float32 rounding of a gradient is not taken for a wrong adjoint, and does not hide one."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import end_to_end
from tapedebug.autograd.subjects.whole_tape import WholeTape


@wp.kernel
def shift(x: wp.array(dtype=float), c: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] + c[0]


@wp.kernel
def stretch(y: wp.array(dtype=float), energy: wp.array(dtype=float)):
    i = wp.tid()
    d = y[i] - y[(i + 1) % y.shape[0]]
    wp.atomic_add(energy, 0, wp.sqrt(d * d + 0.1))


@wp.func
def length(d: float):
    return wp.sqrt(d * d + 0.1)


@wp.func_grad(length)
def adj_length(d: float, adj: float):
    wp.adjoint[d] += 1.01 * adj * d / wp.sqrt(d * d + 0.1)


@wp.func
def apart(a: float, b: float):
    return wp.sqrt((a - b) * (a - b) + 0.1)


@wp.func_grad(apart)
def adj_apart(a: float, b: float, adj: float):
    slope = adj * (a - b) / wp.sqrt((a - b) * (a - b) + 0.1)
    wp.adjoint[a] += slope
    wp.adjoint[b] += -slope * 0.9999


@wp.kernel
def stretch_by_101_percent(y: wp.array(dtype=float), energy: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(energy, 0, length(y[i] - y[(i + 1) % y.shape[0]]))


@wp.kernel
def stretch_unbalanced(y: wp.array(dtype=float), energy: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(energy, 0, apart(y[i], y[(i + 1) % y.shape[0]]))


@wp.kernel
def layer(x: wp.array(dtype=float), w: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    s = float(0.0)
    for j in range(x.shape[0]):
        s += w[i, j] * x[j]
    y[i] = wp.tanh(s)


@wp.kernel
def score(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, y[i] * y[i] * float(i + 1))


@wp.kernel
def square(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * x[i])


def floats(values):
    return wp.array(np.asarray(values, dtype=np.float32), dtype=float, requires_grad=True)


def chain(kernel, n=64):
    """A closed chain that is moved as a whole: the exact gradient with respect to `c` is 0."""
    x, c = floats(np.random.default_rng(0).normal(size=n)), floats([0.3])
    y, energy = wp.zeros(n, dtype=float, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(shift, n, inputs=[x, c, y])
        wp.launch(kernel, n, inputs=[y, energy])
    tape.backward(energy)
    return tape, energy


def net(gain, depth, seed, n=8):
    rng = np.random.default_rng(seed)
    h = [floats(rng.normal(size=n))] + [wp.zeros(n, dtype=float, requires_grad=True) for _ in range(depth)]
    weights = [floats(rng.normal(size=(n, n)) * gain / np.sqrt(n)) for _ in range(depth)]
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        for before, w, after in zip(h, weights, h[1:], strict=False):
            wp.launch(layer, n, inputs=[before, w, after])
        wp.launch(score, n, inputs=[h[-1], loss])
    tape.backward(loss)
    return tape, loss


def many(n):
    xs = [floats(np.arange(1.0, 5.0) * (1 + i % 7)) for i in range(n)]
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        for x in xs:
            wp.launch(square, 4, inputs=[x, loss])
    tape.backward(loss)
    return tape, loss, xs


def test_terms_that_cancel_to_rounding_agree():
    tape, energy = chain(stretch)
    result = end_to_end(tape, energy)
    found = {check.name: check for check in result.inputs}
    assert result.verdict == "AGREE", str(result)
    assert found["c"].consumed.any()  # rounding left something
    assert "which float32 rounding explains: terms that cancel, to" in found["c"].message


@pytest.mark.parametrize("kernel", [stretch_by_101_percent, stretch_unbalanced])
def test_terms_that_cancel_hide_no_wrong_adjoint(kernel):
    tape, energy = chain(kernel)
    assert end_to_end(tape, energy).verdict == "WRONG"


@pytest.mark.parametrize("wrong", [5e-5, -5e-5])
def test_a_term_too_many_in_float32_is_no_rounding(wrong, monkeypatch):
    """The difference is a millionth of the sum of all terms, before they cancel."""
    pull = WholeTape.pull

    def tampered(self, seeds, *, double=False, **options):
        found = pull(self, seeds, double=double, **options)
        seed = float(next(iter(seeds.values()))[0])
        return found if double else {p: g + (wrong * seed if p.name == "c" else 0) for p, g in found.items()}

    monkeypatch.setattr(WholeTape, "pull", tampered)
    tape, energy = chain(stretch)
    assert end_to_end(tape, energy).verdict == "WRONG"


@pytest.mark.parametrize("gain", [20, 40, 60])
@pytest.mark.parametrize("seed", range(4))
def test_a_saturated_net_is_not_wrong(gain, seed):
    for depth in (1, 2, 3):
        tape, loss = net(gain, depth, seed)
        assert end_to_end(tape, loss).verdict in ("AGREE", "UNDECIDABLE")


@pytest.mark.parametrize("factor", [1.02, -1.0, 0.0])
def test_rounding_within_a_launch_hides_no_wrong_float32_adjoint(factor, monkeypatch):
    pull = WholeTape.pull

    def tampered(self, seeds, *, double=False, **options):
        found = pull(self, seeds, double=double, **options)
        return found if double else {port: factor * gradient for port, gradient in found.items()}

    monkeypatch.setattr(WholeTape, "pull", tampered)
    tape, loss = net(2.0, 3, 0)
    assert end_to_end(tape, loss).verdict == "WRONG"


def test_a_shadow_forgets_inputs_that_overlap():
    x = floats([1.0, 2.0, 3.0, 4.0])
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 4, inputs=[x, loss])
        wp.launch(square, 3, inputs=[x[1:], loss])
    shadow = tape.replay(dtype=wp.float64, stop=0)
    shadow.set(x, np.full(4, 9.0))
    shadow.set(tape.records[1].args[0], np.full(3, 8.0))
    assert shadow.forward(0).values(loss)[0] == 81 + 6 * 64
    assert shadow.reset().values(x).tolist() == [1, 2, 3, 4]
    assert shadow.forward(0).values(loss)[0] == 30 + 29


def test_many_inputs_are_displaced_together():
    tape, loss, _ = many(200)
    began = time.perf_counter()
    result = end_to_end(tape, loss)
    assert result.verdict == "AGREE", str(result)
    assert len(result.inputs) == 200
    # How many are displaced alone depends on the seconds that a run takes.
    pattern = r"of 200 inputs, 19\d were displaced together in random directions, \d one by one"
    assert any(re.fullmatch(pattern, note) for note in result.coverage.notes)
    assert time.perf_counter() - began < 10


@wp.func
def cube(x: float):
    return x * x * x


@wp.func_grad(cube)
def adj_cube(x: float, adj: float):
    wp.adjoint[x] += 3.0 * 1.01 * x * x * adj


@wp.kernel
def cubes(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, cube(x[i]))


def test_one_wrong_input_of_many_is_found():
    xs = [floats(np.arange(1.0, 5.0)) for _ in range(60)]
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        for number, x in enumerate(xs):
            wp.launch(cubes if number == 37 else square, 4, inputs=[x, loss])
    tape.backward(loss)
    result = end_to_end(tape, loss)
    wrong = [number for number, check in enumerate(result.inputs) if check.verdict == "WRONG"]
    assert wrong == [37]
    assert {check.verdict for check in result.inputs} == {"WRONG", "AGREE"}
