"""Random programs of several launches, run by the package and in plain Python.

A program is plain data (it can be kept as JSON): kernels with their text, blocks of memory, and steps that
launch a kernel with views, copy, fill, assign or clone. `run` gives what the package leaves in memory and the
gradient of a weighted sum of all of it by what each block held at first; `evaluated` gives the same without
the package.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import tapedebug as wp
from tapedebug.autograd import jvp
from tapedebug.runtime.memory import buffer as buffers
from tests.compiler import parallel_comparison
from tests.compiler.program_kernels import PARAMETERS, ROWS, kernel
from tests.compiler.program_values import (
    Array,
    Library,
    Number,
    Operations,
    Row,
    Rows,
    Structs,
    Unsure,
    Vector,
    plain,
)
from tests.runtime.guards import Blocks

Program = dict[str, Any]
View = dict[str, Any]

POOL, PROGRAMS_OF_A_POOL = 16, 100
"""So many kernels are shared by so many programs: to compile them takes longer than to run them."""
SIZES = (3, 7, 31, 64, 130, 257, 300)
"""Numbers of threads: fewer than a chunk has, and some more than several have."""
VALUE = 0.625
"""The argument `c` of the kernels."""
GAINS = (0.75, -1.25, 0.5, 1.5)
"""Numbers beside the arrays that elements of `rows` hold."""
FOLDER = tempfile.TemporaryDirectory(prefix="tapedebug-programs-")
HEADER = """import tapedebug as wp

F = wp.{scalar}
V = wp.{vector}


@wp.struct
class Body:
    tag: int
    pos: V
    mass: F


@wp.struct
class Row:
    data: wp.array(dtype=F)
    gain: F


@wp.kernel
def total(x: wp.array(dtype=F), weights: wp.array(dtype=F), loss: wp.array(dtype=F)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * weights[i])


@wp.kernel
def total_of_bodies(b: wp.array(dtype=Body), weights: wp.array(dtype=F), loss: wp.array(dtype=F)):
    i = wp.tid()
    load = V(weights[4 * i], weights[4 * i + 1], weights[4 * i + 2])
    wp.atomic_add(loss, 0, wp.dot(b[i].pos, load) + b[i].mass * weights[4 * i + 3])


