"""Bad input, as people give it: one message with the kernel, the line, a caret, the values and the hint."""

import linecache
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp


@wp.kernel
def scale(x: wp.array(dtype=float), factor: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = factor * x[i]


@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, x[wp.tid()])


SCALE_LINE = scale.python.__code__.co_firstlineno + 1
LAUNCH = "    wp.launch(scale, dim=dim, inputs=[x, factor], outputs=[y, *more], device=device)"
"""The line below that launches."""


def floats(*values: float, requires_grad: bool = True) -> Any:
    return wp.array(np.array(values), dtype=float, requires_grad=requires_grad)


def launch(
    x: Any = None, factor: Any = 2.0, y: Any = None, *more: Any, dim: Any = 3, device: Any = None
) -> None:
    x = floats(1, 2, 3) if x is None else x
    y = floats(0, 0, 0) if y is None else y
    wp.launch(scale, dim=dim, inputs=[x, factor], outputs=[y, *more], device=device)


def text(error: BaseException) -> str:
    """The message, with this file's path shortened and its line numbers left out."""
    lines = []
    for line in str(error).splitlines():
        if line.startswith("  --> "):
            place, _, function = line.removeprefix("  --> ").rpartition(", in ")
            line = f"  --> {Path(place.rpartition(':')[0]).name}, in {function}"
        lines.append(line.replace(f"{__file__}:{SCALE_LINE}", "this file"))
    return "\n".join(lines)


def message(head: str, source: str, carets: str, hint: str, function: str, note: str = "") -> str:
    """The message as it should be; `carets` is the marked part of `source`."""
    at = source.rindex(carets)
    marks = " " * at + "^" * len(carets)
    where = Path(__file__).name
    note = f"\n  = note: {note}" if note else ""
    return f"{head}\n  --> {where}, in {function}\n   | {source}\n   | {marks}{note}\n  = hint: {hint}"


DEFINED = "scale is defined at this file"
X, FACTOR, Y = (
    f"scale declares it at this file: {parameter}"
    for parameter in ("x: wp.array(dtype=float)", "factor: float", "y: wp.array(dtype=float)")
)

