"""Reads and writes from syntax trees, with a small library in place of Warp's functions."""

from __future__ import annotations

import ast
import textwrap

import pytest

from tapedebug.watch.kernel_accesses import Definition, _Function, uses_of


class ref:
    """Warp's annotation of parameters by reference."""


class Library:
    """User functions by name; every other name that is called is a built-in function."""

    def __init__(self, source):
        self.source = textwrap.dedent(source)
        tree = ast.parse(self.source)
        self.functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}

    def definition(self, name):
        node = self.functions[name]
        return Definition(node, "kernel.py", 1, self.source.splitlines(), self.resolve)

    def resolve(self, node):
        return ref if ast.unparse(node) == "ref" else ast.unparse(node)

    def function(self, found):
        return [self.definition(found)] if found in self.functions else []

    def builtin(self, found):
        known = "atomic_add atomic_max tile_load tile_store sin"
        return found if found in known.split() else None

    def native(self, found):
        return None

    def is_plain(self, found):
        return found == "vec3"


def uses(source, **ndims):
    library = Library(source)
    paths = {tuple(name.split("__")): ndim for name, ndim in ndims.items()}
    name = next(reversed(library.functions))
    found = uses_of(library.definition(name), paths, library)
    return {
        ".".join(path): "".join(
            letter
            for letter, is_set in zip("rwal", (use.reads, use.writes, use.atomic, use.left), strict=True)
            if is_set
        )
        for path, use in found.items()
    }


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y[0] = x[0]", {"x": "r", "y": "w"}),
        ("y[0] += x[0]", {"x": "r", "y": "wa"}),
        ("y[0] *= x[0]", {"x": "r", "y": "rwl"}),
        ("y[0].a = x[0].b", {"x": "r", "y": "w"}),
        ("y[0][1] = sin(x[1])", {"x": "r", "y": "w"}),
        ("atomic_add(y, 0, x[0])", {"x": "r", "y": "wa"}),
        ("n = atomic_add(y, 0, x[0])", {"x": "r", "y": "rwa"}),
        ("atomic_max(y, 0, x[0])", {"x": "r", "y": "wal"}),
        ("t = tile_load(x, 4)\ntile_store(y, t)", {"x": "r", "y": "w"}),
        ("z = x\ny[0] = z[0]", {"x": "r", "y": "w"}),
        ("while x[0] > 0:\n    y[0] = 1", {"x": "r", "y": "w"}),
        ("n = x.shape[0]\ny[n] = 1.0", {"x": "", "y": "w"}),
        ("unknown(x)", {"x": "rwl", "y": ""}),
        ("p = x.ptr", {"x": "rwl", "y": ""}),
        ("for i in range(3):\n    if i:\n        y[i] = x[i]\n", {"x": "r", "y": "w"}),
        ("y[0] = x[0]\nx[1] = y[0]", {"x": "rw", "y": "wl"}),
        ("y[0] = x[0]\nx[1] = y[1]", {"x": "rw", "y": "rw"}),
        ("i = 0\ny[i] = x[0]\ni = 1\nx[i] = y[i]", {"x": "rw", "y": "rw"}),
        ("i = 0\ny[i] = 1.0\nwhile i < 3:\n    x[i] = y[i]\n    i += 1", {"x": "w", "y": "rw"}),
        ("if x[0] > 0.0:\n    y[0] = 1.0\nx[1] = y[0]", {"x": "rw", "y": "rw"}),
        ("v = vec3(x[0], x[1], x[2])\ny[0] = v", {"x": "r", "y": "w"}),
    ],
)
def test_statements(body, expected):
    assert uses(f"def kernel(x, y):\n{textwrap.indent(body, '    ')}", x=1, y=1) == expected


def test_a_view_is_no_read():
    source = """
    def kernel(x, y):
        row = x[0]
        row[1] = y[0, 1]
    """
    assert uses(source, x=2, y=2) == {"x": "w", "y": "r"}


def test_functions_are_followed():
    source = """
    def load(a, i):
        return a[i]

    def store(a, i, value=1.0):
        b = a
        b[i] = value

    def row(a, i):
        return a[i]

    def kernel(x, y, z):
        store(y, 0, value=load(x, 1))
        r = row(z, 1)
        r[0] = 2.0
    """
    assert uses(source, x=1, y=1, z=2) == {"x": "r", "y": "w", "z": "w"}


def test_arguments_by_reference_are_written():
    source = """
    def scale(x: ref[float], y):
        x = x * y

    def kernel(x, y, z, s):
        scale(x[0], y[1])
        scale(z[0].weight, y=y[1])
        scale(x=s.q[1], y=1.0)
    """
    assert uses(source, x=1, y=1, z=1, s__q=1) == {"x": "rwl", "y": "r", "z": "rwl", "s.q": "rwl"}


def test_fields_of_structs_are_arrays_of_their_own():
    source = """
    def speed(s, i):
        return s.v[i]

    def kernel(old, new):
        new.q[0] = old.q[0] + speed(old, 0)
    """
    found = uses(source, old__q=1, old__v=1, new__q=1, new__v=1)
    assert found == {"old.q": "r", "old.v": "r", "new.q": "w", "new.v": ""}


def test_a_function_is_followed_once_for_the_same_arrays(monkeypatch):
    followed = []
    own = _Function.follow
    monkeypatch.setattr(
        _Function, "follow", lambda self, *rest: (followed.append(rest[0][0].tree.name), own(self, *rest))[1]
    )
    deep = "".join(
        f"""
    def f{n}(a, b):
        view = a
        return f{n + 1}(view, b) + f{n + 1}(b, view)
    """
        for n in range(12)
    )
    source = f"""
    def f12(a, b):
        return a[0]
    {deep}
    def kernel(x, y):
        y[0] = f0(x, y)
    """
    assert uses(source, x=1, y=1) == {"x": "r", "y": "rw"}
    assert len(followed) <= 2 * 13  # not 2 ** 13


def test_a_recursive_function_ends():
    source = """
    def again(a, n):
        return again(a, n - 1) + a[n]

    def kernel(x):
        again(x, 3)
    """
    assert "r" in uses(source, x=1)["x"]


def test_places_are_those_of_the_file():
    library = Library("def kernel(x, y):\n    y[0] = x[1]\n")
    definition = library.definition("kernel")._replace(first_line=10)
    found = uses_of(definition, {("x",): 1, ("y",): 1}, library)
    ((kind, place),) = found["x",].places
    assert (kind, place.line, place.column, place.text) == ("read", 11, 11, "    y[0] = x[1]")


def test_a_node_of_rewritten_source_has_the_place_of_its_function():
    library = Library("def kernel(x, y):\n    y[0] = x[1]\n")
    definition = library.definition("kernel")
    read = definition.tree.body[0].value
    definition.tree.body[0].value = ast.Subscript(read.value, read.slice, read.ctx)
    found = uses_of(definition, {("x",): 1, ("y",): 1}, library)
    ((kind, place),) = found["x",].places
    assert (kind, place.line, place.text) == ("read", 1, "def kernel(x, y):")
