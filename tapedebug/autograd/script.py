"""Scripts that show one failure alone: the kernel's source, the arguments' values, one `gradcheck`."""

from __future__ import annotations

import ast
import base64
import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tapedebug.autograd.pairs import is_array
from tapedebug.lang.types import (
    ArrayType,
    Compound,
    IndexedArrayType,
    canonical,
    is_compound,
    is_struct,
    numpy_dtype,
)
from tapedebug.lang.types import expression as written

INLINE = 64  # numbers that are written out; longer arrays are base64


def script_of(
    kernel: Any, dim: Any, args: Sequence[tuple[str, Any, Any]], outputs: int, call: str, comment: str
) -> str:
    """The script.

    Args:
        kernel: The kernel.
        dim: Its launch dimensions.
        args: (name, argument, values of an array argument as a NumPy array, else None), in order.
        outputs: Number of the first argument that is an output; -1 where the launch named none.
        call: Further arguments of `gradcheck`.
        comment: What it shows, for the first line.
    """
    lines = [
        f'"""{comment}"""',
        "",
        "import base64",
        "",
        "import numpy as np",
        "",
        "import tapedebug as wp",
        "",
    ]
    lines += [*_sources(kernel), "", ""]
    names = []
    memory: dict[int, str] = {}
    flat = iter(args)
    for param in kernel.signature:
        made, expression = _argument(param.name, param.type, flat, memory)
        lines += made
        names.append(expression)
    split = (
        len(names) if outputs < 0 else kernel.params[outputs].declared if outputs < len(args) else len(names)
    )
    given = f"inputs=[{', '.join(names[:split])}]"
    if split < len(names):
        given += f", outputs=[{', '.join(names[split:])}]"
    function = kernel.origin.function
    lines.append(f"wp.autograd.gradcheck({function}, dim={dim!r}, {given}, {call})")
    text = "\n".join(lines) + "\n"
    return text.replace("import base64\n\n", "") if "base64.b64decode" not in text else text


Flat = Iterator[tuple[str, Any, Any]]


def _argument(name: str, kind: Any, flat: Flat, memory: dict[int, str]) -> tuple[list[str], str]:
    """The lines that make an argument, and what stands for it in the launch."""
    if is_struct(kind):
        made, fields = [], []
        for label, inner in kind.fields.items():
            lines, expression = _argument(f"{name}_{label}", inner, flat, memory)
            made += lines
            fields.append(f"{label}={expression}")
        return [*made, f"{name} = {kind.__name__}({', '.join(fields)})"], name
    if isinstance(kind, IndexedArrayType):
        made, data = _argument(f"{name}_data", kind.array, flat, memory)
        tables = []
        for axis in range(kind.ndim):
            lines, expression = _argument(f"{name}_indices{axis}", ArrayType(int), flat, memory)
            made += lines
            tables.append(expression)
        return [*made, f"{name} = wp.indexedarray({data}, [{', '.join(tables)}])"], name
    if isinstance(kind, ArrayType) and is_struct(kind.dtype):
        return _struct_array(name, kind.dtype, flat), name
    _, value, values = next(flat)
    if not is_array(value):
        return [], _scalar(value)
    if id(value) in memory:
        return [], memory[id(value)]
    memory[id(value)] = name
    grad = ", requires_grad=True" if value.requires_grad else ""
    text = (
        f"{name} = wp.array({_literal(values, value)}, dtype={written(value.dtype)}, "
        f"shape={value.shape!r}{grad})"
    )
    return [text], name


def _struct_array(name: str, kind: Any, flat: Flat) -> list[str]:
    """An array of structs, made of zeros and then filled field by field."""
    lines: list[str] = []
    for leaf in kind.leaves():
        _, value, values = next(flat)
        if not lines:
            grad = ", requires_grad=True" if value.requires_grad else ""
            lines.append(f"{name} = wp.zeros({value.shape!r}, dtype={kind.__name__}{grad})")
        path = "".join(f'["{label}"]' for label in leaf.path)
        lines.append(f"{name}{path}.assign({_literal(values, value)})")
    return lines


