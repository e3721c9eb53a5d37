"""Python functions in place of kernels: what they may take, return, draw and do, and what is refused."""

import functools
import random
from typing import Any, NamedTuple

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import gradcheck, jacobian, jacobian_fd
from tests.autograd import kernels as k

QUIET: dict[str, Any] = {"show_summary": False, "raise_exception": False}


def squared(x: Any) -> Any:
    y = wp.zeros_like(x)
    wp.launch(k.square, len(x), [x], [y])
    return y


def names(function: Any, inputs: Any, **options: Any) -> list[tuple[str, str]]:
    """The pairs of a check, which agrees."""
    result = gradcheck(function, inputs=inputs, **QUIET, **options)
    assert result.verdict == "AGREE", result.summary()
    return [(pair.input, pair.output) for pair in result.pairs]


def dense(found: dict[Any, Any]) -> dict[Any, Any]:
    return {key: value.numpy().tolist() for key, value in found.items()}


@pytest.fixture
def x() -> Any:
    return k.vector([1.0, 2.0])


@pytest.fixture
def w() -> Any:
    return k.vector([3.0, 4.0])


class Two(NamedTuple):
    force: Any
    energy: Any


@wp.struct
class Pair:
    a: wp.array(dtype=float)
    b: wp.array(dtype=float)
    scale: float


