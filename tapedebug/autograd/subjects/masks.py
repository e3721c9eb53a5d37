"""Parse an `input_output_mask`: the pairs that it names, and the entries of their arrays.

A side of a pair is `"x"`, `0` (the place of the argument), an array itself, `"state.q"` (a field), or entries
as NumPy indexes them: `"x[3:5]"`, `"x[::2, 1]"`, `"x[2].y"`, `"bodies[3].pos"`, `("x", slice(3, 5))`,
`(0, [1, 4, 7])`. Components of vectors are the last axes.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._errors import GradcheckError
from tapedebug._syntax import parsed
from tapedebug.autograd.subjects.pairs import Mask
from tapedebug.autograd.subjects.program import IN_PLACE, Pairs, Port
from tapedebug.contract import is_array
from tapedebug.lang.types import Compound, canonical

FORMS = '"x", 0, "state.q", "x[3:5]", "x[2].y" or ("x", slice(3, 5))'
LONG = 24  # indices up to which a chosen list of them is part of a label


@dataclass(frozen=True)
class Argument:
    """One array or number of a call, after structs have been flattened.

    Attributes:
        place: Index of its argument among the inputs, or among the outputs.
        name: Its name: "x", "state.q".
        value: The array or number.
        port: Its port; None if it has no derivatives.
    """

    place: int
    name: str
    value: Any
    port: Port | None


@dataclass(frozen=True)
class PathStep:
    """One indexing step into an array.

    Attributes:
        index: Index of entries; None for a named component.
        component: Name of the component, such as "y".
        of_value: The index applies to the values (`bodies[3:5].pos[1]`), not to the array.
    """

    index: Any = None
    component: str = ""
    of_value: bool = False


def choose_pairs(subject: str, inputs: Sequence[Argument], outputs: Sequence[Argument], mask: Mask) -> Pairs:
    """Return all pairs, or those of `mask`.

    Args:
        subject: The name for messages: "kernel square".
        inputs: Everything that the mask can name on the left, differentiable or not.
        outputs: The same on the right.
        mask: See the module; None for all pairs.

    Raises:
        GradcheckError: The mask names something that does not exist.
    """
    sources, targets = MaskSide(subject, "input", inputs), MaskSide(subject, "output", outputs)
    pairs = Pairs()
    if mask is None:
        # An array that is written in place is an input and an output under one name.
        pairs.chosen = [(i, o) for i in sources.ports for o in targets.ports]
        return pairs
    if isinstance(mask, str) or not isinstance(mask, Iterable):
        raise _no_pair(subject, mask)
    for entry in mask:
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            raise _no_pair(subject, entry)
        found = sources.meant(entry[0]), targets.meant(entry[1])
        missing = next((key for key, ports in zip(entry, found, strict=True) if not ports), None)
        if missing is not None:
            pairs.notes.append(
                f"not checked: ({key_text(entry[0])}, {key_text(entry[1])}) was asked for, "
                f"but {key_text(missing)} is not an array with requires_grad=True"
            )
        pairs.chosen += [(i, o) for i in found[0] for o in found[1] if (i, o) not in pairs.chosen]
    if not pairs.chosen and not pairs.notes:
        pairs.notes.append("not checked: the input-output mask is empty")
    for ports in (pairs.inputs(), pairs.outputs()):
        whole = {port.name for port in ports if port.only is None}
        pairs.notes += [
            f"not checked: {port.name} beyond {port.label}, {len(port.positions)} of its {port.size} entries"
            for port in ports
            if port.only is not None and port.name not in whole
        ]
    return pairs


def _no_pair(subject: str, entry: object) -> GradcheckError:
    return GradcheckError(
        f"{subject}: an entry of the input-output mask is a pair (input, output); got {key_text(entry)}",
        hint='write a list of pairs: [("x", "y")] or [(0, 0)]',
    )


class MaskSide:
    """The inputs, or the outputs, that a mask can name.

    Args:
        subject: The name for messages: "kernel square".
        kind: "input" or "output".
        arguments: All arguments, differentiable or not, in order.
    """

    def __init__(self, subject: str, kind: str, arguments: Sequence[Argument]) -> None:
        self.subject = subject
        self.kind = kind
        self.arguments = list(arguments)
        self._views: dict[tuple[str, bytes], Port] = {}

    @property
    def ports(self) -> list[Port]:
        """The ports of all arguments with derivatives."""
        return [a.port for a in self.arguments if a.port is not None]

    def meant(self, key: object) -> list[Port]:
        """Return the ports that a key selects, restricted to its entries; none if none has derivatives.

        Raises:
            GradcheckError: The key is not valid, or names something that does not exist.
        """
        found, steps = self._found(key)
        ports = [argument.port for argument in found if argument.port is not None]
        return [self._restricted(port, steps, key) for port in ports]

    # -------------------------------------------------------------- which arguments

    def _found(self, key: object) -> tuple[list[Argument], list[PathStep]]:
        if isinstance(key, tuple | list) and len(key) == 2 and not isinstance(key[1], str):
            found, steps = self._found(key[0])
            return found, [*steps, PathStep(key[1])]
        if isinstance(key, str):
            return self._named(key)
        if isinstance(key, int | np.integer) and not isinstance(key, bool):
            found = [argument for argument in self.arguments if argument.place == key]
        elif is_array(key):
            found = [argument for argument in self.arguments if argument.value is key]
        else:
            raise GradcheckError(
                f"{self.subject}: inputs and outputs in a mask are names, indices or arrays, perhaps with an "
                f"index into them; got {key_text(key)}",
                hint=f"write {FORMS}",
            )
        if not found:
            raise self._unknown(key)
        return found, []

    def _named(self, key: str) -> tuple[list[Argument], list[PathStep]]:
        found = self._under(key)
        if found:
            return found, []
        # Names such as "xs[0]" are not parsed as paths.
        odd = [a.name for a in self.arguments if key.startswith(a.name) and not _is_path(a.name)]
        stem = max(odd, key=len, default="")
        path, steps = self._parsed(key, "_" + key[len(stem) :] if stem else key)
        path = stem + path[1:] if stem else path
        found = self._under(path)
        if not found and "." in path:  # the last name may be that of a component
            owner, _, letter = path.rpartition(".")
            found = [a for a in self._under(owner) if component_of(a.value, letter) is not None]
            steps = [*steps, PathStep(component=letter)]
        if not found:
            raise self._unknown(key, path)
        return found, steps

    def _under(self, path: str) -> list[Argument]:
        """Return the argument with a name, or the parts of that struct: those with derivatives, if any."""
        inside = (f"{path}.", f"{path}[")
        found = [a for a in self.arguments if a.name in {path, path + IN_PLACE} or a.name.startswith(inside)]
        return [a for a in found if a.port is not None] or found

    def _parsed(self, key: str, text: str) -> tuple[str, list[PathStep]]:
        """Return the names in a text, joined by dots, and its indices; `key` is the user's key."""
        try:
            node: ast.expr = parsed(text.strip(), mode="eval").body
            names, steps = [], []
            while not isinstance(node, ast.Name):
                if isinstance(node, ast.Attribute):
                    names.append(node.attr)
                    node = node.value
                elif isinstance(node, ast.Subscript):
                    steps.append(PathStep(_index(node.slice)))
                    names.append("[")
                    node = node.value
                else:
                    raise ValueError(ast.unparse(node))
            names.append(node.id)
        except (SyntaxError, ValueError):
            raise GradcheckError(
                f"{self.subject}: the input-output mask names the {self.kind} {key!r}, which is not a name "
                "with an index of integers and slices",
                hint=f"write {FORMS}",
            ) from None
        return ".".join(name for name in reversed(names) if name != "["), _placed(names[::-1], steps[::-1])

    def _unknown(self, key: object, path: str | None = None) -> GradcheckError:
        listed = ", ".join(f"{a.place}: {a.name}" for a in self.arguments) or "none"
        names = [a.name for a in self.arguments]
        near = difflib.get_close_matches(path or "", names, 1)
        near = near or [name for name in names if name.lower() == (path or "").lower()]
        shown = repr(key) if isinstance(key, str | int) else "an array that is not among them"
        return GradcheckError(
            f"{self.subject}: the input-output mask names the {self.kind} {shown}; "
            f"the {self.kind}s are {listed}",
            hint=f"did you mean {near[0]!r}?"
            if near
            else f"name one of them, or give its index among the {self.kind}s",
        )

    # -------------------------------------------------------------- which entries

    def _restricted(self, port: Port, steps: Sequence[PathStep], key: object) -> Port:
        if not steps:
            return port
        positions = np.arange(port.size).reshape(port.shape)
        inside = len(port.array.element_shape)
        label = port.name
        for step in steps:
            index = step.index if isinstance(step.index, tuple) else (step.index,)
            if step.component:
                index = (..., component_of(port.array, step.component))
                label += f".{step.component}"
            elif step.of_value:
                index = (..., *index, *[slice(None)] * (inside - len(index)))
            if not step.component:
                label += f"[{spelled(index)}]"
            try:
                positions = positions[index]
            except IndexError as error:
                raise self._no_such_entries(port, key, str(error)) from None
        only = np.unique(positions)
        if not len(only):
            raise self._no_such_entries(port, key, "it chooses none of them")
        if len(only) == port.size:
            return port
        same = port.name, only.tobytes()
        return self._views.setdefault(same, replace(port, only=only, label=label))

    def _no_such_entries(self, port: Port, key: object, why: str) -> GradcheckError:
        inner = "".join(f" × {n}" for n in port.array.element_shape)
        shape = f"shape {port.array.shape}" + (f" of {port.array.dtype_name}" if inner else "")
        return GradcheckError(
            f"{self.subject}: the input-output mask asks for {key_text(key)}, "
            f"but {port.name} has {shape}: {why}",
            hint=f"index it as an array of shape {port.shape}",
        )