def _literal(values: np.ndarray[Any, Any], array: Any) -> str:
    flat = np.ascontiguousarray(values, dtype=numpy_dtype(array.dtype))
    if flat.size <= INLINE and np.isfinite(flat.astype(np.float64)).all():
        # str() gives the shortest number that is this float32.
        short = [float(str(v)) if flat.dtype.kind == "f" else v.item() for v in flat.ravel()]
        return repr(np.array(short, dtype=object).reshape(flat.shape).tolist())
    data = base64.b64encode(flat.tobytes()).decode()
    return f'np.frombuffer(base64.b64decode("{data}"), dtype=np.{flat.dtype.name}).reshape({flat.shape!r})'


def _scalar(value: Any) -> str:
    kind = type(value)
    try:
        kind = canonical(kind)
    except TypeError:
        return repr(value)
    if isinstance(value, np.generic):
        return repr(value.item())
    if isinstance(value, bool | int | float):
        return repr(value)
    return f"{written(kind)}({', '.join(repr(part) for part in value)})"


def _sources(kernel: Any) -> list[str]:
    """The source of the kernel, after the functions, constants and names of ours that it uses."""
    found: dict[str, list[str]] = {}
    _collect(kernel, found)
    lines: list[str] = []
    for text in reversed(found.values()):
        lines += ["", *text] if len(text) > 1 else text
    return lines


def _collect(thing: Any, found: dict[str, list[str]]) -> None:
    import tapedebug
    from tapedebug.compiler.kernel import Function, Kernel

    origin = thing.origin
    # What is used comes before all that use it: the list is reversed at the end.
    found.pop(origin.function, None)
    found[origin.function] = ["", *origin.definition]
    for name, value in _names_of(thing).items():
        if value is tapedebug:
            text = f"{name} = wp"
        elif isinstance(value, Function | Kernel):
            _collect(value, found)
            continue
        elif value is getattr(tapedebug, name, None):
            text = f"{name} = wp.{name}"
        elif is_compound(value):
            text = f"{name} = {written(value)}"
        elif is_struct(value):
            _collect_struct(value, found)
            continue
        elif isinstance(value, bool | int | float | np.generic | Compound):
            text = f"{name} = {_scalar(value)}"
        else:
            continue
        if name != "wp":
            found.pop(name, None)
            found[name] = [text]


def _collect_struct(kind: Any, found: dict[str, list[str]]) -> None:
    """The definition of a struct, after those of the structs in it."""
    found.pop(kind.__name__, None)
    fields = [f"    {label}: {_spelled(inner)}" for label, inner in kind.fields.items()]
    found[kind.__name__] = ["", "@wp.struct", f"class {kind.__name__}:", *fields]
    for inner in kind.fields.values():
        element = getattr(inner, "dtype", inner)
        if is_struct(element):
            _collect_struct(element, found)


def _spelled(kind: Any) -> str:
    """A type as source."""
    if isinstance(kind, ArrayType | IndexedArrayType):
        word = "array" if isinstance(kind, ArrayType) else "indexedarray"
        return f"wp.{word}(dtype={_spelled(kind.dtype)}, ndim={kind.ndim})"
    return kind.__name__ if is_struct(kind) else written(kind)


def _names_of(thing: Any) -> dict[str, Any]:
    """The global and enclosing names in the source of a kernel or function, with their values."""
    function = thing.python
    tree = thing.origin.tree
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    used |= {name for text in texts for name in re.findall(r"\w+", text)}  # annotations may be strings
    found = {name: value for name, value in function.__globals__.items() if name in used}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        with contextlib.suppress(ValueError):  # an empty cell
            found[name] = cell.cell_contents
    return found
