"""Names of single entries: `force[3].y`, `frame[0].q.w`, `stress[2][0, 1]`."""

from __future__ import annotations

from collections.abc import Sequence

from tapedebug.autograd.subjects.program import IN_PLACE
from tapedebug.contract import Array
from tapedebug.lang.types import canonical, is_matrix, is_transformation, value_shape

POSE = ("p.x", "p.y", "p.z", "q.x", "q.y", "q.z", "q.w")


def value_type(array: Array) -> type:
    """Return the class of an array's elements in the kernel language; of another engine's array, `float`."""
    found: type = getattr(array, "dtype", float)
    return found


def component_name(dtype: type, component: Sequence[int]) -> str:
    """Return the name of a scalar of an element: `.y`, `.q.w`, `[0, 1]`; empty for scalar elements."""
    if not component:
        return ""
    kind = canonical(dtype)
    if is_transformation(kind):
        return f".{POSE[component[0]]}"
    letters = getattr(kind, "letters", "")
    if not is_matrix(kind) and len(letters) == kind.length:
        return f".{letters[component[0]]}"
    return f"[{', '.join(map(str, component))}]"


def entry_name(name: str, index: Sequence[int], dtype: type) -> str:
    """Return the name of one scalar of an array.

    Args:
        name: Name of the array; an in-place mark moves to the end.
        index: Index of the element, followed by the component.
        dtype: Element type of the array.
    """
    inner = len(value_shape(canonical(dtype)))
    split = len(index) - inner
    place = f"[{', '.join(map(str, index[:split]))}]" if split else ""
    mark = IN_PLACE if name.endswith(IN_PLACE) else ""
    return f"{name.removesuffix(IN_PLACE)}{place}{component_name(dtype, index[split:])}{mark}"