LAUNCHES = {
    "dtype": (
        lambda: launch(wp.zeros(3, dtype=int)),
        wp.LaunchError,
        "launch of scale: argument 'x' (number 1) must be array(dtype=float32); "
        "got an array of int32 with shape (3,)",
        "x",
        "make the array with dtype=float32, or change the annotation",
        X,
    ),
    "shape": (
        lambda: launch(wp.zeros((3, 2), dtype=float)),
        wp.LaunchError,
        "launch of scale: argument 'x' (number 1) must be array(dtype=float32); "
        "got an array of shape (3, 2), which has 2 dimensions",
        "x",
        "annotate it as array(dtype=float32, ndim=2), or pass an array of 1 dimension",
        X,
    ),
    "a list for an array": (
        lambda: launch([1.0, 2.0, 3.0]),
        wp.LaunchError,
        "launch of scale: argument 'x' (number 1) must be array(dtype=float32); got [1.0, 2.0, 3.0] (list)",
        "x",
        "pass array(…, dtype=float32)",
        X,
    ),
    "NumPy of another dtype": (
        lambda: launch(y=np.zeros(3)),
        wp.LaunchError,
        "launch of scale: argument 'y' (number 3) must be array(dtype=float32); "
        "got a NumPy array of float64 with shape (3,)",
        "y",
        "convert it with .astype('float32'), or make array(…, dtype=float32)",
        Y,
    ),
    "a word for a number": (
        lambda: launch(factor="two"),
        wp.LaunchError,
        "launch of scale: argument 'factor' (number 2) must be float32; got 'two' (str)",
        "factor",
        "pass a number",
        FACTOR,
    ),
    "too few": (
        lambda: wp.launch(scale, dim=3, inputs=[floats(1, 2, 3), 2.0]),
        wp.LaunchError,
        "launch of scale: it takes 3 arguments (x: array(dtype=float32), factor: float32, "
        "y: array(dtype=float32)); got 2",
        "wp.launch(scale, dim=3, inputs=[floats(1, 2, 3), 2.0])",
        "pass y too",
        DEFINED,
    ),
    "too many": (
        lambda: launch(None, 2.0, None, 1, 2),
        wp.LaunchError,
        "launch of scale: it takes 3 arguments (x: array(dtype=float32), factor: float32, "
        "y: array(dtype=float32)); got 5",
        LAUNCH.strip(),
        "leave out the last 2",
        DEFINED,
    ),
    "an array for the list of inputs": (
        lambda: wp.launch(scale, dim=3, inputs=floats(1, 2, 3, 4, 5), outputs=[floats(1, 2, 3)]),
        wp.LaunchError,
        "launch of scale: inputs must be a list with one value for each parameter; "
        "got an array of shape (5,)",
        "floats(1, 2, 3, 4, 5)",
        "put it in a list: inputs=[…]",
        DEFINED,
    ),
    "an array for the list of outputs": (
        lambda: wp.launch(scale, dim=3, inputs=[floats(1, 2, 3), 2.0], outputs=floats(0)),
        wp.LaunchError,
        "launch of scale: outputs must be a list with one value for each parameter; "
        "got an array of shape (1,)",
        "floats(0)",
        "put it in a list: outputs=[…]",
        DEFINED,
    ),
    "an array of NumPy for the list of inputs": (
        lambda: wp.launch(scale, dim=3, inputs=np.zeros(4)),
        wp.LaunchError,
        "launch of scale: inputs must be a list with one value for each parameter; "
        "got an array of shape (4,)",
        "np.zeros(4)",
        "put it in a list: inputs=[…]",
        DEFINED,
    ),
    "a dictionary for the list of inputs": (
        lambda: wp.launch(scale, dim=3, inputs={"factor": 2.0}),
        wp.LaunchError,
        "launch of scale: inputs must be a list with one value for each parameter; "
        "got {'factor': 2.0} (dict)",
        '{"factor": 2.0}',
        "write a list, in the order of the parameters: inputs=[…]",
        DEFINED,
    ),
    "a number for the list of inputs": (
        lambda: wp.launch(scale, dim=3, inputs=2.0),
        wp.LaunchError,
        "launch of scale: inputs must be a list with one value for each parameter; got 2.0 (float)",
        "2.0",
        "put it in a list: inputs=[…]",
        DEFINED,
    ),
    "a number for the list of inputs of a command": (
        lambda: wp.launch(scale, dim=3, inputs=2.0, record_cmd=True),
        wp.LaunchError,
        "launch of scale: inputs must be a list with one value for each parameter; got 2.0 (float)",
        "2.0",
        "put it in a list: inputs=[…]",
        DEFINED,
    ),
    "negative dim": (
        lambda: launch(dim=-3),
        wp.LaunchError,
        "launch of scale: dim cannot be negative; got -3",
        "dim",
        "pass sizes of 0 or more",
        "",
    ),
    "dim that is no number": (
        lambda: launch(dim="3"),
        wp.LaunchError,
        "launch of scale: dim is an int or a tuple of 1 to 4 ints; got '3'",
        "dim",
        "pass the number of threads, or an array's shape",
        "",
    ),
    "device": (
        lambda: launch(device="cuda:0"),
        wp.DeviceError,
        "launch of scale: there is no device 'cuda:0': this version runs on \"cpu\" only (CUDA is planned)",
        "device",
        'leave device= out, pass device="cpu", or set config.cuda_on_cpu = True (--cuda-on-cpu)',
        "",
    ),
}


@pytest.mark.parametrize("case", LAUNCHES)
def test_a_launch_that_does_not_fit(case: str) -> None:
    call, kind, head, carets, hint, note = LAUNCHES[case]
    with pytest.raises(kind) as caught:
        call()
    line = linecache.getline(__file__, call.__code__.co_firstlineno).rstrip()
    source, function = (line, "<lambda>") if "lambda: wp.launch" in line else (LAUNCH, "launch")
    assert text(caught.value) == message(head, source, carets, hint, function, note)