@wp.kernel
def through(p: Pair, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = p.a[i] * p.b[i] * p.scale


# ------------------------------------------------------------------ what is returned


@pytest.mark.parametrize(
    "function, outputs",
    [
        (squared, ["output_0"]),
        (lambda x: [squared(x), squared(x)], ["output_0", "output_1"]),
        (lambda x: (squared(x),), ["output_0"]),
        (lambda x: {"force": squared(x), "energy": squared(x)}, ["force", "energy"]),
        (lambda x: Two(squared(x), squared(x)), ["force", "energy"]),
        (lambda x: Pair(a=squared(x), b=squared(x), scale=2.0), ["output_0.a", "output_0.b"]),
        (lambda x: [squared(x), Pair(a=squared(x), b=squared(x))], ["output_0", "output_1.a", "output_1.b"]),
    ],
    ids=["array", "list", "tuple", "dict", "namedtuple", "struct", "list with a struct"],
)
def test_outputs_have_names(x: Any, function: Any, outputs: list[str]) -> None:
    assert names(function, [x]) == [("x", output) for output in outputs]
    assert names(function, [x], input_output_mask=[("x[1]", outputs[-1])]) == [("x[1]", outputs[-1])]


def test_a_function_may_return_its_inputs(x: Any, w: Any) -> None:
    found = dense(jacobian(lambda x, w: [x, squared(w)], inputs=[x, w]))
    assert found == {
        (0, 0): [[1.0, 0.0], [0.0, 1.0]],
        (0, 1): [[0.0, 0.0], [0.0, 0.0]],
        (1, 0): [[0.0, 0.0], [0.0, 0.0]],
        (1, 1): [[6.0, 0.0], [0.0, 8.0]],
    }
    assert dense(jacobian_fd(lambda x, w: [x, squared(w)], inputs=[x, w])) == found
    assert names(lambda x: x, [x]) == [("x", "output_0")]
    assert len(names(lambda x, w: [x, squared(w)], [x, w])) == 4


def test_a_function_may_write_to_its_inputs_and_they_are_put_back(x: Any) -> None:
    def in_place(x: Any) -> Any:
        wp.launch(k.times, len(x), [squared(x)], [x])
        return x

    assert dense(jacobian(in_place, inputs=[x])) == {(0, 0): [[3.0, 0.0], [0.0, 12.0]]}
    assert names(in_place, [x]) == [("x", "output_0")]
    assert x.numpy().tolist() == [1.0, 2.0]


def test_outputs_may_be_named_where_nothing_is_returned(x: Any, w: Any) -> None:
    def writes(x: Any, y: Any) -> None:
        wp.launch(k.square, len(x), [x], [y])

    assert names(writes, [x, w], outputs=[w]) == [("x", "output_0"), ("y", "output_0")]
    assert dense(jacobian(writes, inputs=[x, w], outputs=w))[0, 0] == [[2.0, 0.0], [0.0, 4.0]]
    assert w.numpy().tolist() == [3.0, 4.0]


# ------------------------------------------------------------------ what is taken


class Model:
    def __init__(self) -> None:
        self.rng = np.random.default_rng(7)

    def __call__(self, x: Any) -> Any:
        return squared(x)

    def noisy(self, x: Any) -> Any:
        return drawn(x, self.rng.uniform(size=2))


def drawn(x: Any, factors: Any) -> Any:
    y = squared(x)
    wp.launch(k.times, len(x), [k.vector(factors, grad=False)], [y])
    return y


@pytest.mark.parametrize(
    "function, inputs",
    [
        (lambda x, scale=3.0: squared(x), ["x"]),
        (lambda x, *, scale=3.0: squared(x), ["x"]),
        (lambda *rest: squared(rest[0]), ["rest_0"]),
        (functools.partial(lambda scale, x: squared(x), 3.0), ["x"]),
        (Model(), ["x"]),
        (Model().noisy, ["x"]),
    ],
    ids=["default", "keyword", "star", "partial", "callable", "method"],
)
def test_all_that_can_be_called(x: Any, function: Any, inputs: list[str]) -> None:
    assert names(function, [x]) == [(name, "output_0") for name in inputs]
    assert names(function, x) == [(name, "output_0") for name in inputs], "one input needs no list"


def test_lists_and_dictionaries_of_arrays_are_taken_apart(x: Any, w: Any) -> None:
    def both(arrays: Any, scale: float) -> Any:
        return [squared(a) for a in (arrays.values() if isinstance(arrays, dict) else arrays)]

    mask = [("arrays[1][0]", "output_1"), ("arrays[0]", 0)]
    assert names(both, [[x, w], 2.0], input_output_mask=mask) == [
        ("arrays[1][0]", "output_1"),
        ("arrays[0]", "output_0"),
    ]
    assert names(both, [{"u": x, "v": w}, 2.0], input_output_mask=[("arrays.v[1]", 1)]) == [
        ("arrays.v[1]", "output_1")
    ]
    found = jacobian(both, inputs=[{"u": x, "v": w}, 2.0])
    assert list(found) == [("arrays.u", 0), ("arrays.u", 1), ("arrays.v", 0), ("arrays.v", 1)]
    assert found["arrays.v", "output_1"].numpy().tolist() == [[6.0, 0.0], [0.0, 8.0]]


def test_structs_go_in_and_places_stay_those_of_the_call(x: Any, w: Any) -> None:
    def product(p: Any, y0: Any) -> Any:
        y = wp.zeros_like(y0)
        wp.launch(through, 2, [p], [y])
        wp.launch(k.times, 2, [y0], [y])
        return y

    p = Pair(a=x, b=w, scale=2.0)
    for found in (jacobian(product, inputs=[p, x]), jacobian_fd(product, inputs=[p, x])):
        assert list(found) == [("p.a", 0), ("p.b", 0), (1, 0)]
        np.testing.assert_allclose(found["p.b", "output_0"].numpy(), np.diag([2.0, 8.0]), rtol=1e-6)
        assert found["y0", 0].numpy().tolist() == found[1, 0].numpy().tolist()


# ------------------------------------------------------------------ random numbers, printing, tapes


def with_numpy(x: Any) -> Any:
    return drawn(x, np.random.uniform(size=2))


def with_python(x: Any) -> Any:
    return drawn(x, [random.random(), random.random()])


GENERATOR = np.random.default_rng(3)


def with_generator(x: Any) -> Any:
    return drawn(x, GENERATOR.uniform(size=2))


@pytest.mark.parametrize("function", [with_numpy, with_python, with_generator])
def test_both_runs_draw_the_same_numbers_and_the_program_misses_none(x: Any, function: Any) -> None:
    def draw() -> list[float]:
        return [np.random.uniform(), random.random(), GENERATOR.uniform()]

    np.random.seed(1)
    random.seed(1)
    state = GENERATOR.bit_generator.state
    expected = draw()
    np.random.seed(1)
    random.seed(1)
    GENERATOR.bit_generator.state = state
    assert names(function, [x]) == [("x", "output_0")]
    assert draw() == expected


def test_a_generator_may_be_an_argument(x: Any) -> None:
    rng = np.random.default_rng(5)
    assert names(lambda x, rng: drawn(x, rng.uniform(size=2)), [x, rng]) == [("x", "output_0")]
    assert rng.uniform() == np.random.default_rng(5).uniform()


def test_pytorchs_random_numbers_are_pinned_too(x: Any) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(4)
    expected = torch.rand(2).tolist()
    torch.manual_seed(4)
    assert names(lambda x: drawn(x, torch.rand(2).numpy()), [x]) == [("x", "output_0")]
    assert torch.rand(2).tolist() == expected


def test_what_a_function_prints_is_printed_once(x: Any, capsys: pytest.CaptureFixture) -> None:
    def talks(x: Any) -> Any:
        print("hello")
        return squared(x)

    names(talks, [x])
    assert capsys.readouterr().out == "hello\n"


def test_a_check_while_a_tape_records_leaves_no_trace_on_it(x: Any) -> None:
    with wp.Tape() as tape:
        y = squared(x)
        names(squared, [x])
    assert len(tape.records) == 1
    tape.backward(grads={y: wp.ones_like(y)})
    assert x.grad.numpy().tolist() == [2.0, 4.0]


# ------------------------------------------------------------------ what is refused


def outside(x: Any) -> Any:
    return wp.array(x.numpy() ** 2, dtype=float, requires_grad=True)


def half_outside(x: Any) -> Any:
    factors = wp.array(np.full(2, x.numpy().sum()), dtype=float, requires_grad=True)
    return squared(factors)


COUNT = [0]


def counts(x: Any) -> Any:
    COUNT[0] += 1
    return drawn(x, [COUNT[0]] * 2)


def changes_its_shape(x: Any) -> Any:
    COUNT[0] += 1
    y = wp.zeros(COUNT[0], dtype=float, requires_grad=True)
    wp.launch(k.square, 1, [x], [y])
    return y


def picky(x: Any) -> Any:
    if x.numpy()[0] != 1.0:
        raise ValueError("I want 1")
    return squared(x)


def tapes(x: Any) -> Any:
    with wp.Tape():
        return squared(x)


OUTSIDE = (
    "function {} computes something outside of kernels: at inputs that differ by 0.1 %, output_0 is not what "
    "its recorded launches give",
    "compute in kernels what depends on the inputs",
)
TWICE = (
    "function {} gives other results when it is called twice with the same inputs: it has no derivative "
    "to check",
    "pin what it draws or keeps between calls: pass a seed, or make it part of the inputs",
)
RETURNS = (
    "function {} must return an array or a list of arrays; it returned ",
    "return the arrays that the launches wrote",
)


@pytest.mark.parametrize(
    "function, message, hint",
    [
        (outside, *OUTSIDE),
        (half_outside, *OUTSIDE),
        (
            picky,
            "function {} raises ValueError (I want 1) at inputs that differ by 0.1 %: it is called there "
            "to see that its launches are all of it",
            "let it take values beside these, or record it and check the tape: gradcheck_tape(tape)",
        ),
        (
            tapes,
            "function {} begins a tape, and the check records it already",
            "let the function only launch kernels, or check the tape: gradcheck_tape(tape)",
        ),
        (lambda x: 3.0, RETURNS[0] + "3.0", RETURNS[1]),
        (lambda x: [], RETURNS[0] + "[]", RETURNS[1]),
        (lambda x: x.numpy(), RETURNS[0] + "array([1., 2.], dtype=float32)", RETURNS[1]),
        (lambda x: [squared(x), 3], RETURNS[0] + "3 as output_1", RETURNS[1]),
        (lambda x: {"y": squared(x), "n": None}, RETURNS[0] + "None as n", RETURNS[1]),
        (
            lambda x, y: squared(x),
            "function {}(x, y) cannot be called with 1 inputs: missing a required argument: 'y'",
            "inputs are its positional arguments, in order",
        ),
    ],
)
def test_refusals_say_why(x: Any, function: Any, message: str, hint: str) -> None:
    with pytest.raises(wp.GradcheckError) as caught:
        gradcheck(function, inputs=[x])
    assert (caught.value.message, caught.value.hint) == (message.format(function.__name__), hint)
    assert x.numpy().tolist() == [1.0, 2.0]


@pytest.mark.parametrize("function", [counts, changes_its_shape])
def test_a_function_of_chance_has_its_own_verdict(x: Any, function: Any) -> None:
    message, hint = TWICE[0].format(function.__name__), TWICE[1]
    result = gradcheck(function, inputs=[x], raise_exception=False, show_summary=False)
    assert result.verdict == "NONDETERMINISTIC"
    assert not result
    assert [pair.message for pair in result.pairs] == [f"{message}; {hint}"]
    assert "0 of " in str(result.coverage)
    with pytest.raises(wp.GradcheckError, match="gives other results when it is called twice"):
        gradcheck(function, inputs=[x], show_summary=False)
    with pytest.raises(wp.GradcheckError) as caught:
        jacobian(function, inputs=[x])  # there is none
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert x.numpy().tolist() == [1.0, 2.0]


def test_inputs_are_a_list(x: Any) -> None:
    for subject, name in ((squared, "squared"), (k.square, "square")):
        with pytest.raises(wp.GradcheckError) as caught:
            gradcheck(subject, 2, inputs={"x": x})
        assert str(caught.value) == (
            f"{name}: inputs is a list of arguments, in order; got dict\n  = hint: pass inputs=[…]"
        )


def test_an_exception_of_the_function_is_the_users(x: Any) -> None:
    def fails(x: Any) -> Any:
        x.fill_(7.0)
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="^mine$"):
        gradcheck(fails, inputs=[x])
    assert x.numpy().tolist() == [1.0, 2.0]
