"""The result of `jacobian` and `jacobian_fd`: a dictionary by positions, also accessible by names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tapedebug._display import renderer
from tapedebug.autograd.subjects.program import Place, Port

Key = tuple[Place, Place]


class Jacobians(dict[Key, Any]):
    """Jacobians by (input, output).

    Keys are the positions of arguments among the inputs and among the outputs, `(0, 1)`; a field of a struct
    has its name instead, `("state.q", 0)`. Names are accepted for all: `jacobians["x", "y"]`.

    Attributes:
        runs: The number of adjoint runs, tangent runs or differences.
        notes: Notes on their computation.
    """

    def __init__(
        self, found: Mapping[tuple[Port, Port], Any], runs: int = 0, notes: Sequence[str] = ()
    ) -> None:
        super().__init__({(i.place, o.place): jacobian for (i, o), jacobian in found.items()})
        self._inputs: dict[Any, Place] = {source.name: source.place for source, _ in found}
        self._outputs: dict[Any, Place] = {target.name: target.place for _, target in found}
        self.runs, self.notes = runs, list(notes)
        self._names = [(source.name, target.name) for source, target in found]
        self._shapes = [(o.shape, i.shape, o.components, i.components) for i, o in found]

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Any:
        """Return the MIME bundle for a notebook."""
        return renderer().static(self)

    def _placed(self, key: object) -> Any:
        if not isinstance(key, tuple) or len(key) != 2:
            return key
        return self._inputs.get(key[0], key[0]), self._outputs.get(key[1], key[1])

    def __missing__(self, key: object) -> Any:
        placed = self._placed(key)
        if dict.__contains__(self, placed):
            return self[placed]
        known = ", ".join(f"{at} ({i} → {o})" for at, (i, o) in zip(self, self._names, strict=False))
        raise KeyError(f"there is no Jacobian {key!r}; there are {known or 'none'}")

    def __contains__(self, key: object) -> bool:
        return dict.__contains__(self, self._placed(key))

    def get(self, key: object, default: object = None) -> Any:
        """Return the Jacobian of a pair, by positions or names, or `default`."""
        return dict.get(self, self._placed(key), default)
