"""Options and fixtures of all tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator

import pytest

from tests import sweeps

# Images of containers often set this. Then each of 300 processes that tests start compiles 700 modules to
# bytecode: `tapedebug run` takes 2.5 s of processor time instead of 1.2 s.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--compiler`: tests of the language run with what Numba compiles, too."""
    parser.addoption(
        "--compiler",
        choices=("llvm", "numba"),
        default="llvm",
        help="what compiles kernels (config.compiler)",
    )


@pytest.fixture(autouse=True)
def _compiler(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compile kernels as `--compiler` says; if that is not LLVM, skip tests that are marked `llvm_only`."""
    chosen = request.config.getoption("--compiler")
    if chosen == "llvm":
        yield
        return
    only = request.node.get_closest_marker("llvm_only")
    if only is not None:
        pytest.skip(only.kwargs["reason"])
    import tapedebug

    tapedebug.config.compiler = chosen
    yield


UNOPTIMIZED = {
    "autograd",
    "cli",
    "contract",
    "diagnose",
    "gallery",
    "notebook",
    "optim",
    "panel",
    "report",
    "scenarios",
    "seeds",
    "trace",
    "visualize",
    "watch",
}
"""Folders with tests of what uses kernels; machine code is tested in `compiler`, `lang` and `runtime`."""

OF_MEANING = {
    "compiler/test_calls.py",
    "compiler/test_compound.py",
    "compiler/test_control_flow.py",
    "compiler/test_generated_grad.py",
    "compiler/test_generics.py",
    "compiler/test_program_variants.py",
    "compiler/test_spellings.py",
    "compiler/test_statements.py",
    "compiler/test_static.py",
    "compiler/test_struct_programs.py",
    "compiler/test_structs.py",
    "compiler/test_tangent.py",
    "compiler/test_transforms.py",
    "compiler/test_variants.py",
    "lang/test_conventions.py",
    "runtime/test_aliases.py",
    "runtime/test_array_layouts.py",
    "runtime/test_backward_pass.py",
    "runtime/test_bounds.py",
    "runtime/test_checked_launches.py",
    "runtime/test_compound.py",
    "runtime/test_element_tracking.py",
    "runtime/test_indexed.py",
    "runtime/test_isolation.py",
    "runtime/test_launch_options.py",
    "runtime/test_memory_budget.py",
    "runtime/test_overlapping_views.py",
    "runtime/test_print_buffer.py",
    "runtime/test_random_views.py",
    "runtime/test_shared_memory.py",
    "runtime/test_strong_zero.py",
    "runtime/test_structs.py",
    "test_documentation.py",
}
"""Other files with tests of what kernels mean, which random programs test with optimization."""


@pytest.fixture(autouse=True)
def _optimization(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compile kernels without optimization in tests that are marked `unoptimized`, except in a full sweep."""
    if sweeps.FULL or request.node.get_closest_marker("unoptimized") is None:
        yield
        return
    from tapedebug.compiler import backend

    usual, backend.optimization = backend.optimization, 0
    yield
    backend.optimization = usual


YOUNG = 10_000
"""Objects after which garbage is collected, in place of 700.

A compilation makes thousands of objects that live as long as it does: collections took a tenth of the
processor time of tests that compile, and take a third of that with this number.
"""


def pytest_configure() -> None:
    """Collect garbage seldom; hear SIGINT, which many CI systems and background jobs start out ignoring.

    Tests interrupt themselves and their children, who inherit an ignored signal, but not a handler.
    """
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect no garbage meanwhile: 14,000 tests come to stay, and looking through them costs 2 CPU s."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark tests of some folders and files `unoptimized`, unless they are marked `optimized`."""
    path = item.nodeid.removeprefix("tests/").partition("::")[0]
    of_meaning = path.partition("/")[0] in UNOPTIMIZED or path in OF_MEANING
    if of_meaning and item.get_closest_marker("optimized") is None:
        item.add_marker("unoptimized")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out cases of tests that are marked `sweep`, except in a full sweep, and where a case is named."""
    if sweeps.FULL or any("[" in argument for argument in config.args):
        return
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sweep") is not None and hasattr(item, "callspec"):
            groups.setdefault(item.nodeid.partition("[")[0], []).append(item)
    dropped: set[pytest.Item] = set()
    used: dict[str, Counter[Hashable]] = defaultdict(Counter)
    for name, group in groups.items():
        mark = group[0].get_closest_marker("sweep")
        assert mark is not None
        choices = [
            frozenset((key, repr(value)) for key, value in item.callspec.params.items()) for item in group
        ]
        most = mark.kwargs.get("most")
        kept = sweeps.covering(choices, most, used[name.partition("::")[0]] if most else None)
        dropped.update(item for number, item in enumerate(group) if number not in kept)
    if dropped:
        config.hook.pytest_deselected(items=[item for item in items if item in dropped])
        items[:] = [item for item in items if item not in dropped]


@pytest.fixture(scope="module", autouse=True)
def _frozen() -> None:
    """Leave everything that exists before a module out of garbage collections.

    A session holds 16,000 tests and all that earlier modules compiled: a collection of that takes
    up to a second, and some tests collect hundreds of times. A cycle that outlives a module is not collected
    later.
    """
    gc.collect()
    gc.freeze()