@pytest.mark.parametrize("case", LAUNCHES)
def test_a_launch_that_does_not_fit_leaves_no_record(case: str) -> None:
    call, kind, *_ = LAUNCHES[case]
    x, y, loss = floats(1, 2, 3), floats(0, 0, 0), floats(0)
    with wp.Tape() as tape:
        launch(x, 2.0, y)
        with pytest.raises(kind):
            call()
        wp.launch(total, dim=3, inputs=[y], outputs=[loss])
    assert len(tape.records) == 2
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [2.0, 2.0, 2.0]


def test_empty_arrays_and_dim_0_run_nothing() -> None:
    x, y = floats(), floats()
    loss = floats(5.0)
    with wp.Tape() as tape:
        launch(x, 2.0, y, dim=0)
        launch(dim=0)
        wp.launch(total, dim=0, inputs=[y], outputs=[loss])
        wp.launch(total, dim=1, inputs=[floats(1.0)], outputs=[loss])
    tape.backward(loss)
    assert (y.numpy().tolist(), loss.numpy().tolist(), x.grad.numpy().tolist()) == ([], [6.0], [])


# ------------------------------------------------------------------ in a kernel

KERNELS = {
    "undefined name": (
        "y[i] = x[j]",
        wp.KernelNameError,
        "kernel `k`: the name `j` is not defined",
        "j",
        "define `j` before the kernel is launched",
    ),
    "type mismatch": (
        "y[i] = x[i] * 2",
        wp.KernelTypeError,
        "kernel `k`: `*` takes values of one type; got float32 and int32",
        "x[i] * 2",
        "types are never mixed silently: convert the integer with float(…), or write a literal as 2.0",
    ),
    "list": (
        "y[i] = [v for v in range(3)][0]",
        wp.KernelSyntaxError,
        "kernel `k`: a kernel cannot use list comprehensions",
        "[v for v in range(3)]",
        "write a `for` loop",
    ),
    "try": (
        "try: y[i] = 1.0\n    finally: pass",
        wp.KernelSyntaxError,
        "kernel `k`: a kernel cannot use `try`",
        "try: y[i] = 1.0",
        "kernels have assignments, if, for … in range(…), while, break, continue and return",
    ),
    "text": (
        'y[i] = "three"',
        wp.KernelTypeError,
        "kernel `k`: a value is needed here; got the Python object `'three'`",
        '"three"',
        "kernels capture numbers and vectors; pass anything else as an argument of the launch",
    ),
    "Python's own function": (
        "y[i] = sum([x[i], 1.0])",
        wp.KernelNameError,
        "kernel `k`: `sum` is a function of Python, which a kernel cannot call",
        "sum",
        "add in a loop, or over all threads with wp.atomic_add(result, 0, value)",
    ),
    "float index": (
        "y[x[i]] = 1.0",
        wp.KernelTypeError,
        "kernel `k`: an index of `y` is an integer; got float32",
        "x[i]",
        "convert it with int(…)",
    ),
    "too many indices": (
        "y[i, i] = x[i]",
        wp.KernelTypeError,
        "kernel `k`: the array `y` has 1 dimension and is indexed with 2",
        "y[i, i]",
        "declare it with ndim=2, or use 1 index",
    ),
    "vectors only": (
        "y[i] = wp.dot(x[i], x[i])",
        wp.KernelTypeError,
        "kernel `k`: dot() takes two vectors or quaternions of one type; got float32 and float32",
        "wp.dot(x[i], x[i])",
        "pass two vectors or quaternions, such as vec3 values",
    ),
    "one branch": (
        "if x[i] > 0.0:\n        z = x[1:]\n    y[i] = z[0]",
        wp.KernelNameError,
        "kernel `k`: `z` is assigned on one branch of the `if` in line 6 only",
        "z",
        "assign `z` before",
    ),
}


