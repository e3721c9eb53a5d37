"""References: annotations of parameters through which a function changes what its caller passes."""

from __future__ import annotations

from typing import Any


class Reference:
    """The annotation `ref[float]` of a parameter of a `@func` that the function changes for its caller.

    The caller passes a variable, an element of an array, or a field or component of one. Gradients flow
    through it as if the function's statements stood in the caller.

    Attributes:
        dtype: The type of the value.
    """

    __slots__ = ("dtype",)

    def __init__(self, dtype: Any) -> None:
        from tapedebug.lang.types import canonical

        self.dtype = canonical(dtype) if isinstance(dtype, type) else dtype

    def __class_getitem__(cls, dtype: Any) -> Reference:
        """Return the annotation: `ref[wp.vec3]`."""
        return cls(dtype)

    @property
    def value_type(self) -> Any:
        """The type of the value."""
        return self.dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(("ref", self.dtype))

    def __repr__(self) -> str:
        return f"wp.ref[{getattr(self.dtype, '__name__', self.dtype)}]"


ref = Reference