"""
_modules: dict[str, Any] = {}


# -- views: on whatever has the interface of an array ------------------------------------------------------


class Cells:
    """Memory of plain Python: an object array, or one for each field of a struct.

    Attributes:
        parts: By field, or under the empty name.
        kind: `"f"`, `"i"`, `"v"` or `"b"`, as in `program_kernels.PARAMETERS`.
    """

    def __init__(self, parts: dict[str, Any], kind: str) -> None:
        self.parts, self.kind = parts, kind

    @property
    def shape(self) -> tuple[int, ...]:
        name, part = next(iter(self.parts.items()))
        return tuple(part.shape[:-1] if self.kind == "v" or name == "pos" else part.shape)

    def viewed(self, op: list[Any]) -> Cells:
        """A view, as an array of the package gives it."""
        what, *rest = op
        if what == "field":
            return Cells({"": self.parts[rest[0]]}, "v" if rest[0] == "pos" else "f")
        if what == "numbers":
            return Cells(self.parts, "f")
        if what == "vectors":
            return Cells(self.parts, "v")
        inner = {name: self.kind == "v" or name == "pos" for name in self.parts}
        if what == "index":
            return Cells({name: part[_slices(rest[0])] for name, part in self.parts.items()}, self.kind)
        if what == "transpose":
            axes = len(rest[0])
            turned = {n: p.transpose([*rest[0], axes][: axes + inner[n]]) for n, p in self.parts.items()}
            return Cells(turned, self.kind)
        assert what == "reshape"
        shaped = {n: p.reshape([*rest[0], 3][: len(rest[0]) + inner[n]]) for n, p in self.parts.items()}
        for name, part in self.parts.items():
            assert np.shares_memory(shaped[name], part) or not part.size
        return Cells(shaped, self.kind)

    def for_kernel(self) -> Any:
        if self.kind == "b":
            return Structs({name: Array(part, name == "pos") for name, part in self.parts.items()})
        return Array(self.parts[""], self.kind == "v")


def _slices(index: list[Any]) -> tuple[Any, ...]:
    return tuple(slice(*one) if isinstance(one, list) else one for one in index)


def viewed(memory: Any, ops: list[Any], names: Any) -> Any:
    """A view of an array of the package."""
    for what, *rest in ops:
        if what == "field":
            memory = memory[rest[0]]
        elif what == "numbers":
            memory = memory.view(names.F)
        elif what == "vectors":
            memory = memory.view(names.V)
        elif what == "index":
            memory = memory[_slices(rest[0])]
        elif what == "transpose":
            memory = memory.transpose(rest[0])
        else:
            memory = memory.reshape(tuple(rest[0]))
    return memory


# -- random programs ---------------------------------------------------------------------------------------


class Maker:
    """Makes one program."""

    def __init__(self, seed: int, steps: int = 6) -> None:
        self.seed = seed
        self.r = random.Random(f"program {seed}")
        self.steps = steps
        self.places: dict[str, Cells] = {}
        self.blocks: dict[str, Any] = {}
        self.overlaps = self.r.random() < 0.2

    def program(self) -> Program:
        r = self.r
        self.threads = n = r.choice(SIZES)
        wide = 2 * n + r.randrange(1, 6)
        for name, kind, shape in (
            ("A", "f", [wide]), ("B", "f", [wide, 7]), ("C", "f", [5, 7, 6]), ("D", "f", [6, n + 3]),
            ("Q", "v", [wide]), ("P", "v", [n + 4]), ("S", "f", [12]), ("T", "f", [9, 11]),
            ("X", "b", [wide]), ("Y", "b", [n + 2]), ("I", "i", [wide]), ("N", "i", [12]),
        ):  # fmt: skip
            self.add(name, kind, shape)
        first = self.seed // PROGRAMS_OF_A_POOL * POOL
        chosen = [kernel(first + k) for k in r.sample(range(POOL), 3)]
        self.kernels = {k.name: {"params": list(k.params), "axes": k.axes, "text": k.text} for k in chosen}
        steps = []
        while len(steps) < self.steps:
            step = r.choice([self.launch] * 6 + [self.copy, self.copy, self.fill, self.assign, self.clone])()
            if step is not None:
                steps.append(step)
        return {
            "seed": self.seed,
            "f64": r.random() < 0.6,
            "lanes": r.random() < 0.7,
            "threads": r.choice([1, 2]),
            "budget": r.random() < 0.3,
            "foreign": r.random() < 0.3,
            "twice": r.random() < 0.3,
            "kernels": self.kernels,
            "blocks": {name: block for name, block in self.blocks.items() if not block.get("made")},
            "steps": steps,
        }

    def add(self, name: str, kind: str, shape: list[int], made: bool = False) -> None:
        """A block; each of its numbers has a place of its own, by which overlaps are found."""
        self.blocks[name] = {"kind": kind, "shape": shape, "made": made}
        count = int(np.prod(shape))
        fields = {"b": {"tag": (), "pos": (3,), "mass": ()}, "v": {"": (3,)}}.get(kind, {"": ()})
        parts = {}
        for field, inner in fields.items():
            size = count * int(np.prod(inner, dtype=int))
            parts[field] = (np.arange(size) + 10**7 * list(fields).index(field)).reshape(*shape, *inner)
        self.places[name] = Cells(parts, kind)

    # Views

    def view(self, kind: str, sizes: list[int], exact: bool = False) -> View | None:
        """A view of elements of a kind, with axes that are at least so long."""
        for _ in range(40):
            name = self.r.choice([*self.places])
            found = self.candidate(name, kind, sizes, exact)
            if found is not None:
                return {"block": name, "ops": found}
        return None

    def candidate(self, name: str, kind: str, sizes: list[int], exact: bool) -> list[Any] | None:
        r, ops, place = self.r, [], self.places[name]

        def on(*op: Any) -> None:
            nonlocal place
            ops.append(list(op))
            place = place.viewed(ops[-1])

        if place.kind == "b" and kind in "fv":
            on("field", "mass" if kind == "f" else "pos")
        if place.kind == "v" and kind == "f":
            on("numbers")
            if len(sizes) == len(place.shape) == 1:
                pass
            elif r.random() < 0.5 and len(place.shape) == 1 and len(sizes) == 2:
                on("reshape", [place.shape[0] // 3, 3])
        if place.kind == "f" and kind == "v" and len(sizes) == 1 and place.shape[-1] % 3 == 0:
            on("reshape", [int(np.prod(place.shape)) // 3, 3])
            on("vectors")
            return None if place.parts[""].ndim != 2 else self.cut(ops, place, sizes, exact)
        if place.kind != kind:
            return None
        if len(place.shape) > 1 and len(sizes) == 1 and r.random() < 0.4 and kind == "f":
            on("reshape", [int(np.prod(place.shape))])
        if len(place.shape) > 1 and r.random() < 0.5:
            on("transpose", r.sample(range(len(place.shape)), len(place.shape)))
        while len(place.shape) > len(sizes):
            axis = r.randrange(len(place.shape))
            chosen: list[Any] = [[None, None, None] for _ in place.shape]
            chosen[axis] = r.randrange(place.shape[axis])
            on("index", chosen)
        return self.cut(ops, place, sizes, exact)

    def cut(self, ops: list[Any], place: Cells, sizes: list[int], exact: bool) -> list[Any] | None:
        """Slices of every axis, in either direction, in steps."""
        if len(place.shape) != len(sizes):
            return None
        index, r = [], self.r
        for length, size in zip(place.shape, sizes, strict=True):
            size = max(size, 1)
            steps = [step for step in (1, 1, 2, 3) if (size - 1) * step < length]
            if not steps:
                return None
            step = r.choice(steps)
            most = (length - 1) // step + 1
            count = size if exact or r.random() < 0.5 else r.randint(size, most)
            start = r.randint(0, length - 1 - (count - 1) * step)
            last = start + (count - 1) * step
            if r.random() < 0.5:
                index.append([last, start - 1 if start else None, -step])
            else:
                index.append([start, last + 1, step])
        return ops if index == [[0, n, 1] for n in place.shape] else [*ops, ["index", index]]

    def used(self, view: View) -> tuple[str, np.ndarray[Any, Any]]:
        """The block, and the places of a view in it."""
        place = self.places[view["block"]]
        for op in view["ops"]:
            place = place.viewed(op)
        return view["block"], np.concatenate([part.reshape(-1) for part in place.parts.values()])

    # Steps

    def launch(self) -> Any:
        r = self.r
        name = r.choice([*self.kernels])
        one = self.kernels[name]
        dim = [r.choice([self.threads, max(1, self.threads - r.randrange(3))])]
        if one["axes"] == 2:
            columns = r.choice([1, 3, 4])
            dim = [max(1, dim[0] // columns), columns]
        views = []
        for param in one["params"]:
            kind, axes, role = PARAMETERS[param][1:]
            if role == "held":
                continue
            sizes = [ROWS] * axes
            if role == "own" or f"{param}[i]" in one["text"]:
                sizes[0] = max(ROWS, dim[0])
            if f"{param}[i, j]" in one["text"]:
                sizes[1] = max(ROWS, dim[1])
            found = self.view(kind, sizes)
            if found is None:
                return None
            views.append(found)
        held = r.randint(ROWS, len(GAINS)) if "rows" in one["params"] else 0
        passed = {view["block"] for view in views}
        for _ in range(held):
            found = self.view("f", [ROWS])
            if found is None or found["block"] in passed:  # which is refused where the launch works on copies
                return None
            views.append(found)
        if not self.fits([*one["params"][: len(views) - held], *["rows"] * held], views):
            return None
        return {"op": "launch", "kernel": name, "dim": dim, "views": views, "held": held}

    def fits(self, params: list[str], views: list[View]) -> bool:
        """Return whether what a launch writes is what it is given once, unless the program is about overlaps.

        Threads in lockstep and in chunks are then those of the loop, whatever the package finds out. Arrays
        in elements never overlap: the package refuses some of those.
        """
        if self.overlaps and "rows" not in params:
            return True
        used = [self.used(view) for view in views]
        for k, param in enumerate(params):
            if PARAMETERS[param][3] == "read":
                continue
            for other, places in [*used[:k], *used[k + 1 :]]:
                if other == used[k][0] and np.intersect1d(places, used[k][1]).size:
                    return False
        return True

    def some(self) -> tuple[str, list[int]]:
        kind = self.r.choice("fffvb")
        sizes = [self.r.randint(1, self.threads + 2)]
        return kind, sizes if kind != "f" or self.r.random() < 0.6 else [
            self.r.randint(1, 9),
            self.r.randint(1, 6),
        ]

    def copy(self) -> Any:
        kind, sizes = self.some()
        dest, src = self.view(kind, sizes, exact=True), self.view(kind, sizes, exact=True)
        return {"op": "copy", "views": [dest, src]} if dest and src else None

    def fill(self) -> Any:
        view = self.view(*self.some())
        value = self.r.choice([0.0, 0.0, 0.25])
        if view is None or (value and self.kind_of(view) != "f"):
            return None
        return {"op": "fill", "views": [view], "value": value}

    def kind_of(self, view: View) -> str:
        place = self.places[view["block"]]
        for op in view["ops"]:
            place = place.viewed(op)
        return place.kind

    def assign(self) -> Any:
        view = self.view("f", self.some()[1][:1])
        return view and {"op": "assign", "views": [view]}

    def clone(self) -> Any:
        kind = self.r.choice("ffv")
        view = self.view(kind, [self.r.randint(3, self.threads + 2)], exact=True)
        if view is None:
            return None
        name = f"K{len(self.blocks)}"
        place = self.places[view["block"]]
        for op in view["ops"]:
            place = place.viewed(op)
        self.add(name, kind, list(place.shape), made=True)
        return {"op": "clone", "views": [view], "name": name}


def program(seed: int) -> Program:
    """A random program."""
    return Maker(seed).program()


def initial(spec: Program) -> dict[str, Any]:
    """Return what the blocks hold at first, by field, or under the empty name; float32 has all of it."""
    rng = np.random.default_rng(spec["seed"])
    found: dict[str, Any] = {}
    for name, block in spec["blocks"].items():
        shape, kind = tuple(block["shape"]), block["kind"]

        def floats(*inner: int, shape: tuple[int, ...] = shape) -> Any:
            return rng.uniform(-1.0, 1.0, (*shape, *inner)).astype(np.float32).astype(float)

        integers = rng.integers(0, 1000, shape).astype(np.int32)
        if kind == "b":
            # Bits that are others after a sum of floats.
            found[name] = {"tag": integers - 5_000_000, "pos": floats(3), "mass": floats()}
        else:
            found[name] = {"": integers if kind == "i" else floats(3) if kind == "v" else floats()}
    return found


def weights(spec: Program) -> dict[str, Any]:
    """The weights of what all blocks hold in the end."""
    rng = np.random.default_rng(spec["seed"] + 1)
    made = {step["name"]: None for step in spec["steps"] if step["op"] == "clone"}
    return {
        name: {
            field: rng.uniform(0.2, 1.0, values.shape).astype(np.float32).astype(float)
            for field, values in (parts or {}).items()
            if values.dtype == float
        }
        for name, parts in {**initial(spec), **made}.items()
    }


def assigned(shape: tuple[int, ...]) -> Any:
    """Return what is assigned to an array."""
    count = int(np.prod(shape))
    return (np.arange(count) % 16 / 16.0 - 0.5).reshape(shape)


# -- by the package ----------------------------------------------------------------------------------------


def modules(spec: Program) -> dict[str, Any]:
    """The modules of a program's kernels by name, and by the empty name what they share."""
    shared = _module(
        HEADER.format(
            scalar="float64" if spec["f64"] else "float32", vector="vec3d" if spec["f64"] else "vec3f"
        ),
        {},
    )
    names = {name: getattr(shared, name) for name in ("wp", "F", "V", "Body", "Row")}
    return {"": shared, **{name: _module(one["text"], names) for name, one in spec["kernels"].items()}}


