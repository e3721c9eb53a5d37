"""`import tapedebug` stays light, cached kernels need no Numba, rooms import one way: and tests can fail."""

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

from scripts.architecture import inner_statements
from tapedebug import _tape_functions
from tests.processes import PLAIN, ROOT, modules_after

HEAVY = {
    "numba",
    "llvmlite",
    "matplotlib",
    "IPython",
    "ipywidgets",
    "anywidget",
    "graphviz",
    "scipy",
    "threadpoolctl",
    "psutil",
    "rich",
    "click",
    "torch",
    "jax",
}

NET = """
import runpy, sys
sys.argv = ["net.py"]
runpy.run_path(r"{path}", run_name="__main__")
""".format(path=ROOT / "notebooks" / "net.py")


def test_import_is_light() -> None:
    assert modules_after("import tapedebug") & HEAVY == set()


def test_import_is_light_can_fail() -> None:
    assert {"numba", "llvmlite"} <= modules_after("import tapedebug, numba") & HEAVY


def test_the_net_compiles_and_runs_without_numba(tmp_path: Path) -> None:
    def objects() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.o")}

    first = modules_after(NET, cache=tmp_path)
    made = objects()
    assert made, "an empty cache must compile: otherwise the second half of this test shows nothing"
    assert first & HEAVY == {"llvmlite"}, "code is compiled by LLVM, without Numba"
    second = modules_after(NET, cache=tmp_path)
    assert second & HEAVY == (set() if PLAIN else {"llvmlite"}), "from the cache it runs without LLVM"
    assert objects() == made, "what is in the cache is not compiled again"


# ------------------------------------------------------------------ rooms

# room → rooms that it may import, when its modules load, inside functions, or for type checkers.
# All may import `contract`; `_source`, `_errors` and the like are open to all rooms but that one, which
# has the decorator `_dataclass`.
ENGINE = {"lang", "compiler", "runtime"}
MAY_IMPORT = {
    "lang": set(),
    "compiler": {"lang"},
    "runtime": {"lang", "compiler"},
    "aswarp": ENGINE | {"optim"},  # graphs list the steps of optimisers
    "optim": ENGINE,
    "torch": ENGINE | {"operations"},
    "jax": ENGINE,
    "operations": set(),
    "watch": ENGINE | {"aswarp", "operations"},
    "trace": set(),
    "formats": {"trace"},
    "autograd": ENGINE | {"aswarp"},
    "diagnose": {"trace", "autograd"},
    "visualize": {"trace", "diagnose"},
    "panel": {"lang", "trace", "autograd", "diagnose"},
    "report": {"trace", "diagnose", "panel"},
    "notebook": ENGINE | {"trace", "autograd", "diagnose", "panel", "report"},
}
MAY_IMPORT = {room: others | {"contract"} for room, others in MAY_IMPORT.items()} | {"contract": set()}

LAZY = {
    ("runtime", "compiler"): 9,  # `import tapedebug` loads a third of the compiler; kernels load the rest
    ("compiler", "contract"): 1,  # its data classes take milliseconds to make
    ("runtime", "lang"): 1,  # `wp.map` looks at built-in functions only when it gets one
    ("notebook", "autograd"): 1,  # the options of magics name the module itself
}
"""The names imported inside functions from one room into another, each pair with its reason."""

UNTYPED = {
    "autograd": 2,
    "contract": 1,
    "diagnose": 8,
    "notebook": 3,
    "operations": 0,
    "report": 1,
    "trace": 4,
    "watch": 0,
    "": 2,
}
"""For each room outside the engine, the parameters that may be annotated `Any`; `""` is for root modules.

A limit falls when its room has fewer, and never rises: say what a parameter takes, `object` where it is only
inspected. The goal is fewer than 30 in all.
"""


# Shelves inside rooms, and what is above each: whoever lies below knows nothing of it. In `diagnose`, what
# reads the trace knows no experiments, and what measures knows no rules. In `autograd`, what is run knows
# nothing of how it is judged, and results are made by checks, not the other way round.
ABOVE = {
    "diagnose": {"trace_analysis": {"experiments", "rules"}, "experiments": {"rules"}},
    "autograd": {
        "subjects": {"finite_diff", "sparse", "results", "checks", "tapes"},
        "finite_diff": {"sparse", "results", "checks", "tapes"},
        "sparse": {"results", "checks", "tapes"},
        "results": {"checks", "tapes"},
        "checks": {"tapes"},
        "tapes": set(),
    },
}

