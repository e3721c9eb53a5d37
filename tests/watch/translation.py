"""Kernels of public packages that this engine translates: counted, stored, and written as a table.

`python -m tests.watch.translation warp.examples warp_nn` imports every module of these packages, translates
every kernel of NVIDIA Warp that they define as the mirror does (with the adjoint of all float arrays), and
stores the counts. Without names, only the table is written. Functions count with the kernels that call them.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.metadata
import io
import itertools
import json
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "translations.json"
PAGE = Path(__file__).parents[2] / "docs" / "watching.md"
BEGIN = "<!-- table: written by `python -m tests.watch.translation` -->\n"
END = "<!-- end of the table -->\n"
DISTRIBUTIONS = {
    "warp.examples": "warp-lang",
    "warp_nn": "warp-nn",
    "newton": "newton",
    "nvalchemiops": "nvalchemi-toolkit-ops",
    "liblaf.apple": "liblaf-apple",
}
"""The distributions of packages whose import name differs, or of parts of one."""
LEFT_OUT = {
    "warp.examples": ("warp.examples.browse", "warp.examples.distributed"),
    "newton": ("newton.tests",),
}
"""Modules that are not imported: menus, tests, and programs for several processes."""
NATIVE = {
    "tile": "tiles",
    "mesh_": "meshes",
    "bvh_": "BVHs",
    "hash_grid_": "hash grids",
    "volume_": "volumes",
    "texture_": "textures",
}
"""Beginnings of the names of functions that only Warp has, and what they work on."""


def modules_of(package: str) -> Iterator[str]:
    """Yield the names of a package and of all modules in its folders."""
    yield package
    left_out = LEFT_OUT.get(package, ())
    for root in importlib.import_module(package).__path__:
        for path in sorted(Path(root).rglob("*.py")):
            parts = [part for part in path.relative_to(root).with_suffix("").parts if part != "__init__"]
            name = ".".join([package, *parts])
            if parts and parts[-1] != "__main__" and not name.startswith(left_out):
                yield name


def import_all(names: Iterator[str]) -> dict[str, str]:
    """Import modules; return those that cannot be imported, with the reason."""
    failed = {}
    for name in names:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                importlib.import_module(name)
        except (Exception, SystemExit) as error:
            failed[name] = f"{type(error).__name__}: {error}".splitlines()[0]
    return failed


def native_objects(function: Any, seen: set[int] | None = None) -> set[str]:
    """Return what a kernel or function of Warp uses, itself or through calls, that only Warp has."""
    seen = set() if seen is None else seen
    if id(function) in seen:
        return set()
    seen.add(id(function))
    if getattr(function, "native_snippet", None):
        return {"native snippets"}
    if function.func is None:
        return set()
    found = {"textures" for arg in function.adj.args if _holds_texture(arg.type)}
    scope = dict(function.func.__globals__)
    cells = zip(function.func.__code__.co_freevars, function.func.__closure__ or (), strict=True)
    for name, cell in cells:
        with contextlib.suppress(ValueError):  # not assigned yet
            scope[name] = cell.cell_contents
    for node in ast.walk(function.adj.tree):
        if isinstance(node, ast.Attribute):
            found |= {what for start, what in NATIVE.items() if node.attr.startswith(start)}
        called = _object(node, scope)
        if type(called).__name__ == "Function" and called.func is not None:
            for version in (called, *getattr(called, "user_overloads", {}).values()):
                found |= native_objects(version, seen)
    return found


def _holds_texture(kind: Any) -> bool:
    """True for textures, arrays of them, and structs that hold one."""
    if getattr(kind, "__name__", type(kind).__name__).startswith("Texture"):
        return True
    kind = kind.dtype if hasattr(kind, "ndim") else kind
    fields = kind.vars.values() if type(kind).__name__ == "Struct" else ()
    return any(_holds_texture(field.type) for field in fields)


def _object(node: ast.AST, scope: dict[str, Any]) -> Any:
    """Return the object that a name, or a name of a module, means; None if it means nothing."""
    if isinstance(node, ast.Name):
        return scope.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _object(node.value, scope)
        return None if owner is None else getattr(owner, node.attr, None)
    return None


GUESSES = ("float32", "vec3", "mat33", "int32")
"""Types for the parameters of generic kernels that nothing has launched yet; so is a vector of length 9."""
AXES = 4
"""Axes of arrays of float32 that are guessed as well for a parameter that may be an array."""
BARE = 3
"""The number of parameters of any type up to which arrays with all combinations of axes are tried."""
ROUNDS = 3
"""The number of times that each parameter's type is guessed anew."""
NO_TYPES = "of the types that were guessed for its parameters none fits"
KERNEL_NAME = re.compile(r"^(kernel|function) `\w+`: ")
"""The kernel that begins a reason; the table counts reasons of several kernels."""
PLACE = re.compile(r" \((?P<file>/.*):(?P<line>\d+)\)$")
"""The line at the end of a reason."""