def _module(text: str, names: dict[str, Any]) -> Any:
    key = hashlib.sha256(f"{text}{names.get('F')}".encode()).hexdigest()[:16]
    if key not in _modules:
        path = Path(FOLDER.name) / f"program_{key}_{os.getpid()}.py"
        path.write_text(text, encoding="utf-8")
        wanted = importlib.util.spec_from_file_location(path.stem, path)
        assert wanted is not None and wanted.loader is not None
        made = importlib.util.module_from_spec(wanted)
        vars(made).update(names)
        wanted.loader.exec_module(made)
        _modules[key] = made
    return _modules[key]


class Result:
    """Values and gradients of blocks by name and field, the loss, and its derivative along a direction."""

    def __init__(self, values: Any, gradients: Any, loss: float, along: float | None = None) -> None:
        self.values, self.gradients, self.loss, self.along = values, gradients, loss, along


def run(spec: Program) -> Result:
    """Run a program on the package, with guard bytes around everything."""
    found = modules(spec)
    wp.config.lanes, wp.config.num_threads = spec["lanes"], spec["threads"]
    try:
        with parallel_comparison.always_cut(), guarded() as blocks:
            wp.config.num_threads = spec["threads"]
            result = _Run(spec, found[""], found, blocks).result()
    finally:
        wp.config.lanes, wp.config.num_threads = True, None
    return result


