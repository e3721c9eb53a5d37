"""One picture of the gallery: a kernel or function, its values, the tolerances, the right verdict.

The modules of pictures import `tapedebug as wp` and nothing else of it. `pictures("warp")` runs the same text
with Warp under that name, so that both engines check the same kernels.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
WRONG_ROOMS = ("wrong_terms", "wrong_arrays", "wrong_compound", "wrong_tiny")
OURS = "import tapedebug as wp"
RIGHT_ROOMS = ("right_values", "right_kinks", "right_programs", "right_compound")


@dataclass(frozen=True)
class Values:
    """An array to be made, anew for each check."""

    values: Any
    dtype: Any = float
    grad: bool = True

    def made(self, wp: Any) -> Any:
        """The array, of the engine `wp`."""
        return wp.array(np.asarray(self.values), dtype=self.dtype, requires_grad=self.grad, device="cpu")


@dataclass(frozen=True)
class Made:
    """An argument that the module makes itself: a struct, an array of an unusual kind."""

    make: Callable[[], Any]

    def made(self, wp: Any) -> Any:
        """The argument."""
        return self.make()


Place = tuple[str, str, tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Picture:
    """One adjoint, wrong or right.

    Attributes:
        name: In the table, and of the test.
        kernel: A kernel, or a Python function that launches some (then `outputs` is empty).
        inputs, outputs: `Values`, `Made`, or numbers.
        verdict: What a check must say.
        dim: Of the launch; as many threads as the first input has elements where None.
        atol, rtol: At which tolerances.
        at: Where a failure must point: input, output, the output's element and component, and the input's.
        says: What the failing pair's message contains.
        signature: The name of what the wrong entries have in common.
        note: What the coverage must say.
        options: Further options of `gradcheck`.
    """

    name: str
    kernel: Any
    inputs: Sequence[Any]
    outputs: Sequence[Any] = ()
    verdict: str = "AGREE"
    dim: Any = None
    atol: float = 1e-3
    rtol: float = 1e-2
    at: Place | None = None
    says: str = ""
    signature: str | None = None
    note: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def is_kernel(self) -> bool:
        """True if it is a kernel, not a Python function."""
        return not inspect.isfunction(self.kernel)

    def arguments(self, wp: Any) -> dict[str, Any]:
        """The arguments of `gradcheck`, with new arrays."""
        inputs, outputs = (
            [a.made(wp) if hasattr(a, "made") else a for a in side] for side in (self.inputs, self.outputs)
        )
        if not self.is_kernel:
            return {"inputs": inputs}
        dim = self.dim if self.dim is not None else inputs[0].shape[0]
        return {"dim": dim, "inputs": inputs, "outputs": outputs}

    @property
    def tolerances(self) -> dict[str, float]:
        """Return the tolerances as options."""
        return {"atol": self.atol, "rtol": self.rtol}


@functools.cache
def pictures(package: str = "tapedebug") -> tuple[dict[str, Picture], dict[str, Picture]]:
    """All wrong and all right ones by name, of the engine `package`."""
    found: list[dict[str, Picture]] = []
    for rooms in (WRONG_ROOMS, RIGHT_ROOMS):
        every = [picture for room in rooms for picture in _module(room, package).PICTURES]
        by_name = {picture.name: picture for picture in every}
        assert len(by_name) == len(every), "two pictures have one name"
        found.append(by_name)
    return found[0], found[1]


def _module(name: str, package: str) -> Any:
    if package == "tapedebug":
        return importlib.import_module(f"tests.gallery.{name}")
    text = (HERE / f"{name}.py").read_text(encoding="utf-8").replace(OURS, f"import {package} as wp")
    # Each kernel is compiled alone, so that one which the package does not take spoils no other.
    return _loaded(f"gallery_{name}_{package}", text.replace("@wp.kernel\n", '@wp.kernel(module="unique")\n'))


def _loaded(stem: str, text: str) -> Any:
    path = Path(_folder().name) / f"{stem}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@functools.cache
def derived(room: str) -> dict[str, Picture]:
    """The pictures of a room, whose functions have no gradients of their own: the engine derives them."""
    text = (HERE / f"{room}.py").read_text(encoding="utf-8")
    text = re.sub(r"@wp.func_grad\(.*\)", "@wp.func", text).replace("@wp.func_replay(", "@unused(")
    text = text.replace(OURS, f"{OURS}\n\nunused = lambda of: lambda function: function\n")
    return {picture.name: picture for picture in _loaded(f"derived_{room}", text).PICTURES}


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tapedebug-gallery-")