# what all shelves of a room may use; its other modules are for its callers
SHARED = {"autograd": {"array_types", "options", "thresholds"}}

# modules that are made of something heavy; nobody may import them when loading
LATE = {
    "compiler/numba_library.py": {"numba", "llvmlite"},
    "compiler/numba_float64.py": {"numba"},
    "compiler/numba_wrappers.py": {"numba", "compiler/numba_library.py"},
    "notebook/_widget.py": {"anywidget"},
}

# `%load_ext` alone loads these; their options are made of the functions that they call, so they import them
MAGICS = [f"notebook/{name}.py" for name in ("_magic_base", "_options", "_report_magics", "magics")]
LATE |= {name: {"IPython", "runtime", "autograd", "diagnose", *MAGICS} for name in MAGICS}


class Statement(NamedTuple):
    """An import.

    Attributes:
        node: The statement.
        lazy: It is inside a function.
        typing: It is for type checkers alone.
    """

    node: ast.Import | ast.ImportFrom
    lazy: bool
    typing: bool


@cache
def import_statements(source: str) -> tuple[Statement, ...]:
    """Return the imports of a module. Several rules look at them: the trees of all modules take 200 MB."""
    found: list[Statement] = []
    todo: list[tuple[ast.AST, bool, bool]] = [(ast.parse(source), False, False)]
    while todo:
        node, lazy, typing = todo.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(Statement(node, lazy, typing))
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo += [(child, lazy, True) for child in node.body]
            todo += [(child, lazy, typing) for child in node.orelse]
        else:
            lazy = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            todo += [(child, lazy, typing) for child in inner_statements(node)]
    return tuple(found)


def imports(source: str, package: str) -> Iterator[tuple[int, str]]:
    """Line and absolute name of every import that runs when the module loads (not inside functions)."""
    for node, lazy, typing in import_statements(source):
        if lazy or typing:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        else:
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base]).rstrip(".")
            # `from tapedebug import runtime` names the room after `import`
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def all_imports(source: str) -> list[tuple[int, str]]:
    """Return line and absolute name of every import, also those inside functions and for type checkers."""
    found: list[tuple[int, str]] = []
    for node, _, _ in import_statements(source):
        before = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        found += ((node.lineno, f"{before}{alias.name}") for alias in node.names)
    return found


def trespasses(source: str, room: str, allowed: Iterable[str] = ()) -> list[str]:
    """Return the imports of `source`, a module of `room`, at load time that the design does not allow."""
    wrong = []
    for line, name in imports(source, f"tapedebug.{room}"):
        parts = name.split(".")
        late = [
            path for path in LATE if ("/".join(parts[1:]) + "/").startswith(path.removesuffix(".py") + "/")
        ]
        if late and late[0] not in allowed:
            wrong.append(f"line {line}: {late[0]} is heavy, import it where it is used")
        elif parts[0] in HEAVY - set(allowed):
            wrong.append(f"line {line}: {parts[0]} is heavy, import it where it is used")
        elif parts[0] == "tapedebug":
            other = parts[1] if len(parts) > 1 else ""
            if other in MAY_IMPORT and other != room and other not in MAY_IMPORT[room] | set(allowed):
                wrong.append(f"line {line}: {room} may not import {other}")
    return wrong


def climbs(source: str, room: str, shelf: str) -> list[str]:
    """Return the imports of a module of `room/shelf` from a shelf above it, or from above all shelves."""
    wrong = []
    for line, name in imports(source, f"tapedebug.{room}.{shelf}"):
        parts = name.split(".")
        if parts[:2] != ["tapedebug", room] or len(parts) < 3:
            continue
        above_all = room in SHARED and parts[2] not in ABOVE[room].keys() | SHARED[room]
        if parts[2] in ABOVE[room][shelf] or above_all:
            wrong.append(f"line {line}: {name}")
    return wrong


