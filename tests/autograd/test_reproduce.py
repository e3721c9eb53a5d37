"""Scripts of single failures: run in a process of their own, they show the same entry with AD and FD."""

import copy
import linecache
import os
import pickle
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import GradcheckFailure, GradcheckResult, gradcheck, gradcheck_tape
from tests import forked
from tests.autograd import kernels as k
from tests.processes import ROOT

HALF = 0.5
TABLE = (1.5, 2.5)
COLOURS = SimpleNamespace(red=0.25, blue=4.0)
QUIET: dict[str, Any] = {"raise_exception": False, "show_summary": False}


def run(script: str, path: Path) -> subprocess.CompletedProcess:
    path.write_text(script, encoding="utf-8")
    return started(path)


def started(path: Path) -> subprocess.CompletedProcess:
    return forked.run([str(path)], path.parent, {**os.environ, "PYTHONPATH": str(ROOT)})


def shown(result: GradcheckResult, path: Path, pair: Any = None) -> None:
    """The script of a failing pair shows the failure: the same message, the same entry, status 1."""
    pair = pair or result.failing
    assert pair is not None and pair.worst is not None, result
    script = result.reproduce(pair)
    assert script.startswith(f'"""{pair.subject}: {pair.verdict}"""\n')
    done = run(script, path / "failure.py")
    assert (done.returncode, done.stderr) == (1, ""), f"{script}\n{done.stdout}\n{done.stderr}"
    assert pair.message in done.stdout, f"{script}\n{done.stdout}"
    assert done.stdout.splitlines()[-1] == pair.worst.describe()


# ------------------------------------------------------------------ what is wrong


@wp.func
def softened(a: float):
    return a * a * HALF


@wp.func_grad(softened)
def adj_softened(a: float, adj_ret: float):
    wp.adjoint[a] += slope(a) * adj_ret


@wp.func
def slope(a: float):
    return a * 0.75  # 1.0 is right


@wp.func
def through(a: float):
    return softened(a) + COLOURS.blue