def test_the_name_of_a_kernel() -> None:
    with pytest.raises(wp.LaunchError) as caught:
        wp.launch("scale", dim=3)
    assert text(caught.value) == message(
        "launch: the first argument must be a kernel; got 'scale' (str)",
        '        wp.launch("scale", dim=3)',
        '"scale"',
        "pass the kernel itself, not its name",
        "test_the_name_of_a_kernel",
    )


@wp.kernel
def with_default(x: wp.array(dtype=float), n: int = 3):
    x[wp.tid()] = float(n)


def test_a_default_of_a_parameter() -> None:
    with pytest.raises(wp.LaunchError) as caught:
        wp.launch(with_default, dim=3, inputs=[floats(1, 2, 3)])
    assert str(caught.value).splitlines()[-1] == (
        "  = hint: pass n too: kernels have no defaults of parameters"
    )


KERNEL = """import tapedebug as wp

@wp.kernel
def k(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    {body}
"""


def kernel_of(body: str, folder: Path) -> Any:
    """A kernel with this body, from a file of its own, for kernels are read from source."""
    path = folder / "user.py"
    path.write_text(KERNEL.format(body=body), encoding="utf-8")
    names: dict[str, Any] = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    return names["k"]


@pytest.mark.parametrize("case", KERNELS)
def test_a_kernel_with_a_mistake(case: str, tmp_path: Path) -> None:
    body, kind, head, carets, hint = KERNELS[case]
    kernel = kernel_of(body, tmp_path)
    y = floats(7, 7, 7)
    with wp.Tape() as tape, pytest.raises(kind) as caught:
        wp.launch(kernel, dim=3, inputs=[floats(1, 2, 3)], outputs=[y])
    lines = str(caught.value).splitlines()
    written = f"    {body}".splitlines()
    line = max(n for n, source in enumerate(written) if carets in source)
    source = written[line]
    at = source.rindex(carets)
    where = f"  --> {tmp_path / 'user.py'}:{6 + line}, in k"
    assert lines == [
        head,
        where,
        f"   | {source}",
        f"   | {' ' * at}{'^' * len(carets)}",
        f"  = hint: {hint}",
    ]
    assert (len(tape.records), y.numpy().tolist()) == (0, [7.0, 7.0, 7.0])


def test_an_annotation_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "user.py"
    path.write_text("import tapedebug as wp\n@wp.kernel\ndef k(x, y: float):\n    pass\n", encoding="utf-8")
    names: dict[str, Any] = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    with pytest.raises(wp.KernelTypeError) as caught:
        wp.launch(names["k"], dim=1, inputs=[floats(1), 1.0])
    assert str(caught.value) == textwrap.dedent(f"""\
        kernel `k`: the parameter `x` has no type
          --> {path}:3, in k
           | def k(x, y: float):
           |       ^
          = hint: annotate it, for example `x: array(dtype=float)` or `x: float`""")


# ------------------------------------------------------------------ arrays

TYPES = (
    "is not a type of the kernel language (bool, int8, uint8, int16, uint16, int32, uint32, int64, uint64, "
    "float16, bfloat16, float32, float64, vec2 … vec4, mat22 … mat44, quat, transform, …)"
)


