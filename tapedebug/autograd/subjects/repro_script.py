"""Write a script that reproduces one failure: source, arguments, one `gradcheck` of one pair."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._errors import GradcheckError
from tapedebug.autograd.array_types import EngineArray, LaunchDim, Values, ValueType
from tapedebug.autograd.options import ASKED_BY
from tapedebug.autograd.subjects.literals import Packed, beside, inlined, scalar
from tapedebug.autograd.subjects.program import IN_PLACE
from tapedebug.autograd.subjects.sources import Sources, array_expression
from tapedebug.lang.types import ArrayType, IndexedArrayType, Struct, is_struct
from tapedebug.runtime.memory import struct_fields
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.indexed import indexedarray

if TYPE_CHECKING:
    from tapedebug.autograd.results.pair_result import PairResult
    from tapedebug.compiler.kernel import Kernel

ENDING = """\
if not result:
    worst = result.failing and result.failing.worst
    print(worst.describe() if worst else result.coverage)
    raise SystemExit(1)  # as long as the failure is there
"""


@dataclass(frozen=True)
class Scene:
    """The part of a script that all pairs of a kernel, launch or function share.

    Attributes:
        text: Imports, definitions and arguments.
        call: The arguments of `gradcheck` that say what is checked.
        arrays: Those that are too long to be written out, by the names that `text` has for them.
    """

    text: str
    call: str
    arrays: Mapping[str, Values]


@runtime_checkable
class Releasable(Protocol):
    """Writes a scene from a tape that it keeps alive."""

    def __call__(self) -> Scene:
        """Write the scene."""

    def released(self) -> Callable[[], Scene]:
        """The same without keeping the tape alive."""


class Writer:
    """A scene that is written when it is first asked for, or when it goes to another process.

    Args:
        write: Writes it; may raise a GradcheckError with the reason why it cannot.
    """

    def __init__(self, write: Callable[[], Scene]) -> None:
        self._write: Callable[[], Scene] | None = write
        self._scene: Scene | str | None = None

    def scene(self) -> Scene:
        """The scene.

        Raises:
            GradcheckError: It cannot be written.
        """
        if self._scene is None and self._write is not None:
            try:
                self._scene = self._write()
            except GradcheckError as error:
                self._scene = error.message
            self._write = None  # and with it the arrays
        if not isinstance(self._scene, Scene):
            raise GradcheckError(str(self._scene))
        return self._scene

    def release(self) -> None:
        """Keep the tape that it reads no longer alive, so that it can write only while the tape is."""
        if isinstance(self._write, Releasable):
            self._write = self._write.released()

    def __getstate__(self) -> dict[str, Any]:
        try:
            return {"_write": None, "_scene": self.scene()}
        except GradcheckError as error:
            return {"_write": None, "_scene": error.message}


@dataclass(frozen=True)
class ReproScript:
    """The script of one pair; it can be pickled.

    Attributes:
        writer: Writes what it shares with others.
        comment: What it shows, for the first line.
        mask: The pair, as (input, output).
        settings: Further arguments of `gradcheck`.
        function: `"gradcheck"`, or `"gradgradcheck"`, which has no mask.
    """

    writer: Writer
    comment: str
    mask: tuple[str, str]
    settings: Mapping[str, Any]
    function: str = "gradcheck"

    @classmethod
    def of(cls, writer: Writer, pair: PairResult, settings: Mapping[str, Any]) -> ReproScript:
        """The script of a pair.

        Args:
            writer: Writes what it shares with other pairs.
            pair: The pair.
            settings: Arguments of `gradcheck`; what only other pairs need is left out.
        """
        asked = {name: False for others in ASKED_BY.values() for name in others} | {"check_backward_ad": True}
        wanted = {**settings, **asked, **ASKED_BY.get(pair.check, {})}
        if pair.wirtinger is not None:
            wanted["complex"] = True
        mask = pair.input.replace(IN_PLACE, ""), pair.output
        return cls(writer, f"{pair.subject}: {pair.verdict}", mask, wanted)

    def __call__(self, *, data_beside: bool = False) -> str:
        """The text; with `data_beside`, long arrays are read from a file of its name, ending in `.npz`."""
        scene = self.writer.scene()
        masked = self.function == "gradcheck"
        mask = [f"input_output_mask=[({self.mask[0]!r}, {self.mask[1]!r})]"] if masked else []
        call = [scene.call, *mask]
        call += [f"{name}={scalar(value)}" for name, value in self._changed_settings()]
        lines = "".join(f"    {argument},\n" for argument in (*call, "raise_exception=False"))
        text = f"{scene.text}result = wp.autograd.{self.function}(\n{lines})\n{ENDING}"
        text = beside(text, scene.arrays) if data_beside and scene.arrays else inlined(text, scene.arrays)
        return f'"""{self.comment}"""\n\n{text}'

    @property
    def arrays(self) -> Mapping[str, Values]:
        """The long arrays."""
        return self.writer.scene().arrays

    def _changed_settings(self) -> list[tuple[str, Any]]:
        """Settings that are not what they are by default."""
        from tapedebug import autograd

        function = getattr(autograd, self.function)
        defaults = {name: p.default for name, p in inspect.signature(function).parameters.items()}
        return [
            (name, value)
            for name, value in self.settings.items()
            if name in defaults and value != defaults[name] and (value or defaults[name])
        ]


def release_tape(scripts: Iterable[Callable[[], str]]) -> None:
    """Let the scripts of a result keep no tape alive."""
    for script in scripts:
        if isinstance(script, ReproScript):
            script.writer.release()


def launch_scene(
    kernel: Kernel, dim: LaunchDim, args: Sequence[tuple[str, Any, Values | None]], outputs: int
) -> Scene:
    """The scene of a kernel.

    Args:
        kernel: The kernel.
        dim: Its launch dimensions.
        args: (name, argument, values of an array argument as a NumPy array, else None), one for each flat
            parameter.
        outputs: Number of the first argument that is an output; -1 where the launch named none.

    Raises:
        GradcheckError: Something cannot be written as source.
    """
    packed = Packed()
    sources = Sources(packed)
    sources.add(kernel)
    arguments = _Arguments(packed)
    flat = iter(args)
    names = [arguments.of(param.name, param.type, flat) for param in kernel.signature]
    split = kernel.params[outputs].declared if 0 <= outputs < len(args) else len(names)
    call = f"{kernel.origin.function},\n    dim={dim!r},\n    inputs=[{', '.join(names[:split])}]"
    call += f",\n    outputs=[{', '.join(names[split:])}]" if split < len(names) else ""
    return _scene(sources, arguments, call)


def function_scene(
    function: Callable[..., Any], inputs: Sequence[tuple[str, Any]], values: Mapping[Any, Values]
) -> Scene:
    """The scene of a Python function.

    Args:
        function: The function.
        inputs: Its arguments, by name.
        values: Those of arrays among them.

    Raises:
        GradcheckError: Something cannot be written as source.
    """
    if not inspect.isfunction(function):
        what = "a method" if inspect.ismethod(function) else f"a {type(function).__name__}"
        raise GradcheckError(
            f"no script can be written: what was checked is {what}, and its object has no source",
            hint="check a function that takes what it needs as arguments",
        )
    packed = Packed()
    sources = Sources(packed)
    sources.add(function)
    arguments = _Arguments(packed, values)
    names = [arguments.value(name, value) for name, value in inputs]
    for value in arguments.structs:
        sources._type("", value)
    called = "lambda_" if function.__name__ == "<lambda>" else function.__name__
    return _scene(sources, arguments, f"{called},\n    inputs=[{', '.join(names)}]")


def _scene(sources: Sources, arguments: _Arguments, call: str) -> Scene:
    made = sources.lines() + arguments.lines
    numpy = "import numpy as np\n\n" if sources.packed.arrays or any("np." in line for line in made) else ""
    text = f"{numpy}import tapedebug as wp\n\n" + "\n".join(made) + "\n"
    return Scene(text, call, sources.packed.arrays)


Flat = Iterator[tuple[str, Any, Values | None]]


class _Arguments:
    """Writes arguments: arrays once, whatever number of parameters they go to."""

    def __init__(self, packed: Packed, values: Mapping[Any, Values] | None = None) -> None:
        self.packed = packed
        self.lines: list[str] = []
        self.structs: list[Any] = []
        self._values = values or {}
        self._memory: dict[tuple[Any, ...], tuple[str, Any]] = {}

    def of(self, name: str, kind: ValueType, flat: Flat) -> str:
        """An argument of a kernel, of flat ones; what stands for it in the call."""
        if isinstance(kind, type) and issubclass(kind, Struct):
            fields = [
                f"{label}={self.of(f'{name}_{label}', inner, flat)}" for label, inner in kind.fields.items()
            ]
            return self._bound(name, f"{kind.__name__}({', '.join(fields)})")
        if isinstance(kind, IndexedArrayType):
            data = self.of(f"{name}_data", kind.array, flat)
            tables = [self.of(f"{name}_indices{axis}", ArrayType(int), flat) for axis in range(kind.ndim)]
            return self._bound(name, f"wp.indexedarray({data}, [{', '.join(tables)}])")
        if isinstance(kind, ArrayType) and is_struct(kind.dtype):
            leaves = [next(flat) for _ in kind.dtype.leaves()]
            return self._structs(name, kind.dtype, [(value, values) for _, value, values in leaves])
        _, value, values = next(flat)
        return self.array(name, value, values) if isinstance(value, array) else scalar(value)

    def array(self, name: str, value: EngineArray, values: Values | None) -> str:
        """An array."""
        key = (value.ptr, value.shape, value.strides, value.dtype)
        if key in self._memory:
            return self._memory[key][0]
        self._refuse_partial_overlap(name, value)
        self._memory[key] = (name, value)
        found = value.current() if values is None else values
        return self._bound(name, array_expression(value, self.packed.literal(found, value.dtype, name)))

    def value(self, name: str, value: object) -> str:
        """An argument of a Python function."""
        if isinstance(value, array):
            if is_struct(value.dtype):
                self.structs.append(value.dtype)
                leaves = _leaves(value)
                return self._structs(name, value.dtype, [(leaf, self._values.get(leaf)) for leaf in leaves])
            return self.array(name, value, self._values.get(value))
        if isinstance(value, Struct):
            self.structs.append(type(value))
            fields = [f"{k}={self.value(f'{name}_{k}', inner)}" for k, inner in value.__dict__.items()]
            return self._bound(name, f"{type(value).__name__}({', '.join(fields)})")
        if isinstance(value, indexedarray):
            data = self.value(f"{name}_data", value.data)
            tables = [self.value(f"{name}_indices{axis}", table) for axis, table in enumerate(value.indices)]
            return self._bound(name, f"wp.indexedarray({data}, [{', '.join(tables)}])")
        if isinstance(value, Mapping):
            entries = (f"{k!r}: {self.value(f'{name}_{k}', inner)}" for k, inner in value.items())
            return f"{{{', '.join(entries)}}}"
        if isinstance(value, list | tuple):
            parts = ", ".join(self.value(f"{name}_{i}", part) for i, part in enumerate(value))
            return f"[{parts}]" if isinstance(value, list) else f"({parts},)"
        if isinstance(value, np.ndarray):
            return f"np.array({value.tolist()!r}, dtype=np.{value.dtype.name})"
        text = scalar(value)
        if text.startswith("<"):
            raise GradcheckError(
                f"no script can be written: the argument `{name}` is a {type(value).__name__}",
                hint="pass arrays, structs and numbers",
            )
        return text

    def _structs(self, name: str, kind: type[Struct], leaves: Sequence[tuple[Any, Values | None]]) -> str:
        """An array of structs, made of zeros and then filled field by field."""
        first = leaves[0][0]
        grad = ", requires_grad=True" if any(value.requires_grad for value, _ in leaves) else ""
        self._bound(name, f"wp.zeros({first.shape!r}, dtype={kind.__name__}{grad})")
        for leaf, (value, values) in zip(kind.leaves(), leaves, strict=True):
            path = "".join(f'["{label}"]' for label in leaf.path)
            found = value.current() if values is None else values
            label = f"{name}_{'_'.join(leaf.path)}"
            self.lines.append(f"{name}{path}.assign({self.packed.literal(found, value.dtype, label)})")
        return name

    def _bound(self, name: str, text: str) -> str:
        self.lines.append(f"{name} = {text}")
        return name

    def _refuse_partial_overlap(self, name: str, value: EngineArray) -> None:
        """Refuse views that share some memory: copies of them would share none."""
        if not value.size:
            return
        for other, known in self._memory.values():
            shared = known.region is value.region and known.start < value.stop and value.start < known.stop
            if shared and known.size:
                raise GradcheckError(
                    f"no script can be written: the arguments `{other}` and `{name}` share memory",
                    hint="check with arrays of their own",
                )


def _leaves(value: EngineArray) -> list[Any]:
    return list(struct_fields.leaves(value))
