"""The step-by-step run of one thread computes what the compiled kernel computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.runtime.replay import thread_interpreter as _thread
from tapedebug.runtime.replay.thread_interpreter import CannotFollow, ThreadInterpreter, evaluate


@wp.func
def bend(v: wp.vec3, amount: float):
    return wp.cross(v, wp.vec3(0.0, amount, 1.0)) + v * wp.length(v)


@wp.kernel
def everything(
    x: wp.array(dtype=float),
    index: wp.array(dtype=int),
    v: wp.array(dtype=wp.vec3),
    amount: float,
    rounds: int,
    out: wp.array(dtype=float),
    out_v: wp.array(dtype=wp.vec3),
):
    i = wp.tid()
    k = index[i]
    total = 0.0
    for r in range(rounds):
        if r % 2 == 0:
            total = total + wp.sin(x[k]) * float(r)
        else:
            change = wp.abs(x[k]) / (1.0 + float(r))
            total = total - change
    n = 0
    while total < 3.0:
        total = wp.abs(total) * 1.5 + 1.0
        n = n + 1
    out[i] = wp.where(total > 4.0, total, wp.pow(wp.abs(total), 0.5)) + float(n // 2) + wp.floor(x[i])
    wp.atomic_add(out, k, 0.25)
    out_v[i] = bend(v[i], amount) * wp.min(total, 2.0)


def compiled() -> tuple[Any, dict[int, np.ndarray], Any, Any]:
    rng = np.random.default_rng(5)
    values = rng.normal(size=8).astype(np.float32)
    order = rng.permutation(8).astype(np.int32)
    vectors = rng.normal(size=(8, 3)).astype(np.float32)
    arrays = {0: values, 1: order, 2: vectors, 5: np.zeros(8, np.float32), 6: np.zeros((8, 3), np.float32)}
    given = [wp.array(values, dtype=float), wp.array(order, dtype=int), wp.array(vectors, dtype=wp.vec3)]
    out, out_v = wp.zeros(8, dtype=float), wp.zeros(8, dtype=wp.vec3)
    wp.launch(everything, dim=8, inputs=[*given, 0.7, 5], outputs=[out, out_v])
    return everything._lowered.function, arrays, out, out_v


def test_all_threads_give_what_the_kernel_gives() -> None:
    function, arrays, out, out_v = compiled()
    memory = {5: arrays[5].copy(), 6: arrays[6].copy()}
    for index in range(8):
        thread = ThreadInterpreter(
            function, index, (8,), {**arrays, **memory}, {3: [0.7], 4: [5]}, frozenset({0, 2})
        )
        thread.run()
        memory = {param: thread.memory[param].reshape(values.shape) for param, values in memory.items()}
    np.testing.assert_allclose(memory[5], out.numpy(), rtol=2e-6)
    np.testing.assert_allclose(memory[6], out_v.numpy(), rtol=2e-6)


def test_finite_numbers_have_no_culprit() -> None:
    function, arrays, _, _ = compiled()
    thread = ThreadInterpreter(function, 3, (8,), arrays, {3: [0.7], 4: [5]}, frozenset({0, 2}))
    thread.run()
    assert thread.bad_value() is None
    assert thread.bad_adjoint({5: np.ones(8, np.float32), 6: np.ones((8, 3), np.float32)}) is None


def test_a_thread_that_leaves_an_array_or_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_thread, "LIMIT", 2000)
    function, arrays, _, _ = compiled()
    outside = {**arrays, 1: np.full(8, 99, np.int32)}
    with pytest.raises(CannotFollow, match=r"^index 99 is outside a dimension of 8$"):
        ThreadInterpreter(function, 0, (8,), outside, {3: [0.7], 4: [5]}, frozenset()).run()
    with pytest.raises(CannotFollow, match=r"^the thread runs too long$"):
        ThreadInterpreter(
            function,
            0,
            (8,),
            {**arrays, 0: np.full(8, np.nan, np.float32)},
            {3: [0.7], 4: [200_000]},
            frozenset(),
        ).run()


@pytest.mark.parametrize("name", sorted(__import__("tapedebug.lang.rules", fromlist=["RULES"]).RULES))
def test_every_rule_of_the_language_can_be_evaluated(name: str) -> None:
    from tapedebug.lang.rules import RULES

    text = RULES[name].text
    count = 1 + max(i for i in range(9) if f"{{{i}}}" in text)
    for kind in (np.float32, np.int32, np.bool_):
        try:
            result = evaluate(text, [kind(1)] * count)
        except CannotFollow as error:
            assert "is not defined" not in str(error), str(error)
            continue  # the rule is not for this type
        assert np.isscalar(result) or isinstance(result, (bool, int, np.generic))