@pytest.mark.parametrize("room", ABOVE)
def test_inside_a_room_imports_point_one_way(room: str) -> None:
    modules = [
        (shelf, path) for shelf in ABOVE[room] for path in (ROOT / "tapedebug" / room / shelf).rglob("*.py")
    ]
    found = {f"{shelf}/{path.name}": climbs(path.read_text("utf-8"), room, shelf) for shelf, path in modules}
    assert len(found) > 20
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_climbing_is_seen() -> None:
    assert climbs("from tapedebug.diagnose.rules.overwrite import find", "diagnose", "experiments") == [
        "line 1: tapedebug.diagnose.rules.overwrite.find"
    ]
    assert climbs("from tapedebug.autograd.gradchecks import gradcheck", "autograd", "subjects") == [
        "line 1: tapedebug.autograd.gradchecks.gradcheck"
    ]


def modules_of(room: str) -> dict[str, Path]:
    """Return the modules of a room by their paths in the package."""
    package = ROOT / "tapedebug"
    return {path.relative_to(package).as_posix(): path for path in sorted((package / room).rglob("*.py"))}


def room_modules() -> list[Path]:
    return [path for room in MAY_IMPORT for path in modules_of(room).values()]


def test_every_room_is_seen() -> None:
    assert {path.relative_to(ROOT / "tapedebug").parts[0] for path in room_modules()} == set(MAY_IMPORT)


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_rooms_import_one_way(room: str) -> None:
    found = {
        name: trespasses(path.read_text(encoding="utf-8"), room, LATE.get(name, ()))
        for name, path in modules_of(room).items()
    }
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def between_rooms(room: str, source: str) -> list[tuple[int, str]]:
    """Return line and room of every import of another room in `source`, a module of `room`."""
    found = [(line, name.split(".")) for line, name in all_imports(source)]
    return [(line, parts[1]) for line, parts in found if parts[0] == "tapedebug" and parts[1:2] != [room]
            and parts[1:] and parts[1] in MAY_IMPORT]  # fmt: skip


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_no_import_leads_upwards_however_it_is_written(room: str) -> None:
    found = {
        name: [
            item for item in between_rooms(room, path.read_text("utf-8")) if item[1] not in MAY_IMPORT[room]
        ]
        for name, path in modules_of(room).items()
    }
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_the_contract_imports_only_the_decorator_of_its_data_classes() -> None:
    found = {
        name
        for path in (ROOT / "tapedebug" / "contract").glob("*.py")
        for _, name in all_imports(path.read_text("utf-8"))
        if name.startswith("tapedebug") and not name.startswith("tapedebug.contract.")
    }
    assert found == {"tapedebug._dataclass.dataclass"}
    decorator = (ROOT / "tapedebug" / "_dataclass.py").read_text("utf-8")
    assert not any(name.startswith("tapedebug") for _, name in all_imports(decorator))


def test_data_classes_write_their_methods_on_first_use() -> None:
    standard = {
        path.relative_to(ROOT / "tapedebug").as_posix()
        for path in (ROOT / "tapedebug").rglob("*.py")
        if "dataclasses.dataclass" in {name for _, name in all_imports(path.read_text("utf-8"))}
    }
    assert standard == {"_dataclass.py"}, "all others import the decorator from tapedebug._dataclass"


def test_rooms_have_no_cycle() -> None:
    assert list(TopologicalSorter(MAY_IMPORT).static_order())


def test_a_cycle_of_rooms_is_seen() -> None:
    with pytest.raises(CycleError):
        TopologicalSorter(MAY_IMPORT | {"trace": {"notebook"}}).prepare()


def test_imports_inside_functions_that_cross_rooms_are_listed() -> None:
    found = Counter()
    for path in room_modules():
        room = path.relative_to(ROOT / "tapedebug").parts[0]
        source = path.read_text("utf-8")
        lazy = lazy_lines(source)
        for line, other in between_rooms(room, source):
            found[room, other] += line in lazy
    assert dict(+found) == LAZY
    assert sum(LAZY.values()) <= 20


