"""Seeds that a program writes into gradients before a bare `backward()` count like those of `grads=`.

Each way to set a seed × each kind of bug (and a right program) × each check must say what it says of
`backward(grads={y: seed})`.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.trace import load_trace
from tests.diagnose.training_loop import alarms, found, line_of

N = 4
SEED = np.array([1.0, -2.0, 0.5, 3.0], np.float32)


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def negate(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = -x[i]


@wp.func
def cube(v: float):
    return v * v * v


@wp.func_grad(cube)
def adj_cube(v: float, adj_ret: float):
    wp.adjoint[v] += 2.0 * v * v * adj_ret


@wp.kernel
def cubes(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = cube(x[i])


@wp.kernel
def crates(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.floor(3.3 * x[i])


@wp.kernel
def repeated(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    s = x[i]
    for _ in range(n):
        s = s * s * 0.5 + x[i]
    y[i] = s


@wp.kernel
def racing(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i // 2] = x[i] * x[i]


@wp.kernel
def fill_in(seed: wp.array(dtype=float), gradient: wp.array(dtype=float)):
    i = wp.tid()
    gradient[i] = seed[i]


Made = tuple[wp.Tape, Any, Any, bool]
"""A tape that has not run backward, its input and output, and whether it is diagnosed as for Warp."""


def arrays(count: int) -> list[Any]:
    x = wp.array(np.linspace(0.6, 1.3, N), dtype=float, requires_grad=True)
    return [x, *(wp.zeros(N, dtype=float, requires_grad=True) for _ in range(count))]


def overwrite(mode: str | None) -> Made:
    x, y, z = arrays(2)
    with wp.Tape(on_overwrite=mode) as tape:
        wp.launch(square, dim=N, inputs=[x], outputs=[y])
        wp.launch(negate, dim=N, inputs=[y], outputs=[x])
        wp.launch(negate, dim=N, inputs=[y], outputs=[z])
    return tape, x, z, mode is None


def one_kernel(kernel: Any, as_warp: bool = False, *numbers: int) -> Made:
    x, y = arrays(1)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=N, inputs=[x, *numbers], outputs=[y])
    return tape, x, y, as_warp


def cut_chain() -> Made:
    x, y = arrays(1)
    between = wp.zeros(N, dtype=float)
    with wp.Tape() as tape:
        wp.launch(square, dim=N, inputs=[x], outputs=[between])
        wp.launch(negate, dim=N, inputs=[between], outputs=[y])
    return tape, x, y, False


PROGRAMS: dict[str, Callable[[], Made]] = {
    "overwrite": functools.partial(overwrite, "ignore"),
    "overwrite as Warp": functools.partial(overwrite, None),
    "wrong func_grad": functools.partial(one_kernel, cubes),
    "cut chain": cut_chain,
    "flat operation": functools.partial(one_kernel, crates),
    "dynamic loop as Warp": functools.partial(one_kernel, repeated, True, 3),
    "race": functools.partial(one_kernel, racing),
    "right": functools.partial(one_kernel, square),
}


def by_fill(y: Any, seed: Any) -> None:
    y.grad.fill_(1.0)


def by_assign(y: Any, seed: Any) -> None:
    y.grad.assign(seed)


def by_grad(y: Any, seed: Any) -> None:
    y.grad = wp.array(seed, dtype=float)


def by_numpy(y: Any, seed: Any) -> None:
    y.grad.numpy()[:] = seed


def by_copy(y: Any, seed: Any) -> None:
    wp.copy(y.grad, wp.array(seed, dtype=float))


def by_kernel(y: Any, seed: Any) -> None:
    wp.launch(fill_in, dim=N, inputs=[wp.array(seed, dtype=float)], outputs=[y.grad])


def by_slice(y: Any, seed: Any) -> None:
    y[: N // 2].grad.assign(seed[: N // 2])
    y[N // 2 :].grad.assign(seed[N // 2 :])


def by_torch(y: Any, seed: Any) -> None:
    pytest.importorskip("torch")
    shared: Any = wp.to_torch(y.grad)
    shared.copy_(importlib.import_module("torch").from_numpy(seed))


def by_torch_tensor(y: Any, seed: Any) -> None:
    torch: Any = pytest.importorskip("torch")
    y.grad = wp.from_torch(torch.tensor(seed))


WAYS = [
    by_fill,
    by_assign,
    by_grad,
    by_numpy,
    by_copy,
    by_kernel,
    by_slice,
    by_torch,
    by_torch_tensor,
]


def run(program: str, way: Callable[[Any, Any], None] | None, seed: Any) -> tuple[wp.Tape, Any, bool]:
    tape, x, y, as_warp = PROGRAMS[program]()
    if way is None:
        tape.backward(grads={y: wp.array(seed, dtype=float)})
    else:
        way(y, seed)
        tape.backward()
    return tape, x, as_warp


def plain(text: str) -> str:
    """A message without the lines of this file, and the numbers that timing changes."""
    return re.sub(r"\.py:\d+", ".py", text)


def messages(tape: wp.Tape, x: Any, as_warp: bool) -> dict[str, Any]:
    """All that is said of a tape that ran backward."""
    found = wp.diagnose(tape, as_warp=as_warp, progress=False)
    check = wp.autograd.gradcheck_tape(tape, end_to_end=True, show_summary=False, raise_exception=False)
    alone = wp.autograd.gradcheck_tape(tape, show_summary=False, raise_exception=False)
    try:
        asserted = wp.autograd.assert_gradients(tape, loss=tape.backward_calls[-1].seeds).verdict
    except AssertionError as error:
        asserted = plain(str(error))
    return {
        "gradient": x.grad.numpy().tolist(),
        "verdict": found.verdict,
        "findings": [
            (item.rule, item.severity, plain(item.message), item.launches, item.arrays, item.fix)
            for item in found.findings
        ],
        "coverage": (found.coverage.summary, found.coverage.notes),
        "loss": found.trace.backward.loss,
        "checks": [(item.input, item.output, item.verdict, item.message) for item in found.trace.checks],
        "end to end": (check.verdict, [(pair.input, pair.output, pair.verdict) for pair in check.pairs]),
        "launches": (alone.verdict, [(pair.input, pair.output, pair.verdict) for pair in alone.pairs]),
        "asserted": asserted,
    }


@functools.cache
def told_with_grads(program: str, ones: bool) -> dict[str, Any]:
    return messages(*run(program, None, np.ones(N, np.float32) if ones else SEED))


EXPECTED = {
    "overwrite": ("WRONG", "overwrite"),
    "overwrite as Warp": ("AGREE", "overwrite"),
    "wrong func_grad": ("WRONG", "custom-grad"),
    "cut chain": ("WRONG", "disconnected"),
    "flat operation": ("AGREE", "flat-op"),
    "dynamic loop as Warp": ("AGREE", "warp-limitation"),
    "race": ("AGREE", "race"),
    "right": ("AGREE", None),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_bug_is_found_with_grads(program: str) -> None:
    """The diagnosis that the others are compared with is as expected."""
    says = told_with_grads(program, True)
    verdict, rule = EXPECTED[program]
    serious = [(found, severity) for found, severity, *_ in says["findings"] if severity != "info"]
    assert (says["verdict"], [found for found, _ in serious]) == (verdict, [rule] if rule else []), says
    assert all(severity == "error" for found, severity in serious if found != "flat-op"), serious


@pytest.mark.sweep
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_seed_in_the_gradient_says_the_same(program: str, way: Callable[[Any, Any], None]) -> None:
    assert messages(*run(program, way, SEED)) == told_with_grads(program, way is by_fill)


# Which pass, and which objective ---------------------------------------------------------------------------


@wp.kernel
def add_up(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, y[wp.tid()])


def with_losses(count: int = 1) -> tuple[wp.Tape, Any, Any, list[Any]]:
    """Squares of x in y, and their sum in each of some losses."""
    x, y = arrays(1)
    losses = [wp.zeros(1, dtype=float, requires_grad=True) for _ in range(count)]
    return summed(x, y, losses), x, y, losses


def summed(x: Any, y: Any, losses: list[Any]) -> wp.Tape:
    with wp.Tape() as tape:
        wp.launch(square, dim=N, inputs=[x], outputs=[y])
        for loss in losses:
            wp.launch(add_up, dim=N, inputs=[y], outputs=[loss])
    return tape


def here(code: str) -> int:
    return line_of(code, __file__)


def test_a_loss_whose_gradient_was_set_to_1_is_the_loss() -> None:
    """Also where the gradients were zeroed since, and where a second pass began elsewhere."""
    tape, _, y, (loss,) = with_losses()
    loss.grad.fill_(1.0)
    tape.backward()
    tape.zero()
    for named in (None, loss):
        assert alarms(tape, loss=named) == []
        assert wp.diagnose(tape, loss=named, progress=False).verdict == "AGREE"
    y.grad.fill_(1.0)
    tape.backward()
    assert alarms(tape, loss=loss) == [], "the first pass was that of the loss"


def test_the_array_that_serves_as_a_seed_twice_is_0_the_second_time() -> None:
    seed = wp.ones(1, dtype=float)
    found_in = []
    for _ in range(2):
        tape, _, _, (loss,) = with_losses()
        loss.grad = seed
        tape.backward()
        tape.zero()
        found_in.append(found(tape, "seed", loss=loss))
    assert found_in[0] == []
    (finding,) = found_in[1]
    assert finding.severity == "error"
    assert "without a seed, and the objective is loss: the consumed gradient is 0" in finding.message


def test_a_seed_beside_the_loss_that_was_named_is_an_error() -> None:
    tape, _, y, (loss,) = with_losses()
    y.grad.assign(SEED)
    tape.backward(loss)
    assert alarms(tape) == [], "who says nothing else means both"
    (note,) = [text for text in wp.diagnose(tape, progress=False).coverage.notes if "seed" in text]
    assert note == "the pass began also from what the gradient of y held: that counts as a seed"
    (finding,) = found(tape, "seed", loss=loss)
    line = here("y.grad.assign(SEED)") + 1
    assert finding.message == (
        f"Backward ran at test_preset_seeds.py:{line} from loss and from what the gradient of y held, and "
        "the objective is loss: the consumed gradient differs from it, and not by a constant factor."
    )
    assert (finding.severity, finding.fix) == ("error", "call y.grad.zero_() before backward")
    assert wp.diagnose(tape, loss=loss, progress=False).verdict == "WRONG"


def test_what_the_pass_of_another_tape_left_is_a_warning() -> None:
    tape, x, y, losses = with_losses(2)
    tape.backward(losses[0])
    x.grad.zero_()
    again = summed(x, y, losses)
    again.backward(losses[1])
    (finding,) = found(again, "seed")
    assert finding.message == (
        f"Backward ran at test_preset_seeds.py:{here('again.backward(losses[1])')} from loss, and the "
        "gradient of losses[0] was not 0 then: an earlier pass had left it there. It counts as a seed, too, "
        "and changes the gradient of x by 100 %."
    )
    assert finding.severity == "warning"
    assert finding.fix == "call losses[0].grad.zero_() before backward, or tape.zero() after each pass"
    assert finding.evidence["relative_change"] == {"x": pytest.approx(1.0)}
    tape.zero()
    once_more = summed(x, y, losses)
    once_more.backward(losses[1])
    assert alarms(once_more) == []


def test_the_same_loss_once_more_is_no_warning() -> None:
    """Its gradient still is 1, and a bare pass begins from there, as in Warp."""
    tape, x, y, losses = with_losses()
    tape.backward(losses[0])
    x.grad.zero_()
    again = summed(x, y, losses)
    again.backward()
    assert alarms(again) == [] and wp.diagnose(again, progress=False).verdict == "AGREE"
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.numpy())


def test_a_pass_from_nothing_checks_nothing() -> None:
    tape, _, y, _ = with_losses(0)
    tape.backward()  # from nothing
    result = wp.diagnose(tape, progress=False)
    (finding,) = result.findings
    assert finding.message == (
        f"Backward ran at test_preset_seeds.py:{here('# from nothing')} without a seed: it was given no loss "
        "and no grads, and the gradients of all that the tape writes (y) were 0. So it added 0 to every "
        "gradient."
    )
    assert (finding.rule, finding.severity) == ("seed", "warning")
    assert finding.fix == "call backward(loss) or backward(grads={y: seed}), or set y.grad before it"
    assert result.verdict == "NOT CHECKED"
    with pytest.raises(wp.TapedebugError, match="no loss is known: the last backward began without a seed"):
        wp.autograd.gradcheck_tape(tape, end_to_end=True, show_summary=False)
    y.grad.fill_(1.0)
    tape.backward()
    assert wp.diagnose(tape, progress=False).verdict == "AGREE"


def test_a_pass_from_nothing_is_compared_with_the_only_loss() -> None:
    tape, _, _, _ = with_losses()
    tape.backward()
    (finding,) = found(tape, "seed")
    assert "without a seed, and the objective is loss: the consumed gradient is 0" in finding.message
    assert wp.diagnose(tape, progress=False).verdict == "WRONG"


def test_zeros_that_somebody_wrote_are_meant() -> None:
    """The pass of another tape may have given nothing; a function of the user's may give the seeds."""
    tape, x, y, _ = with_losses(0)
    z = wp.zeros(N, dtype=float, requires_grad=True)
    with wp.Tape() as after:
        wp.launch(square, dim=N, inputs=[y], outputs=[z])
    after.backward(grads={z: np.zeros(N)})
    tape.backward()
    assert alarms(tape) == []
    x, y = arrays(1)
    with wp.Tape() as tape:
        wp.launch(square, dim=N, inputs=[x], outputs=[y])
        tape.record_func(lambda: y.grad.fill_(1.0), arrays=[y])
    tape.backward()
    assert x.grad.numpy().all() and alarms(tape) == []