def _is_path(name: str) -> bool:
    """True for a name, or several names joined by dots."""
    return all(part.isidentifier() for part in name.split("."))


def _placed(names: Sequence[str], steps: Sequence[PathStep]) -> list[PathStep]:
    """Return the indices of a key; one after a field of an indexed element applies to the field's value."""
    found, order = [], iter(steps)
    indexed = named = False
    for name in names:
        if name != "[":
            named = indexed
            continue
        found.append(replace(next(order), of_value=named))
        indexed = True
    return found


def _index(node: ast.expr) -> Any:
    """Return the index that a text describes.

    Raises:
        ValueError: It has other parts than integers, slices, lists of integers and `...`.
    """
    if isinstance(node, ast.Tuple):
        return tuple(_index(part) for part in node.elts)
    if isinstance(node, ast.Slice):
        ends = node.lower, node.upper, node.step
        return slice(*(None if end is None else _index(end) for end in ends))
    value = ast.literal_eval(node)
    if value is Ellipsis or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, list) and all(isinstance(part, int) for part in value):
        return value
    raise ValueError(value)


def component_of(array: object, letter: str) -> int | slice | None:
    """Return the component of an array's elements with this name: `y` of a vector, `q` of a transform."""
    if not hasattr(array, "dtype"):
        return None
    kind = canonical(array.dtype)
    if not (isinstance(kind, type) and issubclass(kind, Compound)):
        return None
    named = getattr(kind, "named", {}).get(letter)
    if named is not None:
        return slice(named.start, named.stop)
    letters = getattr(kind, "letters", "")
    return letters.index(letter) if len(letter) == 1 and letter in letters else None


def spelled(index: object) -> str:
    """Return an index as it is written between brackets."""
    if isinstance(index, tuple):
        return ", ".join(spelled(part) for part in index)
    if isinstance(index, slice):
        parts = [index.start, index.stop] + ([] if index.step is None else [index.step])
        return ":".join("" if part is None else str(part) for part in parts)
    if index is Ellipsis:
        return "..."
    values = np.asarray(index)
    if values.ndim == 0:
        return str(index)
    listed = np.flatnonzero(values) if values.dtype == bool and values.ndim == 1 else values
    return str(listed.tolist()) if listed.size <= LONG else f"{listed.size} entries"


def key_text(key: object) -> str:
    """Return a key of a mask, or an entry, for messages."""
    if isinstance(key, tuple | list):
        return f"({', '.join(key_text(part) for part in key)})"
    if is_array(key):
        return f"an array of shape {key.shape}"
    return spelled(key) if isinstance(key, slice | np.ndarray) else repr(key)