def untyped_parameters(source: str) -> list[str]:
    """Return `function.parameter` for every parameter that is annotated `Any`."""
    if "Any" not in source:
        return []
    tree = ast.parse(source)
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return [
        f"{function.name}.{parameter.arg}"
        for function in functions
        for parameter in ast.walk(function.args)
        if isinstance(parameter, ast.arg) and isinstance(parameter.annotation, ast.Name)
        if parameter.annotation.id == "Any"
    ]


def test_parameters_say_what_they_take() -> None:
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tapedebug").rglob("*.py")):
        parts = path.relative_to(ROOT / "tapedebug").parts
        room = parts[0] if len(parts) > 1 else ""
        if room not in ENGINE | {"aswarp"}:
            places = (f"{'/'.join(parts)}: {name}" for name in untyped_parameters(path.read_text("utf-8")))
            found.setdefault(room, []).extend(places)
    assert {room: wrong for room, wrong in found.items() if len(wrong) > UNTYPED.get(room, 0)} == {}


def test_an_untyped_parameter_is_seen() -> None:
    source = "def f(a: Any, b: int, *c: Any, d: 'Any' = 0, **e: Any) -> Any:\n    g: Any = 1"
    assert untyped_parameters(source) == ["f.a", "f.c", "f.e"]


def lazy_lines(source: str) -> set[int]:
    """Return the lines of the imports inside functions."""
    return {statement.node.lineno for statement in import_statements(source) if statement.lazy}


BY_NAME = {
    "aswarp/module_counterparts.py": "the modules of Warp's API, which a program may import under any name",
    "autograd/subjects/pickling.py": "the modules of the user's objects",
    "compiler/elementwise.py": "the package itself, as the name `wp` of generated kernels",
    "autograd/__init__.py": "its own modules, when one of their names is used",
    "contract/__init__.py": "its own modules, when one of their names is used",
    "watch/hooks.py": "the modules of Warp, if it is installed",
    "runtime/memory/interop.py": "torch, JAX and other libraries, if they are installed",
}
"""Modules of rooms that import a module whose name is a value, each with what they import."""


def imports_by_name(source: str) -> list[int]:
    """Return the lines that import a module by a name that is computed, or one of ours."""
    names = ("import_module", "__import__")
    if not any(name in source for name in names):
        return []
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and node.args]
    return [
        call.lineno
        for call in calls
        if ast.unparse(call.func).rpartition(".")[2] in names
        if not (
            isinstance(call.args[0], ast.Constant) and not str(call.args[0].value).startswith("tapedebug")
        )
    ]


def test_rooms_import_none_by_its_name() -> None:
    found = {
        path.relative_to(ROOT / "tapedebug").as_posix()
        for path in room_modules()
        if imports_by_name(path.read_text("utf-8"))
    }
    assert found == set(BY_NAME)


def test_an_import_by_name_is_seen() -> None:
    assert imports_by_name('def f(n):\n    return importlib.import_module(f"tapedebug.{n}")') == [2]
    assert imports_by_name('import_module("tapedebug.trace")\n__import__("json")') == [1]


def test_rooms_register_what_the_engine_calls() -> None:
    assert set(_tape_functions.PROVIDERS.values()) == {"tapedebug.trace", "tapedebug.visualize"}
    for name, module in _tape_functions.PROVIDERS.items():
        function = _tape_functions.tape_function(name)
        assert function is getattr(importlib.import_module(module), name)


def test_an_unlisted_function_is_not_registered() -> None:
    with pytest.raises(KeyError, match=r"draw is not in PROVIDERS, which lists record, record_with_arrays"):

        @_tape_functions.register
        def draw() -> None: ...


def test_upward_imports_are_seen_however_they_are_written() -> None:
    lazy = "def f():\n    from tapedebug.notebook import display"
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tapedebug.trace import Trace"
    assert between_rooms("runtime", lazy) == [(2, "notebook")]
    assert between_rooms("runtime", typed) == [(3, "trace")]
    assert lazy_lines(lazy) == {2} and lazy_lines(typed) == set()


def test_lazy_imports_are_seen() -> None:
    assert list(all_imports("def f():\n    from tapedebug.notebook import display")) == [
        (2, "tapedebug.notebook.display")
    ]


