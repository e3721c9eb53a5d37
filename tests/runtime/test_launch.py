"""Launches: arguments by value and by array, dimensions, and one message for each misfit."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp
from tests.runtime import kernels
from tests.runtime.kernels import add_matrix, drift, gather, move, repeat, scale, square, total


def test_arguments_by_value():
    x, out = wp.array(np.zeros((2, 3)), dtype=wp.vec3), wp.zeros(2, dtype=wp.vec3)
    v = wp.array(np.ones((2, 3)), dtype=wp.vec3)
    for g in (wp.vec3(0, 0, -2), (0, 0, -2), [0.0, 0.0, -2.0], np.array([0, 0, -2])):
        out.zero_()
        wp.launch(drift, 2, inputs=[x, v, g, 0.5], outputs=[out])
        assert out.numpy().tolist() == [[0.5, 0.5, 0.0]] * 2
    y = wp.zeros(2)
    wp.launch(repeat, 2, inputs=[wp.full(2, 2.0), 3, True, y])
    assert y.numpy().tolist() == [12, 12]
    wp.launch(repeat, 2, inputs=[wp.full(2, 2.0), np.int32(1), np.bool_(True)], outputs=[y])
    assert y.numpy().tolist() == [4, 4]
    wp.launch(
        repeat, 2, inputs=[wp.full(2, 2.0), True, 0, y]
    )  # a bool is an int, an int a bool: nothing runs
    assert y.numpy().tolist() == [4, 4]
    wp.launch(scale, 2, inputs=[wp.ones(2), y, np.float64(3)])
    assert y.numpy().tolist() == [3, 3]


@pytest.mark.parametrize("dim", [3, (3,), [3], np.int64(3), np.array([3])])
def test_dim_forms(dim):
    y = wp.zeros(3)
    wp.launch(move, dim, inputs=[wp.ones(3), y])
    assert y.numpy().tolist() == [1, 1, 1]


def test_two_dimensions_and_strided_views():
    a = wp.array(np.arange(12.0).reshape(3, 4), dtype=float)
    c = wp.zeros((4, 3))
    wp.launch(add_matrix, c.shape, inputs=[a.transpose(), wp.full((4, 3), 2.0)], outputs=[c])
    np.testing.assert_array_equal(c.numpy(), 2 * a.numpy().T)
    y = wp.zeros(3)
    wp.launch(move, 3, inputs=[a[:, 1], y])
    assert y.numpy().tolist() == [1, 5, 9]
    wp.launch(move, 3, inputs=[a[::-1, 0], y])
    assert y.numpy().tolist() == [8, 4, 0]


def test_numpy_arrays_are_wrapped_where_they_fit():
    x, y = np.arange(3, dtype=np.float32), np.zeros(3, np.float32)
    wp.launch(square, 3, inputs=[x, y])
    assert y.tolist() == [0, 1, 4]
    constant = np.broadcast_to(np.float32(3), (3,))
    wp.launch(square, 3, inputs=[constant, y])
    assert y.tolist() == [9, 9, 9]
    points = np.zeros((2, 3), np.float32)
    wp.launch(drift, 2, inputs=[points, points, (1, 0, 0), 1.0, np.zeros((2, 3), np.float32)])


def test_empty_launches_run_and_record_nothing():
    empty = wp.zeros(0, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 0, inputs=[empty, empty])
        wp.launch(square, (0,), inputs=[wp.zeros(0), wp.zeros(0)])
        wp.launch(add_matrix, (0, 3), inputs=[wp.zeros((0, 3))] * 3)
        empty.fill_(1)
        wp.copy(empty, empty)
    assert tape.records == []


def test_record_tape_false_is_not_recorded_but_preserved():
    x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    y = wp.zeros_like(x)
    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[x, y])
        wp.launch(scale, 2, inputs=[x, x, 10.0], record_tape=False)
    assert [r.name for r in tape.records] == ["square"]
    tape.backward(grads={y: wp.ones(2)})
    assert x.grad.numpy().tolist() == [2, 4]


def test_a_failing_launch_leaves_nothing_behind():
    x, y = wp.ones(2, requires_grad=True), wp.zeros(2, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[x, y])
        with pytest.raises(wp.LaunchError):
            wp.launch(square, 2, inputs=[x])
        with pytest.raises(wp.LaunchError):
            wp.launch(square, -1, inputs=[y, x])
    assert len(tape.records) == 1
    assert tape.preserved_bytes == 0


SIGNATURE = "(x: array(dtype=float32), y: array(dtype=float32))"


def _lines(error):
    """The message without what it shows of the source: the call, and the place of the declaration."""
    return [line for line in str(error).splitlines() if not line.startswith(("  -->", "   |", "  = note:"))]


X, Y = wp.ones(3), wp.zeros(3)


@pytest.mark.parametrize(
    ("action", "lines"),
    [
        (
            lambda: wp.launch(square, 3, inputs=[X]),
            [f"launch of square: it takes 2 arguments {SIGNATURE}; got 1", "  = hint: pass y too"],
        ),
        (
            lambda: wp.launch(square, 3, inputs=[X, Y], outputs=[Y]),
            [f"launch of square: it takes 2 arguments {SIGNATURE}; got 3", "  = hint: leave out the last 1"],
        ),
        (
            lambda: wp.launch(square, 3, inputs=[X, wp.zeros(3, dtype=wp.float64)]),
            [
                "launch of square: argument 'y' (number 2) must be array(dtype=float32); got an array of "
                "float64 with "
                "shape (3,)",
                "  = hint: make the array with dtype=float32, or change the annotation",
            ],
        ),
        (
            lambda: wp.launch(square, 3, inputs=[X, wp.zeros((3, 2))]),
            [
                "launch of square: argument 'y' (number 2) must be array(dtype=float32); got an array of "
                "shape (3, 2), "
                "which has 2 dimensions",
                "  = hint: annotate it as array(dtype=float32, ndim=2), or pass an array of 1 dimension",
            ],
        ),
        (
            lambda: wp.launch(square, 3, inputs=[X, 1.0]),
            [
                "launch of square: argument 'y' (number 2) must be array(dtype=float32); got 1.0 (float)",
                "  = hint: pass array(…, dtype=float32)",
            ],
        ),
        (
            lambda: wp.launch(square, 3, inputs=[np.zeros(3), Y]),
            [
                "launch of square: argument 'x' (number 1) must be array(dtype=float32); got a NumPy "
                "array of float64 "
                "with shape (3,)",
                "  = hint: convert it with .astype('float32'), or make array(…, dtype=float32)",
            ],
        ),
        (
            lambda: wp.launch(square, 3, inputs=[X, np.broadcast_to(np.float32(1), (3,))]),
            [
                "launch of square: argument 'y' (number 2) must be array(dtype=float32); got a NumPy "
                "array of shape "
                "(3,): array: copy=False needs a writable NumPy array",
                "  = hint: make array(…, dtype=float32)",
            ],
        ),
        (
            lambda: wp.launch(repeat, 3, inputs=[X, 2.5, True, Y]),
            [
                "launch of repeat: argument 'n' (number 2) must be int32; got 2.5 (float)",
                "  = hint: pass int(2.5), or annotate it as float",
            ],
        ),
        (
            lambda: wp.launch(repeat, 3, inputs=[X, 2**31, True, Y]),
            [
                "launch of repeat: argument 'n' (number 2) must be int32; got 2147483648, outside "
                "-2147483648 … "
                "2147483647",
                "  = hint: pass a smaller number, or use int64",
            ],
        ),
        (
            lambda: wp.launch(repeat, 3, inputs=[X, 2, "yes", Y]),
            [
                "launch of repeat: argument 'flag' (number 3) must be bool; got 'yes' (str)",
                "  = hint: pass True or False",
            ],
        ),
        (
            lambda: wp.launch(scale, 3, inputs=[X, Y, X]),
            [
                "launch of scale: argument 'a' (number 3) must be float32; got array(shape=(3,), "
                "dtype=float32) (array)",
                "  = hint: pass a number",
            ],
        ),
        (
            lambda: wp.launch(
                drift, 0, inputs=[wp.zeros(0, dtype=wp.vec3)] * 2 + [(1, 2), 0.1, wp.zeros(0, wp.vec3)]
            ),
            [
                "launch of drift: argument 'g' (number 3) must be vec3; got (1, 2) (tuple), which has 2 "
                "components",
                "  = hint: pass 3 numbers",
            ],
        ),
        (
            lambda: wp.launch(
                drift, 0, inputs=[wp.zeros(0, dtype=wp.vec3)] * 2 + [1.0, 0.1, wp.zeros(0, wp.vec3)]
            ),
            [
                "launch of drift: argument 'g' (number 3) must be vec3; got 1.0 (float)",
                "  = hint: pass vec3(…)",
            ],
        ),
        (
            lambda: wp.launch(square, -2, inputs=[X, Y]),
            ["launch of square: dim cannot be negative; got -2", "  = hint: pass sizes of 0 or more"],
        ),
        (
            lambda: wp.launch(square, (2, -2), inputs=[X, Y]),
            ["launch of square: dim cannot be negative; got (2, -2)", "  = hint: pass sizes of 0 or more"],
        ),
        (
            lambda: wp.launch(square, 2.0, inputs=[X, Y]),
            [
                "launch of square: dim is an int or a tuple of 1 to 4 ints; got 2.0",
                "  = hint: pass the number of threads, or an array's shape",
            ],
        ),
        (
            lambda: wp.launch(square, (1, 1, 1, 1, 1), inputs=[X, Y]),
            [
                "launch of square: dim is an int or a tuple of 1 to 4 ints; got (1, 1, 1, 1, 1)",
                "  = hint: pass the number of threads, or an array's shape",
            ],
        ),
        (
            lambda: wp.launch(len, 3, inputs=[X]),
            [
                "launch: the first argument must be a kernel; got the function 'len'",
                "  = hint: decorate the function with @kernel",
            ],
        ),
        (
            lambda: wp.launch(None, 3),
            [
                "launch: the first argument must be a kernel; got None (NoneType)",
                "  = hint: decorate the function with @kernel",
            ],
        ),
    ],
)
def test_messages(action, lines):
    with pytest.raises(wp.LaunchError) as caught:
        action()
    assert _lines(caught.value) == lines
    assert Y.numpy().tolist() == [0, 0, 0]


def test_messages_repeat_after_a_good_launch():
    """The fast path checks values too."""
    y = wp.zeros(3)
    wp.launch(repeat, 3, inputs=[X, 2, True, y])
    with pytest.raises(wp.LaunchError, match=r"got 2147483648, outside"):
        wp.launch(repeat, 3, inputs=[X, 2**31, True, y])


def test_unknown_device():
    with pytest.raises(wp.DeviceError, match="there is no device 'cuda'"):
        wp.launch(square, 3, inputs=[X, Y], device="cuda")
    wp.launch(square, 3, inputs=[X, wp.zeros(3)], device="cpu")


def test_records_know_their_call_site():
    y = wp.zeros(3)
    with wp.Tape() as tape:
        wp.launch(square, 3, inputs=[X, y])
    (record,) = tape.records
    site = record.call_site
    assert site.file == __file__
    assert site.function == "test_records_know_their_call_site"
    assert site.text.strip() == "wp.launch(square, 3, inputs=[X, y])"
    assert site.text[site.column : site.end_column] == "wp.launch(square, 3, inputs=[X, y])"
    assert (record.name, record.kind, record.dim, record.threads) == ("square", "kernel", (3,), 3)
    assert (record.reads, record.writes) == ({0}, {1})
    assert record.param_name(1) == "y"


def test_gather_needs_its_indices():
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    index = wp.array([2, 0, 2], dtype=int)
    y, loss = wp.zeros(3, requires_grad=True), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(gather, 3, inputs=[x, index, y])
        index.assign([1, 1, 1])
        wp.launch(total, 3, inputs=[y, loss])
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [1, 0, 2]


def excerpt(error):
    """The source that a message shows: the marked text, the function, and the note."""
    _, place, line, marks, note = str(error).splitlines()[:5]
    assert place.startswith(f"  --> {__file__}:")
    begin = marks.index("^")
    return line[begin : begin + marks.count("^")], place.rpartition(", in ")[2], note


def test_messages_show_the_argument_and_its_declaration():
    wrong = wp.zeros(3, dtype=int)

    def over_lines():
        wp.launch(
            square,
            dim=3,
            inputs=[X],
            outputs=[
                # comments may be anywhere
                wrong,
            ],
        )

    declaration = f"{kernels.__file__}:9"
    declares = f"  = note: square declares it at {declaration}: y: wp.array(dtype=float)"
    defined = f"  = note: square is defined at {declaration}"
    of_x = f"  = note: square declares it at {declaration}: x: wp.array(dtype=float)"
    head, variable = (square, 3), [X, 1.0]
    m = (1.0,)
    # the formatter would break the lines that test a place in them
    # fmt: off
    for call, found in (
        (lambda: wp.launch(square, 3, inputs=[X, 2 * 0.5]), ("2 * 0.5", "<lambda>", declares)),
        (lambda: wp.launch(square, 3, [X], [{"ö": 1}["ö"]]), ('{"ö": 1}["ö"]', "<lambda>", declares)),
        (lambda: wp.launch(square, 3, outputs=[X, 1.0], inputs=()), ("1.0", "<lambda>", declares)),
        (over_lines, ("wrong", "over_lines", declares)),
        (lambda: wp.launch(square, 3, [X, *m]), ("wp.launch(square, 3, [X, *m])", "<lambda>", declares)),
        (lambda: wp.launch(*head, [1.0], [Y]), ("wp.launch(*head, [1.0], [Y])", "<lambda>", of_x)),
        (lambda: wp.launch(square, 3, variable), ("wp.launch(square, 3, variable)", "<lambda>", declares)),
        (lambda: wp.launch(square, 3, inputs=[X]), ("wp.launch(square, 3, inputs=[X])", "<lambda>", defined)),
        (lambda: wp.launch(square, 3, inputs=X), ("X", "<lambda>", defined)),
    ):
        with pytest.raises(wp.LaunchError) as caught:
            call()
        assert excerpt(caught.value) == found
    # fmt: on


def test_messages_show_the_sizes_of_a_launch():
    for call in (
        lambda: wp.launch(square, -1, inputs=[X, Y]),
        lambda: wp.launch(square, inputs=[X, Y], dim=-1),
        lambda: wp.launch(square, dim=-1, inputs=[X, Y], record_cmd=True),
    ):
        with pytest.raises(wp.LaunchError) as caught:
            call()
        assert isinstance(caught.value, ValueError), "as in NVIDIA Warp"
        span = caught.value.span
        assert (span.file, span.text[span.column : span.end_column]) == (__file__, "-1")


def test_messages_of_code_without_source_show_its_place():
    with pytest.raises(wp.LaunchError) as caught:
        exec("wp.launch(square, 3, inputs=[X])", globals())
    assert str(caught.value).splitlines()[1:] == [
        "  --> <string>:1, in <module>",
        f"  = note: square is defined at {kernels.__file__}:9",
        "  = hint: pass y too",
    ]


def test_messages_of_a_command_show_where_it_was_set():
    command = wp.launch(square, 3, inputs=[X, Y], record_cmd=True)
    with pytest.raises(wp.LaunchError) as caught:
        command.set_param_at_index(1, 1.0)
    assert excerpt(caught.value)[0] == "command.set_param_at_index(1, 1.0)"


@wp.kernel
def weigh(
    x: wp.array(dtype=wp.vec2),
    k: wp.array(dtype=float),
    n: wp.array(dtype=int),
    f: wp.array(dtype=wp.vec2),
):
    i = wp.tid()
    f[i] = x[i] * k[i] * float(n[i])


@pytest.mark.parametrize(
    ("inputs", "missing"),
    [(["x", "k"], "n"), (["x", "n"], "k"), (["x"], "k, n"), (["k", "n"], "x"), (["x", "k", "n", "f"], "")],
)
def test_an_argument_that_was_left_out_is_named_by_the_types_of_the_others(inputs, missing):
    arrays = {
        "x": wp.zeros(2, dtype=wp.vec2),
        "k": wp.zeros(2),
        "n": wp.zeros(2, dtype=int),
        "f": wp.zeros(2, dtype=wp.vec2),
    }
    given = [arrays[name] for name in inputs]
    if not missing:
        wp.launch(weigh, 2, inputs=given)
        return
    with pytest.raises(wp.LaunchError) as caught:
        wp.launch(weigh, 2, inputs=given, outputs=[arrays["f"]])
    assert caught.value.hint == f"pass {missing} too"


def test_a_command_whose_arguments_are_set_later():
    @wp.kernel
    def fill(n: int, v: wp.vec3, out: wp.array(dtype=float)):
        out[wp.tid()] = float(n) + v[1]

    command = wp.Launch(fill, "cpu")
    assert command.params == [0, wp.vec3(0.0), None] and command.dim is None
    with pytest.raises(wp.LaunchError, match="its dimensions are not set"):
        command.launch()
    command.set_dim(2)
    with pytest.raises(wp.LaunchError, match=r"must be array\(dtype=float32\); got None"):
        command.launch()
    out = wp.zeros(2)
    command.set_param_by_name("out", out)
    command.set_param_at_index(0, 3)
    command.launch()
    assert out.numpy().tolist() == [3.0, 3.0]
    recorded = wp.launch(fill, 2, inputs=[1, wp.vec3(0.5), None], record_cmd=True)
    recorded.set_param_at_index(2, out)
    recorded.launch()
    assert out.numpy().tolist() == [1.5, 1.5]
    with pytest.raises(wp.LaunchError, match="must be vec3"):
        recorded.set_param_at_index(1, 2.0)


class Shared:
    """An array of another library, which shares its memory in one way."""

    def __init__(self, values, protocol):
        self.values = values
        if protocol == "interface":
            self.__array_interface__ = values.__array_interface__
        else:
            self.__dlpack_device__ = values.__dlpack_device__
            type(self).__dlpack__ = lambda self, **options: self.values.__dlpack__(**options)
            type(self).__dlpack_device__ = lambda self: self.values.__dlpack_device__()


@pytest.mark.parametrize("protocol", ["interface", "dlpack"])
def test_arrays_of_other_libraries_are_shared(protocol):
    if protocol == "dlpack" and not np.from_dlpack(np.zeros(1)).flags.writeable:
        pytest.skip("this NumPy takes the memory of other libraries as read-only: it cannot be written")
    kind = type("Other", (Shared,), {})
    x, y = np.array([2.0, 3.0], np.float32), np.zeros(2, np.float32)
    wp.launch(square, 2, [kind(x, protocol), kind(y, protocol)])
    assert y.tolist() == [4.0, 9.0]
    y.flags.writeable = False
    with pytest.raises(wp.LaunchError, match="argument 'y'"):
        wp.launch(square, 2, [kind(x, protocol), kind(y, protocol)])
