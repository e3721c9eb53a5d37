"""Settings of the process, as attributes of `tapedebug.config`; an unknown name is an error."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

MODES = ("preserve", "warn", "error", "ignore")

LOG = logging.getLogger("tapedebug")

DEFAULTS: dict[str, Any] = {
    "asserts": True,
    "check_bounds": None,
    "compiler": "llvm",
    "cuda_on_cpu": False,
    "enable_backward": True,
    "interpreted": False,
    "kernel_cache_dir": None,
    "lanes": True,
    "log_level": logging.INFO,
    "max_unroll": 16,
    "mode": "release",
    "num_threads": None,
    "on_overwrite": "preserve",
    "print_lines": 10_000,
    "quiet": False,
    "strong_zero": False,
    "track": None,
    "vector_math": True,
    "verify_autograd_array_access": False,
    "verify_fp": False,
}
TRACKS = ("elements",)
OPEN = frozenset({"check_bounds"})
"""Settings that are True, False, or None for what depends on where a program runs."""
CHOICES: dict[str, tuple[str | None, ...]] = {
    "compiler": ("llvm", "numba"),
    "on_overwrite": MODES,
    "mode": ("release", "debug"),
    "track": (*TRACKS, None),
}


class Config:
    """The settings and their defaults.

    Attributes:
        asserts: Kernels test their `assert` statements. Without, these cost nothing.
        check_bounds: An index outside its array is an error that names it, forward and backward, in place of
            undefined behaviour. None does so in `tapedebug run`, in cells with a magic and in `diagnose`.
            Kernels and modules may say otherwise.
        compiler: What compiles kernels from now on: `"llvm"`, or `"numba"`, which takes the same generated
            text another way to the same numbers, and takes longer.
        cuda_on_cpu: A device that is called `"cuda"` or `"cuda:0"` is the CPU, for programs that name one.
        enable_backward: Whether kernels have adjoints, where they do not say so themselves.
        interpreted: Kernels, their adjoints and tangents run as plain Python, slow and open to debuggers.
        kernel_cache_dir: The folder of compiled kernels; None for `TAPEDEBUG_CACHE_DIR` or the user's cache.
        lanes: Large launches run several threads at once, each in a lane of the processor's vectors, where
            that changes nothing but the order in which sums are added.
        log_level: What is logged (logger `"tapedebug"`): a number as in `logging`, or its name.
        max_unroll: Loops over so many known iterations are unrolled.
        mode: `"release"`, or `"debug"`: with `check_bounds`.
        num_threads: How many threads a large launch uses at most; None for as many as this process has
            processors. Results do not depend on it.
        on_overwrite: What a `Tape` does, unless it is told, when a value that an adjoint needs is
            overwritten: `"preserve"`, `"warn"`, `"error"` or `"ignore"`.
        print_lines: How many lines one launch prints at most; what is beyond is counted.
        quiet: `ScopedTimer` prints nothing.
        track: What a `Tape` tracks, unless it is told: None, or `"elements"`: who last wrote and read each
            element.
        strong_zero: An adjoint (or tangent) of zero stays zero, whatever it is multiplied with: 0 · inf = 0.
        vector_math: In lanes, elementary functions are those for vectors of the C library (glibc), which err
            by up to 4 units in the last place.
        verify_autograd_array_access: Also warn (`OverwriteWarning`) in `"preserve"` mode, once for each pair
            of a reading line and an overwriting line.
        verify_fp: A launch or an adjoint that makes a NaN or an infinite number is an error that names it.
    """

    __slots__ = tuple(DEFAULTS)

    def __init__(self) -> None:
        for name, value in DEFAULTS.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, checked(name, value, f"config.{name}", "tapedebug.config"))
        if name == "log_level":
            LOG.setLevel(self.log_level)
        _changed()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(unknown(name, "tapedebug.config"))


LISTENERS: list[Callable[[], Any]] = []
"""Called after a setting has changed."""

_debuggers: dict[object, bool] = {}
"""Of each block of `debugging`, what it says."""


@contextmanager
def debugging(*, shown: bool = False) -> Iterator[None]:
    """A block in which a debugger runs the program: what settings leave open is checked.

    Args:
        shown: Whether it was shown that indices are inside, for the values that the program had.
    """
    own = object()
    try:
        _debuggers[own] = shown
        _changed()
        yield
    finally:
        try:
            _leave(own)
        except BaseException:  # Ctrl-C at this moment: what follows must not be checked for that
            _leave(own)
            raise


def _leave(block: object) -> None:
    _debuggers.pop(block, None)
    _changed()


def is_debugging() -> bool:
    """True inside a block of `debugging`."""
    return bool(_debuggers)


def is_shown() -> bool:
    """True inside a block of `debugging` of which that is said."""
    return bool(_debuggers) and [*_debuggers.values()][-1]


def _changed() -> None:
    for listener in LISTENERS:
        listener()


def checked(name: str, value: object, what: str, where: str) -> Any:
    """The value of a setting in its own type.

    Args:
        name: The setting.
        value: What somebody sets it to.
        what: What messages call it.
        where: Whose setting it is.

    Raises:
        AttributeError: There is no such setting.
        ValueError: The value is not one that it can have.
    """
    if name not in DEFAULTS:
        raise AttributeError(unknown(name, where))
    default = DEFAULTS[name]
    if name in CHOICES:
        choices = CHOICES[name]
        fits, allowed = value in choices, f"one of {', '.join(str(choice) for choice in choices)}"
    elif name == "log_level":
        value = logging.getLevelNamesMapping().get(value, value) if isinstance(value, str) else value
        fits, allowed = type(value) is int, "a level of `logging`, such as 'DEBUG' or 20"
    elif name == "kernel_cache_dir":
        fits, allowed = value is None or isinstance(value, str | os.PathLike), "a folder, or None"
    elif name == "num_threads":
        fits, allowed = value is None or (type(value) is int and value >= 1), "an integer from 1, or None"
    elif name in OPEN:
        fits = value is None or (isinstance(value, int) and value in (0, 1))
        allowed = "True, False or None"
        value = bool(value) if fits and value is not None else value
    elif isinstance(default, bool):
        fits, allowed = isinstance(value, int) and value in (0, 1), "True or False"
        value = bool(value) if fits else value
    else:
        fits, allowed = type(value) is int and value >= 0, "an integer from 0"
    if not fits:
        raise ValueError(f"{what} is {allowed}; got {value!r}")
    return value


def unknown(name: str, where: str, names: Sequence[str] = tuple(DEFAULTS)) -> str:
    """The message for a setting that there is not."""
    import difflib

    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"{where} has no setting {name!r}{hint} (settings: {', '.join(names)})"


config = Config()