@pytest.mark.parametrize(
    ("make", "messages"),
    [
        (
            lambda: wp.array([1.0], dtype="float32"),
            f"array: 'float32' {TYPES}\n  = hint: write the type itself: dtype=wp.float32",
        ),
        (
            lambda: wp.zeros(3, dtype="int"),
            f"zeros: 'int' {TYPES}\n  = hint: write the type itself: dtype=int",
        ),
        (
            lambda: wp.zeros(3, dtype="floaty"),
            f"zeros: 'floaty' {TYPES}\n  = hint: use a type of the kernel language as dtype",
        ),
        (
            lambda: wp.zeros(3, 4),
            f"zeros: 4 {TYPES}\n  = hint: write the sizes of a shape in brackets: zeros((…, 4), dtype=float)",
        ),
        (
            lambda: wp.array(float),
            "array: the data is the type float\n"
            "  = hint: in the annotation of a parameter, write array(dtype=float)",
        ),
    ],
)
def test_types_and_shapes_that_are_written_wrongly(make: Callable[[], Any], messages: str) -> None:
    with pytest.raises(wp.ArrayError) as caught:
        make()
    assert str(caught.value) == messages


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (lambda: wp.array([1, 2, 3], requires_grad=True), "int64"),
        (lambda: wp.array([1, 2, 3], dtype=int, requires_grad=True), "int32"),
        (lambda: wp.zeros(3, dtype=int, requires_grad=True), "int32"),
        (lambda: wp.full(3, True, dtype=bool, requires_grad=True), "bool"),
        (lambda: wp.from_numpy(np.arange(3), requires_grad=True), "int64"),
        (lambda: wp.empty(3, dtype=wp.vec3i, requires_grad=True), "vec3i"),
    ],
)
def test_integers_asked_to_carry_a_gradient(make: Callable[[], Any], dtype: str) -> None:
    with pytest.warns(wp.TapedebugWarning) as caught:
        make()
    (warning,) = caught
    assert warning.filename == __file__
    assert str(warning.message) == (
        f"an array of {dtype} with requires_grad=True: its gradient stays 0, because only floats have "
        "derivatives\n  = hint: create it with dtype=float, or leave out requires_grad"
    )


# ------------------------------------------------------------------ the reverse pass


def recorded() -> tuple[Any, Any, Any, Any]:
    x, y, loss = floats(1, 2, 3), floats(0, 0, 0), floats(0)
    with wp.Tape() as tape:
        launch(x, 2.0, y)
        wp.launch(total, dim=3, inputs=[y], outputs=[loss])
    return tape, x, y, loss


BACKWARD: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "not a scalar": (
        lambda tape, y: tape.backward(y),
        "backward: the loss must be a scalar; got an array(shape=(3,), dtype=float32)\n"
        "  = hint: sum it into an array of one element, or pass grads={array: seed}",
    ),
    "no gradient": (
        lambda tape, y: tape.backward(floats(0, requires_grad=False)),
        "backward: the loss array(shape=(1,), dtype=float32) has no gradient: requires_grad is not set\n"
        "  = hint: create it with requires_grad=True",
    ),
    "not on the tape": (
        lambda tape, y: tape.backward(floats(0)),
        "backward: the loss, an array(shape=(1,), dtype=float32), is not on this tape: "
        "none of its 2 records uses it\n"
        "  = hint: launch what computes it inside `with tape:`",
    ),
    "a number": (
        lambda tape, y: tape.backward(3.0),
        "backward: the loss must be an array of one element; got 3.0 (float)\n"
        "  = hint: let a kernel write the loss into zeros(1, requires_grad=True)",
    ),
    "a seed of another shape": (
        lambda tape, y: tape.backward(grads={y: floats(1, 2)}),
        "backward: the seed of the array(shape=(3,), dtype=float32) has shape (2,), dtype float32\n"
        "  = hint: pass values of shape (3,), such as ones_like(array)",
    ),
    "an empty tape": (
        lambda tape, y: wp.Tape().backward(y),
        "backward: nothing was recorded on this tape\n  = hint: run the launches inside `with tape:` first",
    ),
}


@pytest.mark.parametrize("case", BACKWARD)
def test_a_backward_that_cannot_be(case: str) -> None:
    call, wanted = BACKWARD[case]
    tape, x, y, loss = recorded()
    with pytest.raises(wp.TapeError) as caught:
        call(tape, y)
    assert str(caught.value) == wanted
    assert x.grad.numpy().tolist() == [0.0, 0.0, 0.0], "nothing half-done is left behind"
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [2.0, 2.0, 2.0]