def _is_open(kind: Any) -> bool:
    """True if a parameter takes any type, or arrays of any type."""
    dtype = getattr(kind, "dtype", None) if hasattr(kind, "ndim") else kind
    return dtype is Any or type(dtype).__name__ == "TypeVar"


def _guesses(kind: Any) -> list[Any]:
    """Return types that a parameter of any type, or of arrays of any type, may have."""
    import warp

    types = [*(getattr(warp, name) for name in GUESSES), warp.types.vector(9, warp.float32)]
    if hasattr(kind, "ndim"):
        return [warp.array(dtype=dtype, ndim=kind.ndim) for dtype in types]
    arrays = [warp.array(dtype=warp.float32, ndim=axes) for axes in range(1, AXES + 1)]
    return [*types, *arrays]


def _guessed(kernel: Any) -> str | None:
    """Translate a generic kernel that nothing has launched; return why none of the guessed types fits.

    The types are guessed one parameter at a time: that one stays with which the translation gets furthest in
    the kernel, beginning with float32 for all.
    """
    from tapedebug.watch.mirror import MirrorError, mirror_kernel

    def tried(types: Sequence[Any]) -> tuple[float, str | None]:
        """Return the line of the kernel that some types reach, and the reason at that line."""
        try:
            mirror_kernel(kernel.add_overload(list(types)))
        except MirrorError as error:
            found = PLACE.search(error.reason)
            return (float(found["line"]) if found else 0.0), error.reason.partition(" (/")[0]
        except Exception:  # Warp refuses these types
            return -1.0, None
        return math.inf, None

    declared = [arg.type for arg in kernel.adj.args]
    open_ones = [index for index, kind in enumerate(declared) if _is_open(kind)]
    alike = []
    for choice in range(len(GUESSES) + 1 + AXES):
        types = list(declared)
        for index in open_ones:
            types[index] = (guesses := _guesses(declared[index]))[min(choice, len(guesses) - 1)]
        reached, reason = tried(types)
        if reached == math.inf:
            return None
        alike.append((reached, -choice, types, reason))
    bare = [index for index in open_ones if not hasattr(declared[index], "ndim")]
    for axes in itertools.product(range(AXES), repeat=len(bare)) if len(bare) <= BARE else ():
        types = list(declared)
        for index in open_ones:
            types[index] = _guesses(declared[index])[0]
        for index, axis in zip(bare, axes, strict=True):
            types[index] = _guesses(declared[index])[-AXES + axis]
        if tried(types)[0] == math.inf:
            return None
    alike.sort(key=lambda found: found[:2], reverse=True)
    for best, _, types, _ in alike:
        for _ in range(ROUNDS):
            before = best
            for index in open_ones:
                for guess in _guesses(declared[index]):
                    now = [*types[:index], guess, *types[index + 1 :]]
                    reached, _ = tried(now)
                    if reached == math.inf:
                        return None
                    if reached > best:
                        best, types = reached, now
            if best == before:
                break
    reason = alike[0][3]
    return f"{NO_TYPES}: {KERNEL_NAME.sub('', reason)}" if reason else NO_TYPES


