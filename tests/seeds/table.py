"""The examples of the documents, one a row: what a document prints, and what is right, by calculation.

`programs/` has each program as its document gives it, with `import warp as wp`; what a document leaves out
(kernels that it only names, a device) is said in the program's first line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.seeds import independent as by_hand

PROGRAMS = Path(__file__).with_name("programs")

ZEROS, DOUBLE = "[0. 0. 0.]", "[2. 2. 2.]"
WRONG = "wrong"


@dataclass(frozen=True)
class Example:
    """One example.

    Attributes:
        name: Its file in `programs/`.
        where: The part of the documents.
        right: By the name of a variable of the program (`x.grad`), what it must hold; computed without an
            engine of kernels.
        document: What the document prints, by the same names; nothing where it prints nothing.
        why: Where the document's numbers differ: why ours are right. Else what holds.
        ignore: Names for which `on_overwrite="ignore"` gives the document's numbers.
        refused: The message, where the program cannot run here.
        peer: What warp-lang 1.19 prints where that is not what the document prints, nor, where that prints
            nothing, what is right (`WRONG`: some other numbers); None where it does not run the program.
    """

    name: str
    where: str
    right: Callable[[], dict[str, Any]] = dict
    document: dict[str, str] = field(default_factory=dict)
    why: str = ""
    ignore: bool = False
    refused: str = ""
    peer: dict[str, str] | None = field(default_factory=dict)

    @property
    def source(self) -> str:
        """The program, as the document has it."""
        return (PROGRAMS / f"{self.name}.py").read_text()


def loop_of_products() -> dict[str, Any]:
    """The gradient of x0 x1 x2 at (2, 2, 2)."""
    return {"x.grad": by_hand.gradient(np.prod, [2.0, 2.0, 2.0])}


def weighted(weight: float) -> Callable[[], dict[str, Any]]:
    """The gradient of a weighted mean of three values."""
    weights = np.full(3, weight)
    return lambda: {"x.grad": by_hand.gradient(lambda x: (x @ weights) / weights.sum(), np.ones(3))}


def squares() -> dict[str, Any]:
    """The gradient of the sum of squares at (1, 2, 3)."""
    return {"a.grad": by_hand.gradient(lambda a: a * a, [1.0, 2.0, 3.0])}


def counted(thread_ids: list[int]) -> Callable[[], dict[str, Any]]:
    """Roots of 1 … 8 at indices that a counter gave."""
    return lambda: {
        "counter": [8],
        "thread_ids": thread_ids,
        "input": np.arange(1.0, 9.0),
        "output": np.sqrt(np.arange(1.0, 9.0)),
        "input.grad": by_hand.gradient(np.sqrt, np.arange(1.0, 9.0)),
    }


def quick_usage() -> dict[str, Any]:
    """The gradient once, and twice as much after a second backward pass."""
    once = by_hand.gradient(by_hand.crossed, np.arange(12.0).reshape(4, 3))
    return {"once": once, "twice": 2.0 * once, "zeroed": 0.0 * once}


def environments() -> dict[str, Any]:
    """The Jacobian of each of two environments."""
    values = np.array([[0.3, -1.0, 2.0, 0.7], [1.1, 0.2, -0.4, 3.0]])
    return {"jacobians": np.stack([by_hand.jacobian(by_hand.mixed, row) for row in values])}


def shared_force() -> dict[str, Any]:
    """The gradients of the two-step program by differences of its NumPy twin."""
    pos, vel = by_hand.START, by_hand.START[::-1]
    return {
        "pos0.grad": by_hand.gradient(lambda p: by_hand.two_steps(p, vel), pos),
        "vel0.grad": by_hand.gradient(lambda v: by_hand.two_steps(pos, v), vel),
    }


def saxpy() -> dict[str, Any]:
    """The gradients of 2 x + y."""
    return {
        "out": 2.0 * np.arange(128.0),
        "x.grad": by_hand.gradient(lambda x: 2.0 * x, np.arange(128.0)),
        "y.grad": np.ones(128),
    }


EIGHT = "[1. 1.4142135 1.7320508 2. 2.236068 2.4494898 2.6457512 2.828427]"
COUNTED = {"counter": "[8]", "input": "[1. 2. 3. 4. 5. 6. 7. 8.]", "output": EIGHT}

EXAMPLES = [
    Example(
        "quick_usage",
        "Tape, and the introduction",
        quick_usage,
        why="a second backward accumulates; zero() clears",
    ),
    Example("copy_array", "wp.copy()", lambda: {"x.grad": np.full(3, 2.0)}, {"x.grad": DOUBLE}),
    Example("clone", "wp.clone()", lambda: {"x.grad": np.full(3, 2.0)}, {"x.grad": DOUBLE}),
    Example(
        "detached_clone",
        "wp.clone(), note",
        lambda: {"x.grad": np.zeros(3)},
        why="nothing flows through a detached clone",
    ),
    Example("assign", "array.assign()", lambda: {"x.grad": np.full(3, 2.0)}, {"x.grad": DOUBLE}),
    Example(
        "jacobian_rows",
        "Jacobians, row by row",
        lambda: {"jacobian": by_hand.jacobian(by_hand.mixed, [0.3, -1.0, 2.0, 0.7])},
    ),
    Example("jacobian_environments", "Jacobians, in parallel environments", environments),
    Example(
        "safe_sqrt",
        "Custom Grad Function, without one",
        lambda: {"ys": np.sqrt([1.0, 2.0, 0.0]), "xs.grad": [0.5, 0.5 / np.sqrt(2.0), np.inf]},
        {"ys": "[1. 1.4142135 0. ]", "xs.grad": "[0.5 0.35355338 inf]"},
    ),
    Example(
        "safe_sqrt_gradient",
        "Custom Grad Function, with one",
        lambda: {"ys": np.sqrt([1.0, 2.0, 0.0]), "xs.grad": [0.5, 0.5 / np.sqrt(2.0), 0.0]},
        why="the user's gradient is 0 at 0, and everywhere else the derivative",
    ),
    Example(
        "counter",
        "Custom Replay Function, without one",
        counted([0] * 8),
        COUNTED | {"thread_ids": "[0 0 0 0 0 0 0 0]", "input.grad": "[4. 0. 0. 0. 0. 0. 0. 0.]"},
        why="each thread's adjoint uses the index that the counter gave it in the forward pass; "
        "the listing says dim = 16, the printed numbers are those of 8",
        peer={"input.grad": "[0.5 0. 0. 0. 0. 0. 0. 0.]"},
    ),
    Example(
        "counter_replay",
        "Custom Replay Function, with one",
        counted(list(range(8))),
        COUNTED
        | {
            "thread_ids": "[0 1 2 3 4 5 6 7]",
            "input.grad": "[0.5 0.35355338 0.28867513 0.25 0.2236068 0.20412414 0.18898225 0.17677669]",
        },
    ),
    Example(
        "native_shared_memory",
        "Custom Native Functions, shared memory",
        refused="__shared__",
        why="shared memory is CUDA's: a compiler for processors refuses the snippet, with its line",
        peer=None,
    ),
    Example("native_saxpy", "Custom Native Functions, adjoint snippet", saxpy),
    Example(
        "native_replay",
        "Custom Native Functions, replay snippet",
        lambda: {
            "thread_values": np.arange(8),
            "outputs": np.arange(8.0) ** 2,
            "inputs.grad": by_hand.gradient(np.square, np.arange(8.0)),
        },
        peer=None,
    ),
    Example(
        "native_return",
        "Custom Native Functions, a result",
        lambda: {"y": np.arange(5.0) ** 2, "x.grad": by_hand.gradient(np.square, np.arange(5.0))},
    ),
    Example(
        "jacobian",
        "Measuring Gradient Accuracy",
        why="the Jacobians are those of differences in NumPy, and the check passes",
    ),
    Example("gradcheck_tape", "gradcheck_tape()", why="both launches agree"),
    Example("visualize", "Visualizing Computation Graphs", why="every label and scope is in the graph"),
    Example(
        "shared_force",
        "Array Overwrite Tracking",
        shared_force,
        why="the document says that the gradients by pos0 and vel0 are wrong: here the first force is kept",
        peer={"pos0.grad": WRONG, "vel0.grad": WRONG},
    ),
    Example(
        "inter_kernel_overwrite",
        "A: Inter-Kernel Overwrite",
        lambda: {"a.grad": np.zeros(3), "c.grad": np.ones(3)},
        {"a.grad": "[-2. -4. -6.]"},
        why="the loss reads `a`, which then holds c: nothing of the first `a` reaches it "
        "(a slip of the document; its numbers belong to the next row)",
        peer={"a.grad": ZEROS},
    ),
    Example(
        "inter_kernel_overwrite_of_b",
        "A: Inter-Kernel Overwrite, with the loss of b",
        squares,
        {"a.grad": "[-2. -4. -6.]"},
        why="the adjoint of the square reads the values of `a` that the square read",
        ignore=True,
    ),
    Example(
        "intra_kernel_overwrite",
        "B: Intra-Kernel Overwrite",
        squares,
        {"a.grad": DOUBLE},
        why="the adjoint of the square reads the values of `a` that the square read",
        ignore=True,
    ),
    Example(
        "dynamic_loop_sum",
        "Dynamic Loops, a sum",
        lambda: {"x.grad": by_hand.gradient(np.sum, np.ones(3))},
        {"x.grad": "[1. 1. 1.]"},
    ),
    Example(
        "dynamic_loop_mult",
        "Dynamic Loops, a product",
        loop_of_products,
        {"x.grad": "[32. 8. 2.]"},
        why="the loop is reversed with the product that each iteration began with",
    ),
    Example(
        "static_loop_mult",
        "Dynamic Loops, made static",
        loop_of_products,
        {"x.grad": "[4. 4. 4.]"},
    ),
    Example(
        "dynamic_loop_kept",
        "Dynamic Loops, products kept in an array",
        loop_of_products,
        {"x.grad": "[4. 4. 4.]"},
    ),
    Example(
        "dynamic_loop_norm",
        "Dynamic Loops, a value used after one",
        weighted(1.0),
        {"x.grad": "[inf inf inf]"},
        why="the reverse pass divides by the norm that the loop left, 3, not by 0",
    ),
    Example(
        "dynamic_loop_function",
        "Dynamic Loops, in a function",
        weighted(0.5),
        {"x.grad": "[.33 .33 .33]"},
    ),
]
"""In the order of the documents."""
