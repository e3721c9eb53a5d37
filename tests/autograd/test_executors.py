"""`executor=`: the same check by threads, processes and a Dask cluster, the same to the last bit."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import GradcheckResult, gradcheck_tape
from tapedebug.autograd.subjects import pickling
from tapedebug.runtime.state import state
from tests.autograd import kernels as k
from tests.processes import ROOT

QUIET: dict[str, Any] = {"show_summary": False, "raise_exception": False, "progress": False}
FACTOR = 3.0


@wp.struct
class State:
    q: wp.array(dtype=wp.vec3)  # type: ignore[valid-type]
    scale: float


@wp.func
def tripled(x: float):  # type: ignore[no-untyped-def]
    return FACTOR * x


@wp.func_grad(tripled)
def adj_tripled(x: float, adj_ret: float):  # type: ignore[no-untyped-def]
    wp.adjoint[x] += 2.0 * adj_ret


@wp.kernel
def lengths(state: State, y: wp.array(dtype=float)):  # type: ignore[valid-type]
    i = wp.tid()
    y[i] = wp.length(state.q[i]) * state.scale


@wp.kernel
def thrice(x: wp.array(dtype=float), y: wp.array(dtype=float)):  # type: ignore[valid-type]
    i = wp.tid()
    y[i] = tripled(x[i])


def powers(exponent: int) -> Any:
    """A kernel that no other process finds by a name."""

    @wp.func
    def power(x: float):  # type: ignore[no-untyped-def]
        y = float(1.0)
        for _ in range(exponent):
            y = y * x
        return y

    @wp.kernel
    def powered(x: wp.array(dtype=float), y: wp.array(dtype=float)):  # type: ignore[valid-type]
        i = wp.tid()
        y[i] = power(x[i])

    return powered


def tape_of_many() -> tuple[wp.Tape, list[Any]]:
    """Kernels of modules and of none, structs, views, in-place launches, overwrites, a wrong adjoint."""
    rng = np.random.default_rng(3)
    state = State()
    state.q = wp.array(rng.normal(size=(6, 3)), dtype=wp.vec3, requires_grad=True)
    state.scale = 0.5
    whole = k.vector(rng.uniform(0.5, 1.5, 12))
    x, y = whole[0:6], whole[6:12]
    own = powers(3)
    with wp.Tape() as tape:
        for _ in range(4):
            wp.launch(lengths, 6, [state, x])
            wp.launch(k.square, 6, [x, y])
            wp.launch(own, 6, [y, x])
            wp.launch(k.times, 6, [x, y])
        wp.launch(thrice, 6, [x, y])
    return tape, [state.q, whole]


def bits(result: GradcheckResult) -> bytes:
    """Everything but how long it took."""
    pairs = [{**vars(pair), "seconds": 0.0, "compared": None} for pair in result.pairs]
    compared = [c and [c.rows, c.columns, c.ad, c.fd, c.bar] for c in (p.compared for p in result.pairs)]
    shown = [pickle.dumps([a.tobytes() for a in part] if part else None) for part in compared]
    return repr((pairs, result.coverage, result.dot_products, result.verdict, shown)).encode()


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.fixture
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(3) as pool:
        yield pool


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_pools_give_the_same_to_the_last_bit(kind: str, request: pytest.FixtureRequest) -> None:
    tape, arrays = tape_of_many()
    before = [a.numpy().tobytes() for a in arrays]
    pool = request.getfixturevalue(kind)
    alone = gradcheck_tape(tape, **QUIET)
    assert alone.verdict == "WRONG"
    assert [(p.launch, p.verdict) for p in alone.pairs if p.verdict != "AGREE"] == [(16, "WRONG")]
    shared = gradcheck_tape(tape, executor=pool, **QUIET)
    assert bits(shared) == bits(alone)
    assert shared.reproduce() == alone.reproduce()
    backwards = gradcheck_tape(tape, executor=pool, reverse_launches=True, **QUIET)
    assert [p.launch for p in backwards.pairs] == sorted((p.launch for p in alone.pairs), reverse=True)
    assert [a.numpy().tobytes() for a in arrays] == before


def test_masks_and_lists_hold_for_workers(processes: Executor) -> None:
    tape, _ = tape_of_many()
    how: dict[str, Any] = {"whitelist_kernels": ["times"], "input_output_masks": {7: [("y", "y")]}, **QUIET}
    assert bits(gradcheck_tape(tape, executor=processes, **how)) == bits(gradcheck_tape(tape, **how))


def test_a_dask_cluster_gives_the_same_to_the_last_bit() -> None:
    distributed = pytest.importorskip("distributed")
    tape, _ = tape_of_many()
    alone = gradcheck_tape(tape, **QUIET)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        shared = gradcheck_tape(tape, executor=client.get_executor(), **QUIET)
    assert bits(shared) == bits(alone)


def test_settings_travel_with_the_work(processes: Executor) -> None:
    x, y = k.vector([0.0, 4.0]), k.vector([0.0, 0.0])
    with wp.Tape() as tape:
        wp.launch(k.root, 2, [x, y])
    plain = gradcheck_tape(tape, executor=processes, **QUIET)
    assert wp.config.strong_zero is False
    wp.config.strong_zero = True
    try:
        strong = gradcheck_tape(tape, executor=processes, **QUIET)
        assert bits(strong) == bits(gradcheck_tape(tape, **QUIET))
    finally:
        wp.config.strong_zero = False
    assert bits(gradcheck_tape(tape, executor=processes, **QUIET)) == bits(plain)


SCRIPT = """
import pickle, sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import tapedebug as wp