def test_backward_twice_adds_up_and_zero_starts_again() -> None:
    tape, x, _, loss = recorded()
    tape.backward(loss)
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [4.0, 4.0, 4.0]
    tape.zero()
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [2.0, 2.0, 2.0]


def test_an_exception_inside_a_tape_leaves_it_closed() -> None:
    x, y, loss = floats(1, 2, 3), floats(0, 0, 0), floats(0)
    tape = wp.Tape()
    with pytest.raises(ZeroDivisionError), tape:
        launch(x, 2.0, y)
        1 / 0
    with wp.Tape() as second:
        launch(x, 2.0, y)
        wp.launch(total, dim=3, inputs=[y], outputs=[loss])
    assert (len(tape.records), len(second.records)) == (1, 2)
    second.backward(loss)
    assert x.grad.numpy().tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("check", ["gradcheck_tape", "diagnose"])
def test_a_check_that_is_interrupted_leaves_every_array(
    check: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stop the check at its third launch of a compiled kernel, wherever that is."""
    from tapedebug.compiler.objects import Entry

    tape, x, y, loss = recorded()
    tape.backward(loss)
    arrays = [x, y, loss]
    before = [(a.numpy().copy(), a.grad.numpy().copy()) for a in arrays]
    calls = 0
    real = Entry.__call__

    def third(self: Any, *arguments: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise error("in the middle")
        real(self, *arguments)

    monkeypatch.setattr(Entry, "__call__", third)
    with pytest.raises(error, match="in the middle"):
        if check == "diagnose":
            wp.diagnose(tape, loss=loss)
        else:
            wp.autograd.gradcheck_tape(tape, show_summary=False)
    monkeypatch.undo()
    assert calls >= 3
    for a, (values, gradient) in zip(arrays, before, strict=True):
        assert a.numpy().tolist() == values.tolist()
        assert a.grad.numpy().tolist() == gradient.tolist()
    x.grad.zero_()
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [2.0, 2.0, 2.0]


def test_an_optimizer_without_gradients() -> None:
    with pytest.raises(wp.ArrayError) as caught:
        wp.optim.Adam([floats(1)], lr=0.1).step(None)
    assert str(caught.value) == (
        "Adam.step: grad must be a list of gradients; got None\n  = hint: pass [parameter.grad, …]"
    )


@pytest.mark.parametrize("decorator", ["kernel", "func"])
def test_what_is_decorated_is_a_function(decorator: str) -> None:
    class Model:
        pass

    with pytest.raises(wp.KernelTypeError) as caught:
        getattr(wp, decorator)(Model)
    assert str(caught.value) == (
        f"{decorator}: only functions can be decorated; got the class `Model`\n"
        f"  = hint: write @{decorator} above a `def`"
    )


def test_seeds_that_are_no_dictionary() -> None:
    tape, _, y, _ = recorded()
    with pytest.raises(wp.TapeError) as caught:
        tape.backward(grads=[y])
    assert str(caught.value) == (
        "backward: grads must be a dictionary from arrays to their adjoints; got a list\n"
        "  = hint: pass grads={array: adjoint}"
    )


def test_a_static_method_is_no_function() -> None:
    with pytest.raises(wp.KernelTypeError) as caught:

        class Model:
            @wp.kernel
            @staticmethod
            def step(x: wp.array(dtype=float)):
                x[wp.tid()] = 1.0

    assert str(caught.value) == (
        "kernel: only functions can be decorated; got the staticmethod `step`\n"
        "  = hint: leave @staticmethod out: in a class, @kernel alone makes it `Class.step`"
    )


def test_a_kernel_in_a_class_is_launched_by_its_name() -> None:
    class Model:
        @wp.kernel
        def step(x: wp.array(dtype=float)):
            x[wp.tid()] = 2.0

    x = floats(1, 1, 1)
    wp.launch(Model().step, dim=3, inputs=[x])
    assert x.numpy().tolist() == [2.0, 2.0, 2.0]