def refusal(kernel: Any) -> str | None:
    """Return why a kernel of Warp cannot be translated; None if it can."""
    from tapedebug.watch.mirror import MirrorError, mirror_kernel

    if kernel.is_generic and not kernel.overloads:
        return _guessed(kernel)
    try:
        for version in kernel.overloads.values() if kernel.is_generic else [kernel]:
            mirror_kernel(version)
    except MirrorError as error:
        return error.reason.partition(" (/")[0]
    return None


def measure(package: str) -> dict[str, Any]:
    """Import a package and translate its kernels.

    Returns:
        The counts: `kernels`, `native` (of them, those that use what only Warp has), `translated` (of the
        others), `refused` (kernel and reason of those that are neither), `failed` (modules not imported).
    """
    import warp

    warp.config.quiet = True
    failed = import_all(modules_of(package))
    context = sys.modules[type(warp.get_module(__name__)).__module__]
    kernels = [
        (f"{name}.{kernel.key}", kernel)
        for name, module in list(context.user_modules.items())
        if name == package or name.startswith(f"{package}.")
        for kernel in module.kernels.values()
    ]
    native = {name: uses for name, kernel in kernels if (uses := native_objects(kernel))}
    reasons = {name: refusal(kernel) for name, kernel in kernels if name not in native}
    return {
        "version": importlib.metadata.version(DISTRIBUTIONS.get(package, package)),
        "kernels": len(kernels),
        "native": dict(sorted(Counter(use for uses in native.values() for use in uses).items())),
        "native_kernels": len(native),
        "translated": sum(reason is None for reason in reasons.values()),
        "refused": {name: reason for name, reason in reasons.items() if reason is not None},
        "failed": failed,
    }


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def load() -> dict[str, Any]:
    """Return the stored counts by package."""
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    return found


def table(results: dict[str, Any]) -> str:
    """Return the stored counts as a table, with the reason for each kernel that is refused."""
    lines = [
        "| Package | Kernels | Use tiles, meshes, … | Others | Translated | Not imported |",
        "|---|---|---|---|---|---|",
    ]
    for package, found in sorted(results.items()):
        others = found["kernels"] - found["native_kernels"]
        share = f"{100.0 * found['translated'] / others:.1f} %" if others else "no kernels"
        name = DISTRIBUTIONS.get(package, package)
        shown = f"{name} {found['version']}" + (
            "" if name == package.replace("_", "-") else f" (`{package}`)"
        )
        lines.append(
            f"| {shown} | {found['kernels']} | {found['native_kernels']} | {others} | "
            f"{found['translated']} ({share}) | {len(found['failed'])} modules |"
        )
    refused = Counter(
        KERNEL_NAME.sub("", reason) for found in results.values() for reason in found["refused"].values()
    )
    failed = Counter(
        f"{DISTRIBUTIONS.get(package, package)}: {reason}"
        for package, found in results.items()
        for reason in found["failed"].values()
    )
    for title, counts in (("Refused kernels", refused), ("Modules not imported", failed)):
        lines += ["", f"| {title} | Because |", "|---|---|"]
        lines += [f"| {count} | {_cell(reason)} |" for reason, count in counts.most_common()]
    return "\n".join(lines) + "\n"


def write() -> None:
    """Write the table to its page."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{table(load())}{END}{rest.partition(END)[2]}", encoding="utf-8")


def main() -> None:
    """Measure the packages that are named, and write the table."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    names, sys.argv[1:] = sys.argv[1:], []  # programs read their arguments when they are imported
    for package in names:
        results = load() | {package: measure(package)}
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    write()


if __name__ == "__main__":
    main()