def test_before_the_first_pass_the_gradients_tell_what_it_would_begin_from() -> None:
    tape, _, z, _ = overwrite("ignore")
    z.grad.fill_(1.0)
    result = wp.diagnose(tape, progress=False)
    assert result.verdict == "WRONG" and [item.rule for item in result.findings] == ["overwrite"]
    assert (
        "backward was not called: it would begin from what the gradient of z holds" in result.coverage.notes
    )
    assert not wp.autograd.gradcheck_tape(tape, end_to_end=True, show_summary=False, raise_exception=False)
    assert z.grad.numpy().tolist() == [1.0] * N, "nothing was changed"


def test_a_diagnosis_is_about_the_seeds_of_the_pass_that_ran() -> None:
    tape, _, y, _ = one_kernel(racing)
    y.grad.fill_(1.0)
    tape.backward()
    for later in (0.0, 5.0):
        y.grad.fill_(later)
        assert [item.severity for item in found(tape, "race")] == ["error"]


def test_a_saved_trace_is_that_of_the_same_program_with_grads(tmp_path: Any) -> None:
    saved = []
    for way in (None, by_fill):
        tape, _, _ = run("overwrite", way, np.ones(N, np.float32))
        diagnosis = wp.diagnose(tape, progress=False)
        path = tmp_path / f"{way}.trace"
        diagnosis.trace.save(path)
        saved.append(load_trace(path))
    one, other = saved
    assert one.backward.loss == other.backward.loss is not None
    assert one.verdict == other.verdict == "WRONG"
    assert [plain(item.message) for item in one.findings] == [plain(item.message) for item in other.findings]
    norms = [[v.adjoint and v.adjoint.norm for v in trace.versions] for trace in saved]
    assert norms[0] == norms[1] and any(norms[0])