@contextmanager
def guarded() -> Iterator[Blocks]:
    """Guard bytes around all memory that arrays and gradients get, and around private copies."""
    with Blocks() as blocks, patch.object(buffers, "uncleared", blocks.uncleared):
        yield blocks


class _Run:
    def __init__(self, spec: Program, names: Any, modules: Any, blocks: Blocks) -> None:
        self.spec, self.names, self.modules = spec, names, modules
        self.held = []
        self.arrays: dict[str, Any] = {}
        self.shapes: dict[str, Any] = initial(spec)
        scalar = np.float64 if spec["f64"] else np.float32
        for name, parts in self.shapes.items():
            kind, shape = spec["blocks"][name]["kind"], tuple(spec["blocks"][name]["shape"])
            dtype = {"f": names.F, "v": names.V, "i": int, "b": names.Body}[kind]
            if kind == "b":
                made = wp.zeros(shape, dtype=dtype, requires_grad=True)
                values = made.numpy()
                for field, content in parts.items():
                    values[field] = content
                del values
            elif spec["foreign"]:
                content = parts[""] if kind == "i" else parts[""].astype(scalar)
                memory = blocks.memory(content.nbytes).view(content.dtype).reshape(content.shape)
                memory[...] = content
                made = wp.array(memory, dtype=dtype, copy=False, requires_grad=kind != "i")
            else:
                made = wp.array(parts[""], dtype=dtype, requires_grad=kind != "i")
            self.arrays[name] = made

    def view(self, view: View) -> Any:
        return viewed(self.arrays[view["block"]], view["ops"], self.names)

    def result(self) -> Result:
        spec, weighed = self.spec, weights(self.spec)
        leaves = dict(self.arrays)
        loss = wp.zeros(1, dtype=self.names.F, requires_grad=True)
        options = {"memory_budget": 40_000} if spec["budget"] else {}
        with wp.Tape(**options) as tape:
            for (
                name,
                a,
            ) in self.arrays.items():  # reads it, so that it is an input, whatever overwrites it then
                self.total(a, {field: 0.0 * v for field, v in weighed[name].items()}, loss)
            for step in spec["steps"]:
                self.step(step)
            for name, a in self.arrays.items():
                self.total(a, weighed.get(name) or {}, loss)
        values = {name: self.parts(a, a) for name, a in self.arrays.items()}
        for again in range(1 + spec["twice"]):
            if again:
                tape.zero()
            tape.backward(loss)
        gradients = {
            name: self.parts(a, a.grad) for name, a in leaves.items() if spec["blocks"][name]["kind"] != "i"
        }
        along = None
        if spec["seed"] % 3 == 0 and spec["f64"]:
            tangents = {leaves[name]: v for name, v in direction(spec).items()}
            along = float(np.sum(jvp(tape, tangents=tangents, dtype=wp.float64)[loss]))
        return Result(values, gradients, float(loss.numpy()[0]), along)

    def parts(self, a: Any, content: Any) -> dict[str, Any]:
        values = content.numpy()
        if values.dtype.names is None:
            return {"": values.copy()}
        return {field: values[field].copy() for field in ("tag", "pos", "mass")}

    def step(self, step: Any) -> None:
        views = [self.view(view) for view in step["views"]]
        match step["op"]:
            case "launch":
                function = getattr(self.modules[step["kernel"]], step["kernel"])
                if step.get("held"):
                    rows = [self.row(*one) for one in zip(views[-step["held"] :], GAINS, strict=False)]
                    views[-step["held"] :] = [wp.array(rows, dtype=self.names.Row)]
                wp.launch(function, tuple(step["dim"]), [*views, VALUE])
            case "copy":
                wp.copy(*views)
            case "fill" if not step["value"]:
                views[0].zero_()
            case "fill":
                views[0].fill_(step["value"])
            case "assign":
                views[0].assign(assigned(views[0].shape))
            case "clone":
                self.arrays[step["name"]] = wp.clone(views[0])

    def row(self, data: Any, gain: float) -> Any:
        row = self.names.Row()
        row.data, row.gain = data, gain
        return row

    def total(self, a: Any, weighed: dict[str, Any], loss: Any) -> None:
        names = self.names
        if a.dtype is wp.int32:
            return
        if set(weighed) == {"pos", "mass"}:
            rows = np.concatenate([weighed["pos"], weighed["mass"][:, None]], axis=1).reshape(-1)
            wp.launch(names.total_of_bodies, a.shape, [a, wp.array(rows, dtype=names.F), loss])
            return
        flat = (a.view(names.F) if a.dtype is names.V else a).flatten()
        given = weighed[""].reshape(-1) if weighed else np.full(flat.size, 0.5)
        wp.launch(names.total, flat.size, [flat, wp.array(given, dtype=names.F), loss])