@pytest.mark.parametrize(
    ("room", "source", "message"),
    [
        ("runtime", "from tapedebug.trace import Trace", "line 1: runtime may not import trace"),
        ("runtime", "from tapedebug import trace", "line 1: runtime may not import trace"),
        ("runtime", "import tapedebug.trace.model", "line 1: runtime may not import trace"),
        ("lang", "from ..runtime import tape", "line 1: lang may not import runtime"),
        (
            "compiler",
            "if True:\n    from tapedebug.runtime import x",
            "line 2: compiler may not import runtime",
        ),
        (
            "compiler",
            "from tapedebug.compiler.numba_library import compiled",
            "line 1: compiler/numba_library.py is heavy, import it where it is used",
        ),
        ("compiler", "import numba", "line 1: numba is heavy, import it where it is used"),
        (
            "trace",
            "class A:\n    from scipy.sparse import x",
            "line 2: scipy is heavy, import it where it is used",
        ),
    ],
)
def test_rooms_import_one_way_can_fail(room: str, source: str, message: str) -> None:
    assert trespasses(source, room) == [message]


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("runtime", "from tapedebug.lang.types import float32"),
        ("runtime", "def trace():\n    from tapedebug.trace import Trace"),
        (
            "runtime",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tapedebug.trace import Trace",
        ),
        ("notebook", "from tapedebug import report"),
        ("compiler", "def compile():\n    import numba"),
    ],
)
def test_what_rooms_may_import(room: str, source: str) -> None:
    assert trespasses(source, room) == []


def test_trace_is_a_function_of_kernels_and_a_package() -> None:
    code = (
        "import tapedebug as wp\n"
        "assert repr(wp.trace) == '<kernel function trace>'\n"
        "import tapedebug.trace\n"
        "from tapedebug.trace import load_trace\n"
        "assert wp.trace is tapedebug.trace and repr(wp.trace) == '<kernel function trace>'\n"
        "assert wp.trace.load_trace is load_trace\n"
        "try:\n    wp.trace.nothing\n"
        "except AttributeError as error:\n    assert 'nothing' in str(error)\n"
        "else:\n    raise AssertionError\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


PACKAGE = ROOT / "tapedebug"

INTERNALS = re.compile(r"\.(tracker|plan)\b|\.buffer\.")
"""Attributes of our engine's tapes, records and arrays that other rooms do not read."""

ON_THE_ENGINE = ("watch", "mirror")
"""The folder that makes launches of our engine for memory that is not the engine's."""


def engine_internals(source: str) -> list[str]:
    """Return the lines that read what belongs to our engine alone."""
    return [line.strip() for line in source.splitlines() if INTERNALS.search(line) and "import" not in line]


def test_only_the_engine_reads_its_internals() -> None:
    found = {
        str(path.relative_to(PACKAGE)): lines
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] not in ENGINE | {"aswarp"}
        if path.relative_to(PACKAGE).parts[:2] != ON_THE_ENGINE
        if (lines := engine_internals(path.read_text(encoding="utf-8")))
    }
    assert found == {}


def test_a_read_of_internals_is_seen() -> None:
    source = (
        "a = tape.tracker.states\nfrom tapedebug.runtime.launch.plan import KernelPlan\nb = record.planned"
    )
    assert engine_internals(source) == ["a = tape.tracker.states"]


def private_imports(source: str, room: str) -> list[str]:
    """Return the private modules of other rooms that a module imports."""
    found = []
    for _, name in all_imports(source):
        parts = name.split(".")
        if parts[0] == "tapedebug" and len(parts) > 2 and parts[1] != room and not parts[1].startswith("_"):
            found += [name] if any(part.startswith("_") for part in parts[2:]) else []
    return found


def test_private_modules_stay_in_their_room() -> None:
    found = {
        str(path.relative_to(PACKAGE)): names
        for path in PACKAGE.rglob("*.py")
        if (
            names := private_imports(
                path.read_text(encoding="utf-8"), path.relative_to(PACKAGE).parts[0].removesuffix(".py")
            )
        )
    }
    assert found == {}


def test_an_import_of_a_private_module_is_seen() -> None:
    source = "from tapedebug.lang._arrays import A\nfrom tapedebug.trace._x import y"
    assert private_imports(source, "trace") == ["tapedebug.lang._arrays.A"]