@wp.kernel
def soft(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = through(x[i])


@wp.struct
class Body:
    mass: float
    q: wp.array(dtype=wp.vec3)


@wp.struct
class World:
    body: Body
    gravity: wp.vec3


@wp.func
def pulled(v: wp.vec3, m: float):
    return v * m


@wp.func_grad(pulled)
def adj_pulled(v: wp.vec3, m: float, adj_ret: wp.vec3):
    wp.adjoint[v] += adj_ret * m * 2.0


@wp.kernel
def fall(world: World, f: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    f[i] = pulled(world.body.q[i], world.body.mass) + world.gravity


@wp.struct
class Particle:
    x: wp.vec2
    r: float


@wp.kernel
def areas(particles: wp.array(dtype=Particle), a: wp.array(dtype=float)):
    i = wp.tid()
    a[i] = through(particles[i].r) * particles[i].x[0]


@wp.kernel
def gather(x: wp.array(dtype=float), at: wp.array(dtype=int), n: int, s: float, y: wp.array(dtype=float)):
    i = wp.tid()
    if i < n:
        y[i] = through(x[at[i]]) * s


@wp.kernel
def chosen(x: wp.indexedarray(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = through(x[i])


@wp.kernel
def poses(t: wp.array(dtype=wp.transform), m: wp.array2d(dtype=wp.mat33), y: wp.array2d(dtype=wp.vec3)):
    i, j = wp.tid()
    p = wp.transform_get_translation(t[i])
    y[i, j] = m[i, j] @ pulled(p, 1.5)


@wp.kernel
def doubles(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    y[i] = wp.float64(through(float(x[i])))


@wp.kernel
def grown(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = y[i] * through(x[i])


def kernel_with_captures(power: float) -> Any:
    offset = wp.vec3(1.0, 2.0, 3.0)

    @wp.kernel(enable_backward=True)
    def captured(x: wp.array(dtype=float), y: wp.array(dtype=wp.vec3)):
        i = wp.tid()
        y[i] = offset * through(x[i]) * power * wp.static(TABLE[1])

    return captured


def vectors(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 2.0, size=shape)


def floats(*values: float) -> Any:
    return k.vector(list(values))


def struct_call() -> GradcheckResult:
    world = World()
    world.body = Body()
    world.body.mass = 2.5
    world.body.q = wp.array(vectors(2, 3), dtype=wp.vec3, requires_grad=True)
    world.gravity = wp.vec3(0.0, -9.81, 0.0)
    f = wp.zeros(2, dtype=wp.vec3, requires_grad=True)
    return gradcheck(fall, 2, [world], [f], **QUIET)


def struct_array_call() -> GradcheckResult:
    particles = wp.zeros(3, dtype=Particle, requires_grad=True)
    particles["r"].assign([0.5, 1.0, 1.5])
    particles["x"].assign(vectors(3, 2))
    return gradcheck(areas, 3, [particles], [wp.zeros(3, dtype=float, requires_grad=True)], **QUIET)


def index_call() -> GradcheckResult:
    at = wp.array([2, 0, 1], dtype=int)
    x = floats(0.5, 1.0, 1.5)
    return gradcheck(gather, 3, [x, at, 2, 3.0], [wp.zeros_like(x)], **QUIET)


def indexed_call() -> GradcheckResult:
    data = floats(0.5, 1.0, 1.5, 2.0)
    x = wp.indexedarray(data, [wp.array([3, 1], dtype=int)])
    return gradcheck(chosen, 2, [x], [wp.zeros(2, dtype=float, requires_grad=True)], **QUIET)


def compound_call() -> GradcheckResult:
    t = wp.array(vectors(2, 7), dtype=wp.transform, requires_grad=True)
    m = wp.array(vectors(2, 2, 3, 3), dtype=wp.mat33, requires_grad=True)
    y = wp.zeros((2, 2), dtype=wp.vec3, requires_grad=True)
    return gradcheck(poses, (2, 2), [t, m], [y], **QUIET)


def large_call() -> GradcheckResult:
    x = k.vector(vectors(300))
    return gradcheck(soft, 300, [x], [wp.zeros_like(x)], max_inputs_per_var=40, **QUIET)


def fine_call() -> GradcheckResult:
    broken = floats(0.5, 1.0)
    return gradcheck(almost, 2, [broken], [wp.zeros_like(broken)], atol=0.0, rtol=1e-5, **QUIET)


@wp.func
def near(a: float):
    return a * a


@wp.func_grad(near)
def adj_near(a: float, adj_ret: float):
    wp.adjoint[a] += 2.0002 * a * adj_ret


@wp.kernel
def almost(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = near(x[i])


def helper(x: Any, y: Any) -> None:
    wp.launch(soft, dim=len(x), inputs=[x], outputs=[y])


WEIGHTS = np.array([1.0, 2.0])


def model(x: Any, scale: float, state: Any, *others: Any) -> Any:
    y, z = wp.zeros_like(x), wp.zeros_like(x)
    helper(x, y)
    for _ in range(int(np.sum(WEIGHTS))):
        wp.launch(k.square, dim=len(x), inputs=[y], outputs=[z])
    return [z]


def function_call() -> GradcheckResult:
    body = Body()
    body.mass, body.q = 1.0, wp.zeros(1, dtype=wp.vec3)
    return gradcheck(model, inputs=[floats(0.5, 1.0), 2.0, body], **QUIET)


def lambda_call() -> GradcheckResult:
    return gradcheck(lambda x: model(x, 1.0, None), inputs=[floats(0.5, 1.0)], **QUIET)


def capturing_function_call() -> GradcheckResult:
    buffer = floats(3.0, 4.0)

    def scaled(x: Any) -> Any:
        wp.launch(gather, dim=2, inputs=[x, order, 2, 0.5], outputs=[buffer])
        return buffer

    order = wp.array([1, 0], dtype=int)
    return gradcheck(scaled, inputs=[floats(0.5, 1.0)], **QUIET)


def tape_call() -> GradcheckResult:
    x, y, z = floats(0.5, 1.0), floats(0.0, 0.0), floats(0.0, 0.0)
    with wp.Tape() as tape:
        wp.launch(k.square, dim=2, inputs=[x], outputs=[y])
        wp.launch(soft, dim=2, inputs=[y], outputs=[z])
    for array in (x, y, z):
        array.fill_(-7.0)  # what arrays hold later does not matter
    return gradcheck_tape(tape, **QUIET)


CALLS = {
    "functions with gradients of their own": lambda: gradcheck(
        soft, 2, [floats(0.5, 1.0)], [floats(0.0, 0.0)], **QUIET
    ),
    "nested structs": struct_call,
    "arrays of structs": struct_array_call,
    "index arrays and scalars": index_call,
    "indexed arrays": indexed_call,
    "transforms, matrices, two dimensions": compound_call,
    "float64": lambda: gradcheck(
        doubles, 2,
        [wp.array([0.5, 1.0], dtype=wp.float64, requires_grad=True)],
        [wp.zeros(2, dtype=wp.float64, requires_grad=True)], **QUIET,
    ),
    "in place": lambda: gradcheck(grown, 2, [floats(0.5, 1.0)], [floats(3.0, 4.0)], **QUIET),
    "captured constants": lambda: gradcheck(
        kernel_with_captures(1.5), 2, [floats(0.5, 1.0)],
        [wp.zeros(2, dtype=wp.vec3, requires_grad=True)], **QUIET,
    ),
    "long arrays, samples": large_call,
    "tolerances": fine_call,
    "Python functions": function_call,
    "lambdas": lambda_call,
    "functions that captured arrays": capturing_function_call,
    "launches of a tape": tape_call,
    "float32 differences": lambda: gradcheck(
        soft, 2, [floats(0.5, 1.0)], [floats(0.0, 0.0)], reference="float32", **QUIET
    ),
    "tangents": lambda: gradcheck(
        k.absolute, 2, [floats(0.0, 1.0)], [floats(0.0, 0.0)], check_forward_ad=True,
        check_backward_ad=False, **QUIET,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", CALLS)
def test_scripts_show_the_same_failure(kind: str, tmp_path: Path) -> None:
    shown(CALLS[kind](), tmp_path)


def test_a_cell_of_a_notebook(tmp_path: Path) -> None:
    cell = (
        "import tapedebug as td\n"
        "@td.func\ndef twice(a: float):\n    return a + a\n"
        "@td.func_grad(twice)\ndef adj_twice(a: float, adj_ret: float):\n    td.adjoint[a] += adj_ret\n"
        "@td.kernel\ndef in_a_cell(x: td.array(dtype=float), y: td.array(dtype=float)):\n"
        "    i = td.tid()\n    y[i] = twice(x[i])\n"
    )
    name = "/tmp/ipykernel_1/123.py"
    linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(cell, name, "exec"), scope)
    shown(gradcheck(scope["in_a_cell"], 2, [floats(0.5, 1.0)], [floats(0.0, 0.0)], **QUIET), tmp_path)


def test_status_0_once_it_is_mended(tmp_path: Path) -> None:
    x = floats(0.5, 1.0)
    script = gradcheck(soft, 2, [x], [wp.zeros_like(x)], **QUIET).reproduce()
    done = run(script.replace("a * 0.75", "a * 1.0"), tmp_path / "mended.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "Gradient check for kernel soft passed"


def test_long_arrays_go_into_a_file_beside_it(tmp_path: Path) -> None:
    result = large_call()
    inline = result.reproduce(path=tmp_path / "failure.py")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["failure.npz", "failure.py"]
    text = (tmp_path / "failure.py").read_text("utf-8")
    assert 'x = wp.array(DATA["x"], dtype=wp.float32, shape=(300,), requires_grad=True)' in text
    assert "unpacked(np.float32, (300,), (" in inline and max(map(len, inline.splitlines())) < 120
    done = started(tmp_path / "failure.py")
    assert (done.returncode, done.stderr) == (1, "")
    assert result.pairs[0].message in done.stdout


def test_values_are_those_of_the_check(tmp_path: Path) -> None:
    x = floats(0.5, 1.0)
    result = gradcheck(soft, 2, [x], [wp.zeros_like(x)], **QUIET)
    x.assign([5.0, 6.0])
    assert "x = wp.array([0.5, 1.0]," in result.reproduce()


def test_only_the_chosen_pair_is_checked() -> None:
    result = compound_call()
    script = result.reproduce(result.pairs[1])
    assert "input_output_mask=[('m', 'y')]" in script
    assert "    atol" not in script  # what is as by default is not written


# ------------------------------------------------------------------ results that travel


def test_results_can_be_pickled_and_copied_with_their_scripts(tmp_path: Path) -> None:
    result = tape_call()
    script = result.reproduce()
    for other in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result), copy.copy(result)):
        assert other == result
        assert str(other) == str(result)
        assert other.reproduce() == script
        assert other.reproduce(result.pairs[1]) == script  # a pair of the original
        assert other.failing.compared.ad.tolist() == result.failing.compared.ad.tolist()
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(result))))
    assert again.reproduce() == script


def test_of_a_long_tape_the_scripts_of_what_fails_travel() -> None:
    x, y = floats(0.5, 1.0), floats(0.0, 0.0)
    with wp.Tape() as tape:
        for _ in range(20):
            wp.launch(k.square, dim=2, inputs=[x], outputs=[y])
        wp.launch(soft, dim=2, inputs=[x], outputs=[y])
    result = gradcheck_tape(tape, **QUIET)
    other = pickle.loads(pickle.dumps(result))
    assert (len(result.scripts), sorted(other.scripts)) == (21, [*range(15), 20])
    assert other.reproduce() == result.reproduce()
    with pytest.raises(ValueError, match=r"results that were pickled keep the scripts of 16 launches\)"):
        other.reproduce(other.pairs[18])


def test_a_failure_can_be_pickled() -> None:
    with pytest.raises(GradcheckFailure) as caught:
        x = floats(0.5, 1.0)
        gradcheck(soft, 2, [x], [wp.zeros_like(x)], show_summary=False)
    other = pickle.loads(pickle.dumps(caught.value))
    assert (str(other), other.result.reproduce()) == (str(caught.value), caught.value.result.reproduce())


# ------------------------------------------------------------------ what cannot be written


class Simulation:
    def step(self, x: Any) -> Any:
        y = wp.zeros_like(x)
        helper(x, y)
        return y


SIMULATION = Simulation()


def uses_an_object(x: Any) -> Any:
    return [SIMULATION][0].step(x)


def without_source() -> Any:
    scope: dict[str, Any] = {"helper": helper, "wp": wp}
    exec("def hidden(x):\n    y = wp.zeros_like(x)\n    helper(x, y)\n    return y\n", scope)
    return scope["hidden"]


@pytest.mark.parametrize(
    "function, message",
    [
        (
            SIMULATION.step,
            "no script can be written: what was checked is a method, and its object has no source",
        ),
        (
            uses_an_object,
            "no script can be written: `uses_an_object` uses `SIMULATION`, a Simulation",
        ),
        (without_source(), "no script can be written: Python keeps no source of `hidden`"),
    ],
)
def test_what_can_not_be_written_is_said(function: Any, message: str) -> None:
    result = gradcheck(function, inputs=[floats(0.5, 1.0)], **QUIET)
    assert result.verdict == "WRONG"
    with pytest.raises(ValueError) as caught:
        result.reproduce()
    assert caught.value.message == message
    with pytest.raises(ValueError) as caught:
        pickle.loads(pickle.dumps(result)).reproduce()
    assert caught.value.message == message


def test_views_that_overlap_are_not_written_as_if_they_did_not() -> None:
    both = floats(0.5, 1.0, 1.5)
    result = gradcheck(soft, 2, [both[:2]], [both[1:]], **QUIET)
    with pytest.raises(ValueError, match="the arguments `x` and `y` share memory"):
        result.reproduce()


def test_a_pair_of_another_result() -> None:
    x = floats(0.5, 1.0)
    result = gradcheck(soft, 2, [x], [wp.zeros_like(x)], **QUIET)
    with pytest.raises(ValueError) as caught:
        result.reproduce(struct_call().pairs[0])
    assert caught.value.message == (
        "no script can be written: f with respect to world.body.q is no pair of this result"
    )