def direction(spec: Program) -> dict[str, Any]:
    """A direction of the inputs, but for those in structs."""
    rng = np.random.default_rng(spec["seed"] + 2)
    floats = {n: b for n, b in spec["blocks"].items() if b["kind"] in "fv"}
    return {
        n: rng.normal(size=(*b["shape"], 3)[: len(b["shape"]) + (b["kind"] == "v")])
        for n, b in floats.items()
    }


# -- in plain Python ---------------------------------------------------------------------------------------


def evaluated(spec: Program) -> Result:
    """Return what a program means, thread by thread.

    Raises:
        Unsure: A rounding error may decide which way it goes.
    """
    of = Operations(close=1e-9 if spec["f64"] else 3e-5)
    library = Library()
    start = initial(spec)
    memory: dict[str, Cells] = {}
    for name, parts in start.items():
        cells = {}
        for field, values in parts.items():
            made = np.empty(values.shape, object)
            flat = made.reshape(-1)
            flat[:] = [int(v) if values.dtype != float else of.number(float(v)) for v in values.reshape(-1)]
            cells[field] = made
        memory[name] = Cells(cells, spec["blocks"][name]["kind"])
    leaves = {
        name: {field: part.copy() for field, part in cells.parts.items()} for name, cells in memory.items()
    }
    kernels = {name: _plain(one["text"], name, library) for name, one in spec["kernels"].items()}
    for step in spec["steps"]:
        _step(step, memory, kernels, library, of)
    seeds: dict[int, float] = {}
    loss = 0.0
    weighed = weights(spec)
    for name, cells in memory.items():
        for field, part in cells.parts.items():
            given = (weighed.get(name) or {}).get(field)
            given = np.full(part.shape, 0.5) if given is None else given
            for cell, weight in zip(part.reshape(-1), given.reshape(-1), strict=True):
                if not isinstance(cell, int):
                    loss += plain(cell) * float(weight)
                if isinstance(cell, Number):
                    seeds[cell.index] = seeds.get(cell.index, 0.0) + float(weight)
    adjoints = of.gradient(seeds)
    gradients = {
        name: {f: _numbers(p, lambda cell: adjoints[cell.index]) for f, p in parts.items() if f != "tag"}
        for name, parts in leaves.items()
        if spec["blocks"][name]["kind"] != "i"
    }
    values = {
        name: {f: _numbers(p, lambda cell: cell.value) for f, p in cells.parts.items()}
        for name, cells in memory.items()
    }
    along = sum(float((gradients[n][""] * v).sum()) for n, v in direction(spec).items())
    return Result(values, gradients, loss, along)