vec5 = wp.types.vector(length=5, dtype=wp.float64)


@wp.struct
class Pair:
    a: wp.array(dtype=vec5)
    b: float


@wp.func_native("return 2.0f * x;", adj_snippet="adj_x += 2.0f * adj_ret;")
def twice(x: float) -> float: ...


@wp.kernel
def mixed(pair: Pair, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = twice(float(pair.a[i][2])) * pair.b


if __name__ == "__main__":
    pair = Pair()
    pair.a = wp.array([[1.0, 2.0, 3.0, 4.0, 5.0]] * 2, dtype=vec5, requires_grad=True)
    pair.b = 0.5
    y = wp.zeros(2, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(mixed, 2, [pair, y])
    alone = wp.autograd.gradcheck_tape(tape, show_summary=False)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        shared = wp.autograd.gradcheck_tape(tape, show_summary=False, executor=pool)
    assert [p.max_abs_error for p in shared.pairs] == [p.max_abs_error for p in alone.pairs]
    print(shared.verdict, shared.coverage)
"""


def test_kernels_of_a_script_go_with_their_source(tmp_path: Any) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.stdout == (
        "AGREE 1 of 1 launches checked one by one: 1 input-output pairs, 20 of 20 entries\n"
    ), done.stderr


def test_without_cloudpickle_the_mend_is_told(monkeypatch: pytest.MonkeyPatch, processes: Executor) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    tape, _ = tape_of_many()
    with pytest.raises(wp.GradcheckError) as caught:
        gradcheck_tape(tape, executor=processes, **QUIET)
    assert str(caught.value) == (
        "`powered` is not in a module that workers can import, and sending it needs cloudpickle, which is "
        "not installed\n"
        "  = hint: pip install cloudpickle, or put the kernel into a module"
    )
    own = next(r.kernel.key for r in tape.records if "powered" in r.kernel.key)
    named = gradcheck_tape(tape, executor=processes, blacklist_kernels=[own], **QUIET)
    assert len(named.pairs) == 4 * (1 + 1 + 2) + 1


# ------------------------------------------------------------------ what goes wrong


class Broken(Executor):
    """Fails as it is told."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future:
        found: Future = Future()
        found.set_exception(self.error)
        return found


def test_what_a_worker_or_pool_dies_of_is_told() -> None:
    tape, _ = tape_of_many()
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pool.submit(os._exit, 1)
        with pytest.raises(wp.GradcheckError) as caught:
            gradcheck_tape(tape, executor=pool, **QUIET)
    assert caught.value.message.startswith("gradcheck_tape: the executor ")
    with pytest.raises(wp.GradcheckError) as caught:
        gradcheck_tape(tape, executor=pool, **QUIET)
    assert caught.value.message.startswith("gradcheck_tape: the executor takes no work (")
    with pytest.raises(wp.GradcheckError) as caught:
        gradcheck_tape(tape, executor=Broken(OSError("disk full")), **QUIET)
    assert caught.value.message == (
        "gradcheck_tape: a worker failed over launch 0 (lengths): OSError: disk full"
    )
    messages = wp.GradcheckError("a mask names what there is not", hint="name it")
    with pytest.raises(wp.GradcheckError) as caught:
        gradcheck_tape(tape, executor=Broken(messages), **QUIET)
    assert caught.value is messages
    with pytest.raises(wp.GradcheckError) as caught:
        gradcheck_tape(tape, executor=4, **QUIET)
    assert str(caught.value) == (
        "gradcheck_tape: executor is one of concurrent.futures; got 4 (int)\n"
        "  = hint: pass a ThreadPoolExecutor or ProcessPoolExecutor, or client.get_executor() of Dask"
    )


def test_errors_of_a_worker_are_ours(processes: Executor) -> None:
    tape, _ = tape_of_many()
    with pytest.raises(wp.GradcheckError) as caught:
        gradcheck_tape(tape, executor=processes, input_output_masks={"square": [("nothing", "y")]}, **QUIET)
    assert caught.value.message == (
        "launch 1 (square): the input-output mask names the input 'nothing'; the inputs are 0: x"
    )


def test_an_interrupt_cancels_what_waits_and_ends_what_runs() -> None:
    tape, arrays = tape_of_many()
    before = [a.numpy().tobytes() for a in arrays]

    class Interrupted(ThreadPoolExecutor):
        submitted: list[Future] = []

        def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future:
            self.submitted.append(super().submit(function, *args))
            if len(self.submitted) == 4:
                raise KeyboardInterrupt
            return self.submitted[-1]

    with Interrupted(2) as pool:
        with pytest.raises(KeyboardInterrupt):
            gradcheck_tape(tape, executor=pool, **QUIET)
        assert all(future.done() for future in pool.submitted[:3]), "none goes on in this process"
    assert (state.tape, [a.numpy().tobytes() for a in arrays]) == (None, before)


def test_threads_share_one_process_many_times() -> None:
    tape, _ = tape_of_many()
    alone = bits(gradcheck_tape(tape, **QUIET))
    for _ in range(5):
        with ThreadPoolExecutor(8) as pool:
            assert bits(gradcheck_tape(tape, executor=pool, **QUIET)) == alone
        assert state.tape is None


# ------------------------------------------------------------------ kernels as bytes


def test_what_is_in_a_module_goes_by_its_name() -> None:
    for thing in (k.square, thrice, tripled, adj_tripled, State, wp.vec3, wp):
        assert pickling.loads(pickling.dumps(thing, "test"))[1] is thing


def test_another_version_of_a_module_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pickling.dumps(k.square, "test")
    monkeypatch.setattr(k, "square", k.cube)
    with pytest.raises(wp.GradcheckError) as caught:
        pickling.loads(data)
    assert caught.value.message == (
        "`square` of the module tests.autograd.kernels is another one for the worker than for the process "
        "that sent it"
    )


CELL = """
@wp.struct
class Spring:
    stiffness: float
    rest: wp.vec3


@wp.func
def softened(x: float):
    return wp.sqrt(x * x + 0.01)


@wp.func_grad(softened)
def adj_softened(x: float, adj_ret: float):
    wp.adjoint[x] += 5.0 * adj_ret


@wp.func
def count(x: wp.array(dtype=float), i: int):
    x[i] += 1.0
    return x[i]


@wp.func_replay(count)
def replay_count(x: wp.array(dtype=float), i: int):
    return x[i]


@wp.kernel
def pull(spring: Spring, x: wp.array(dtype=float), y: wp.array(dtype=float), seen: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = softened(x[i]) * spring.stiffness * count(seen, i) + spring.rest[2] * FACTOR


@wp.kernel
def doubled(x: wp.array(dtype=Any), y: wp.array(dtype=Any)):
    i = wp.tid()
    y[i] = x[i] + x[i]
    '''
left of the definition
    '''
"""

SENDER = """
import linecache, sys
from typing import Any
import tapedebug as wp
from tapedebug.autograd.subjects import pickling

FACTOR = 4.0
if __name__ == "__main__":
    cell = open(sys.argv[1]).read()
    linecache.cache["<cell>"] = len(cell), None, cell.splitlines(keepends=True), "<cell>"
    exec(compile(cell, sys.argv[2] or "<cell>", "exec"))
    half = wp.zeros(1, dtype=wp.float64)
    wp.launch(doubled, 1, [half, half])
    [instance] = doubled.instances.values()
    with open(sys.argv[3], "wb") as file:
        file.write(pickling.dumps((pull, Spring, doubled, instance), "test"))
"""

RECEIVER = """
import sys
import tapedebug as wp
from tapedebug.autograd.subjects import pickling

_, (pull, Spring, doubled, instance) = pickling.loads(open(sys.argv[1], "rb").read())
spring = Spring()
spring.stiffness, spring.rest = 2.0, wp.vec3(0.0, 0.0, 10.0)


def run():
    x = wp.array([3.0], dtype=float, requires_grad=True)
    y, seen, z = wp.zeros_like(x), wp.zeros_like(x), wp.zeros_like(x)
    with wp.Tape() as tape:
        wp.launch(pull, 1, [spring, x, y, seen])
        wp.launch(doubled, 1, [y, z])
    tape.backward(grads={z: wp.ones(1, dtype=float)})
    print(y.numpy().round(3), z.numpy().round(3), x.grad.numpy())


run()
wp.config.max_unroll = 3  # reads the source again
pull.renew()
run()
a, b = wp.array([1.5], dtype=wp.float64), wp.zeros(1, dtype=wp.float64)
wp.launch(instance, 1, [a, b])
print(b, instance.generic is doubled)
try:
    wp.launch(pull, 1, [1.0, a, b, a])
except wp.TapedebugError as error:
    print(error)
"""


@pytest.mark.parametrize("kind", ["a file that is gone", "a cell"])
def test_the_source_goes_with_kernels_of_no_module(kind: str, tmp_path: Any) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    sender, cell, data = tmp_path / "sender.py", tmp_path / "cell.py", tmp_path / "data"
    sender.write_text(SENDER)
    cell.write_text(CELL)
    named = str(cell) if kind == "a file that is gone" else ""
    sent = subprocess.run(
        [sys.executable, sender, cell, named, data],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert (sent.stdout, sent.stderr) == ("", "")
    cell.unlink()
    sender.unlink()
    done = subprocess.run(
        [sys.executable, "-c", RECEIVER, data], capture_output=True, text=True, env=environment, check=False
    )
    assert done.stderr == ""
    values, error = done.stdout.splitlines()[:3], "\n".join(done.stdout.splitlines()[3:])
    assert values == [*["[46.003] [92.007] [20.]"] * 2, "[3.] True"]
    lines = error.splitlines()
    assert lines[1].startswith("  --> <string>:"), "the call is in the receiver"
    assert [lines[0], *lines[-2:]] == [
        "launch of pull: argument 'spring' (number 1) must be Spring; got 1.0 (float)",
        f"  = note: pull declares it at {named or '<cell>'}:30: spring: Spring",
        "  = hint: pass an instance of Spring",
    ]


def test_a_lambda_of_map_travels_with_its_tree() -> None:
    x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.map(lambda v: v * FACTOR, x)
    [kernel] = [record.kernel for record in tape.records]
    again = pickling.loads(pickling.dumps(kernel, "test"))[1]
    y = wp.zeros_like(x)
    wp.launch(again, 2, [x, y])
    assert y.numpy().tolist() == [3.0, 6.0]


def test_generic_kernels_and_options_travel() -> None:
    @wp.kernel(enable_backward=False)
    def generic(x: wp.array(dtype=Any), y: wp.array(dtype=Any)):  # type: ignore[valid-type]
        i = wp.tid()
        y[i] = x[i] + x[i]

    x, y = wp.array([1.0], dtype=wp.float64), wp.zeros(1, dtype=wp.float64)
    wp.launch(generic, 1, [x, y])
    [instance] = generic.instances.values()
    again = pickling.loads(pickling.dumps(instance, "test"))[1]
    assert (again.types, again.enable_backward, again.key) == (instance.types, False, instance.key)
    wp.launch(again, 1, [x, y])
    assert y.numpy().tolist() == [2.0]
