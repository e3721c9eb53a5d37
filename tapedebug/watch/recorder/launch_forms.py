"""Descriptions of launches: the arrays of their arguments, and what their kernels do with them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from tapedebug.watch.arguments import Leaf, frozen
from tapedebug.watch.hooks import WarpObject
from tapedebug.watch.kernel_source import KernelUses
from tapedebug.watch.launch import LaunchForm, LaunchTemplate
from tapedebug.watch.memory import WatchedArray
from tapedebug.watch.recorder.recording import Recording
from tapedebug.watch.tape import WatchedTape


class LaunchForms:
    """The descriptions of launches that do not depend on their arrays, by kernel and kinds of arguments.

    Args:
        recording: The recording.
    """

    def __init__(self, recording: Recording) -> None:
        self._memory, self._objects = recording.memory, recording.objects
        self._arguments = recording.arguments
        self._uses = KernelUses()
        self._forms: dict[Hashable, LaunchForm] = {}

    def arguments(
        self, kernel: WarpObject, values: list[Any]
    ) -> tuple[list[WatchedArray | None], list[Leaf] | None, list[Any], list[Any]]:
        """Return the array of each leaf of the arguments, the leaves, and the arguments, as they are now.

        The leaves are None if each argument has one. The last item are the arguments that the program may
        change, with arrays of Warp in place of others.
        """
        plain = self._arguments.plain(kernel, values)
        if plain is not None:
            arrays, is_mutable = plain
            return arrays, None, list(map(frozen, values)) if is_mutable else values, values
        values = self._arguments.with_arrays(kernel, values)
        leaves = self._arguments.leaves(kernel, values)
        return [leaf.array for leaf in leaves], leaves, list(map(frozen, values)), values

    def obstacle(self, template: LaunchTemplate, leaves: Sequence[Leaf] | None) -> str:
        """Return why a launch cannot be run again; empty if it can."""
        for leaf in leaves or ():
            if leaf.handle is not None and leaf.handle.obstacle:
                return leaf.handle.obstacle
        for array in template.suspects:
            found = self._objects.obstacle_of(array.source, array.current)
            if found:
                return found
        return ""

    def new_template(
        self,
        tape: WatchedTape,
        kernel: WarpObject,
        values: Sequence[object],
        arrays: Sequence[WatchedArray | None],
        leaves: Sequence[Leaf] | None,
    ) -> LaunchTemplate:
        """Return the description of a launch, which a tape keeps for later launches on the same arrays."""
        form = self.form(kernel, values, arrays, leaves)
        found = LaunchTemplate(kernel, form, arrays, tape, self._objects, self._memory)
        tape.templates[kernel, *arrays] = found
        return found

    def form(
        self,
        kernel: WarpObject,
        values: Sequence[object],
        arrays: Sequence[WatchedArray | None],
        leaves: Sequence[Leaf] | None,
    ) -> LaunchForm:
        """Return the description of a launch that does not depend on its arrays."""
        kinds: list[Hashable] = [None if array is None else array.ndim for array in arrays]
        if leaves is not None:
            kinds += [leaf.path for leaf in leaves]
        key = kernel, *kinds
        found = self._forms.get(key)
        if found is None:
            if leaves is None:
                leaves = self._arguments.leaves(kernel, values)
            found = self._forms[key] = LaunchForm(leaves, self._uses.of(kernel, leaves))
        return found