def _numbers(cells: Any, of: Any) -> Any:
    found = [of(cell) if isinstance(cell, Number) else cell for cell in cells.reshape(-1)]
    return np.array(found).reshape(cells.shape)


def _plain(text: str, name: str, library: Library) -> Any:
    """The function of a kernel, without annotations that only the package understands."""

    class Words:
        """`wp` of the text: the library, and names of types that nobody asks."""

        def __getattr__(self, word: str) -> Any:
            return getattr(library, word)

        kernel = func = staticmethod(lambda f: f)
        array = array2d = array3d = staticmethod(lambda dtype: None)

    names = {"wp": Words(), "F": float_of, "V": Vector, "Body": None, "Row": None}
    exec(compile(text, "<program>", "exec"), names)
    return names[name]


def float_of(value: Any) -> Any:
    return value if isinstance(value, Number) else float(value)


def _step(step: Any, memory: dict[str, Cells], kernels: Any, library: Library, of: Operations) -> None:
    views = []
    for view in step["views"]:
        place = memory[view["block"]]
        for op in view["ops"]:
            place = place.viewed(op)
        views.append(place)
    match step["op"]:
        case "launch":
            args: list[Any] = [view.for_kernel() for view in views]
            if step.get("held"):
                held = args[-step["held"] :]
                args[-step["held"] :] = [Rows(map(Row, held, GAINS))]
            for thread in np.ndindex(*step["dim"]):
                library.thread = tuple(map(int, thread))
                kernels[step["kernel"]](*args, VALUE)
        case "copy":
            for field, part in views[0].parts.items():
                part[...] = views[1].parts[field].copy()
        case "fill":
            for part in views[0].parts.values():
                _constants(part, np.full(part.shape, step["value"]), of)
        case "assign":
            _constants(views[0].parts[""], assigned(views[0].parts[""].shape), of)
        case "clone":
            memory[step["name"]] = Cells({"": views[0].parts[""].copy()}, views[0].kind)


