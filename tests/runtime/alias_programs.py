"""Random programs over a few blocks of memory that go by many names; run anew they give differences.

Everything is float64, so that differences of the program itself, run again with other inputs, are a reference
that knows nothing of tapes, versions or replays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tapedebug as wp

SIZE = 12
D = wp.float64


@wp.struct
class Body:
    """Fields of several types beside each other."""

    place: wp.vec3d
    mass: D
    tag: int


@wp.kernel
def square(x: wp.array(dtype=D), y: wp.array(dtype=D)):
    i = wp.tid()
    y[i] = D(0.5) * x[i] * x[i] + D(0.1)


@wp.kernel
def wave(x: wp.array(dtype=D), y: wp.array(dtype=D)):
    i = wp.tid()
    y[i] = wp.sin(x[i]) + D(0.3) * y[i]


@wp.kernel
def linear(x: wp.array(dtype=D), y: wp.array(dtype=D)):
    i = wp.tid()
    y[i] = D(0.7) * x[i]


@wp.kernel
def gained(x: wp.array(dtype=D), y: wp.array(dtype=D)):
    i = wp.tid()
    wp.atomic_add(y, i, D(0.3) * x[i] * x[i])


@wp.kernel
def grow(x: wp.array(dtype=D)):
    i = wp.tid()
    x[i] = x[i] * (D(1.1) - D(0.2) * x[i])


@wp.kernel
def twice(x: wp.array(dtype=D)):
    i = wp.tid()
    for _ in range(2):
        x[i] = wp.cos(x[i])
    x[i] = x[i] * D(0.9)


@wp.kernel
def gather(x: wp.array(dtype=D), index: wp.array(dtype=int), y: wp.array(dtype=D)):
    i = wp.tid()
    y[i] = x[index[i]] * y[i] + D(0.2)


@wp.kernel
def shift(index: wp.array(dtype=int), length: int):
    i = wp.tid()
    index[i] = (index[i] + 1) % length


@wp.kernel
def kick(seed: int, x: wp.array(dtype=D)):
    i = wp.tid()
    state = wp.rand_init(seed, i)
    x[i] = x[i] * (D(0.8) + D(0.4) * D(wp.randf(state)))


@wp.kernel
def weigh(loads: wp.array(dtype=wp.vec3d), y: wp.array(dtype=D)):
    i = wp.tid()
    y[i] = wp.dot(loads[i], loads[i]) * D(0.2)


@wp.kernel
def total(x: wp.array(dtype=D), weights: wp.array(dtype=D), loss: wp.array(dtype=D)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * weights[i] + D(0.1) * x[i] * x[i])


def numbers(values: Any, grad: bool = True) -> Any:
    return wp.array(np.asarray(values, np.float64), dtype=D, requires_grad=grad)


class Memory:
    """The blocks of memory of a program, and the names that they go by."""

    def __init__(self, inputs: np.ndarray[Any, Any]) -> None:
        self.plain = numbers(inputs[:SIZE])
        self.other = numbers(inputs[SIZE : 2 * SIZE])
        self.foreign = np.array(inputs[2 * SIZE : 3 * SIZE])
        self.shared = wp.array(self.foreign, copy=False, requires_grad=True)
        self.bodies = wp.zeros(SIZE // 3, dtype=Body, requires_grad=True)
        self.index = wp.array(np.arange(SIZE) % 3, dtype=int)
        self.weights = numbers(np.linspace(0.5, 1.5, SIZE), grad=False)
        self.loss = wp.zeros(1, dtype=D, requires_grad=True)

    def views(self) -> list[Callable[[], Any]]:
        """All names; each call makes the view anew, as users do."""
        a, b, s = self.plain, self.other, self.shared
        return [
            lambda: a,
            lambda: a[2:8],
            lambda: a[5:],
            lambda: a[::2],
            lambda: a[::-1],
            lambda: a.reshape((3, 4))[1],
            lambda: a.reshape((3, 4))[:, 2],
            lambda: a.reshape((4, 3)).transpose()[1],
            lambda: wp.array(ptr=a.ptr + 8 * 3, shape=5, dtype=D, requires_grad=True),
            lambda: wp.array(a.numpy()[4:9], copy=False, requires_grad=True),
            lambda: wp.from_dlpack(a)[:7],
            lambda: a.reshape((4, 3)).view(wp.vec3d).view(D).flatten()[1:],
            lambda: b,
            lambda: b[:6],
            lambda: b[1::3],
            lambda: wp.from_dlpack(np.from_dlpack(b)),
            lambda: s,
            lambda: s[3:],
            lambda: wp.array(self.foreign, copy=False, requires_grad=True),
            lambda: wp.array(self.foreign[2:10:2], copy=False, requires_grad=True),
            lambda: wp.from_dlpack(self.foreign[6:]),
            lambda: self.bodies["mass"],
            lambda: self.bodies["mass"][1:],
        ]  # fmt: skip


class Program:
    """A random program: a list of steps that are drawn once and can be run again and again.

    Args:
        seed: Of the draw.
        steps: How many.
        outside: Also write through NumPy, and with recording paused.
    """

    def __init__(self, seed: int, steps: int = 25, outside: bool = True) -> None:
        rng = np.random.default_rng(seed)
        self.inputs = rng.uniform(-1.0, 1.0, 3 * SIZE)
        names = len(Memory(self.inputs).views())
        kinds = [*_STEPS, *(_OUTSIDE if outside else ())]
        self.steps = [
            (kinds[rng.integers(len(kinds))], *rng.integers(names, size=2), int(rng.integers(1000)))
            for _ in range(steps)
        ]

    def run(self, inputs: Any = None, **options: Any) -> tuple[Memory, Any]:
        """Run and record; returns the memory and the tape."""
        memory = Memory(self.inputs if inputs is None else inputs)
        tape = wp.Tape(**options)
        with tape:
            for step, first, second, number in self.steps:
                views = memory.views()
                x, y = _graded(views[first]()), _graded(views[second]())
                step(memory, x, y, number)
            for whole in (memory.plain, memory.other, memory.shared):
                wp.launch(total, SIZE, [whole, memory.weights, memory.loss])
        return memory, tape

    def gradients(self, **options: Any) -> np.ndarray[Any, Any]:
        """The gradient with respect to the inputs, by a tape."""
        memory, tape = self.run(**options)
        tape.backward(memory.loss)
        return gradient_of(memory)

    def differences(self) -> np.ndarray[Any, Any]:
        """The same by central differences of the program."""
        found = np.zeros_like(self.inputs)
        for k in range(found.size):
            sides = []
            for step in (1e-6, -1e-6):
                moved = self.inputs.copy()
                moved[k] += step
                sides.append(float(self.run(moved)[0].loss.numpy()[0]))
            found[k] = (sides[0] - sides[1]) / 2e-6
        return found


def gradient_of(memory: Memory) -> np.ndarray[Any, Any]:
    return np.concatenate([a.grad.numpy() for a in (memory.plain, memory.other, memory.shared)])


def _graded(a: Any) -> Any:
    a.requires_grad = True
    return a


def _launch(kernel: Any) -> Callable[[Memory, Any, Any, int], None]:
    def step(memory: Memory, x: Any, y: Any, number: int) -> None:
        wp.launch(kernel, min(x.size, y.size), [x, y])

    step.__name__ = kernel.key
    return step


def _in_place(kernel: Any) -> Callable[[Memory, Any, Any, int], None]:
    return lambda memory, x, y, number: wp.launch(kernel, x.size, [x]) and None


def _gather(memory: Memory, x: Any, y: Any, number: int) -> None:
    wp.launch(gather, min(x.size, y.size), [x, memory.index, y])


def _shift(memory: Memory, x: Any, y: Any, number: int) -> None:
    wp.launch(shift, SIZE, [memory.index, 3])


def _kick(memory: Memory, x: Any, y: Any, number: int) -> None:
    wp.launch(kick, x.size, [number, x])


def _weigh(memory: Memory, x: Any, y: Any, number: int) -> None:
    wp.launch(weigh, min(3, y.size), [memory.plain.reshape((4, 3)).view(wp.vec3d), y])


def _copy(memory: Memory, x: Any, y: Any, number: int) -> None:
    count = 1 + number % min(x.size, y.size)
    wp.copy(y, x, dest_offset=y.size - count, src_offset=(x.size - count) // 2, count=count)


def _assign(memory: Memory, x: Any, y: Any, number: int) -> None:
    y.assign(np.linspace(0.1, 0.6, y.size))


def _fill(memory: Memory, x: Any, y: Any, number: int) -> None:
    y[: y.size // 2].fill_(0.25)


def _bodies(memory: Memory, x: Any, y: Any, number: int) -> None:
    wp.launch(square, 4, [memory.plain[4:8], memory.bodies["mass"]])
    wp.copy(memory.bodies["place"], memory.other.reshape((4, 3)).view(wp.vec3d))


def _paused(memory: Memory, x: Any, y: Any, number: int) -> None:
    wp.launch(linear, min(x.size, 3), [memory.weights, y], record_tape=False)


def _numpy(memory: Memory, x: Any, y: Any, number: int) -> None:
    memory.foreign[number % SIZE] = 0.5


def _window(memory: Memory, x: Any, y: Any, number: int) -> None:
    memory.plain.numpy()[number % SIZE] = -0.5


_STEPS = [
    *map(_launch, (square, wave, linear, gained)),
    *map(_in_place, (grow, twice)),
    _gather,
    _shift,
    _kick,
    _weigh,
    _copy,
    _assign,
    _fill,
    _bodies,
]
_OUTSIDE = [_paused, _numpy, _window]
