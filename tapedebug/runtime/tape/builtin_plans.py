"""Plans of operations that are not kernels: copies, fills, custom functions."""

from __future__ import annotations

from tapedebug.runtime.launch.plan import LaunchPlan, has_gradient
from tapedebug.runtime.memory.array import array

COPY = {
    grads: LaunchPlan(
        "copy",
        "copy",
        ("dest", "src"),
        reads=frozenset({1}),
        writes=frozenset({0}),
        covers=frozenset({0}),
        active=frozenset(i for i in (0, 1) if grads[i]),
    )
    for grads in ((False, False), (False, True), (True, False), (True, True))
}
"""Plans of copies by (dest has a gradient, src has one)."""

FILL = {
    grad: LaunchPlan(
        "fill",
        "fill",
        ("array",),
        writes=frozenset({0}),
        covers=frozenset({0}),
        active=frozenset({0} if grad else ()),
    )
    for grad in (False, True)
}

WRITE = LaunchPlan("func", "mark_write", ("array",), writes=frozenset({0}))
"""The plan of `mark_write`, which is no record: for the error if it would overwrite a needed value."""

READ = LaunchPlan("func", "read", ("array",), reads=frozenset({0}))
"""The plan of `mark_read`: a replay starts from the values read; `record_func` gives those an adjoint needs.
"""


def func_plan(arrays: tuple[array, ...]) -> LaunchPlan:
    """Return the plan of a custom reverse function: it may read every array that it was given."""
    every = frozenset(range(len(arrays)))
    return LaunchPlan(
        "func",
        "func",
        tuple(f"arrays[{i}]" for i in every),
        reads=every,
        active=frozenset(i for i in every if has_gradient(arrays[i])),
        needed=every,
    )