def _constants(part: Any, values: Any, of: Operations) -> None:
    for index in np.ndindex(part.shape):
        part[index] = int(values[index]) if isinstance(part[index], int) else of.number(float(values[index]))


# -- compared ----------------------------------------------------------------------------------------------


def check(spec: Program) -> None:
    """Raise AssertionError where the package does not do what a program means."""
    expected = evaluated(spec)
    largest = max(
        float(np.abs(values).max(initial=0.0))
        for parts in expected.gradients.values()
        for values in parts.values()
    )
    if not np.isfinite(largest) or largest > 1e4:
        raise Unsure
    found = run(spec)
    rounding = 1e-9 if spec["f64"] else 3e-3
    for what, one, other in (
        ("value", found.values, expected.values),
        ("gradient", found.gradients, expected.gradients),
    ):
        for name, parts in other.items():
            for field, values in parts.items():
                same = one[name][field]
                where = f"{what} of {name} {field}"
                if values.dtype.kind == "i":
                    np.testing.assert_array_equal(same, values, err_msg=where)
                    continue
                scale = max(1.0, float(np.abs(values).max(initial=0.0)))
                np.testing.assert_allclose(same, values, rtol=rounding, atol=rounding * scale, err_msg=where)
    assert abs(found.loss - expected.loss) <= rounding * 10 * max(1.0, abs(expected.loss)), "loss"
    if found.along is not None and expected.along is not None:
        assert abs(found.along - expected.along) <= 1e-7 * max(1.0, abs(expected.along)), "tangent"


def smaller(spec: Program) -> Iterator[Program]:
    """The program without one of its steps, or on simpler terms."""
    for k in range(len(spec["steps"])):
        steps = [*spec["steps"][:k], *spec["steps"][k + 1 :]]
        made = {step["name"] for step in steps if step["op"] == "clone"} | set(spec["blocks"])
        if all(view["block"] in made for step in steps for view in step["views"]):
            kernels = {step["kernel"] for step in steps if step["op"] == "launch"}
            yield {
                **spec,
                "steps": steps,
                "kernels": {n: k for n, k in spec["kernels"].items() if n in kernels},
            }
    for key, value in (
        ("threads", 1),
        ("lanes", False),
        ("budget", False),
        ("foreign", False),
        ("twice", False),
    ):
        if spec[key] != value:
            yield {**spec, key: value}
    if not spec["f64"]:
        yield {**spec, "f64": True}
    used = {view["block"] for step in spec["steps"] for view in step["views"]}
    if used < set(spec["blocks"]):
        yield {**spec, "blocks": {n: b for n, b in spec["blocks"].items() if n in used}}
