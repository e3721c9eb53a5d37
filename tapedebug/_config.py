"""Process-wide settings, as attributes of `tapedebug.config`; an unknown name is an error."""

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
    "kernel_cache_size": None,
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
"""Settings that are True, False, or None for a default that depends on where the program runs."""
CHOICES: dict[str, tuple[str | None, ...]] = {
    "compiler": ("llvm", "numba"),
    "on_overwrite": MODES,
    "mode": ("release", "debug"),
    "track": (*TRACKS, None),
}


class Config:
    """The settings and their defaults.

    Attributes:
        asserts: Evaluate the `assert` statements of kernels. If False, they cost nothing.
        check_bounds: Raise an error that names an index outside its array, forward and backward, in place of
            undefined behaviour. None does so in `tapedebug run`, in cells with a magic and in `diagnose`.
            Kernels and modules may override it.
        compiler: The compiler of kernels from now on: `"llvm"`, or `"numba"`, which compiles the same
            generated code by another route to the same numbers, and takes longer.
        cuda_on_cpu: Treat devices called `"cuda"` or `"cuda:0"` as the CPU, for programs that name one.
        enable_backward: Generate adjoints for kernels that do not set this themselves.
        interpreted: Run kernels, their adjoints and tangents as plain Python: slow, but open to debuggers.
        kernel_cache_dir: The folder of compiled kernels; None for `TAPEDEBUG_CACHE_DIR` or the user's cache.
        kernel_cache_size: The largest size of that folder on disk, in MiB: the least recently used files are
            removed. 0 is no limit; None is `TAPEDEBUG_CACHE_SIZE`, or 1024.
        lanes: Run several threads of large launches at once, one in each vector lane, if that changes nothing
            but the order of summation.
        log_level: The level of the logger `"tapedebug"`: a number as in `logging`, or its name.
        max_unroll: Unroll loops of up to this many iterations if the number is known.
        mode: `"release"`, or `"debug"`: with `check_bounds`.
        num_threads: The largest number of threads of a launch; None for as many as this process has
            processors. Results do not depend on it.
        on_overwrite: The default action of a `Tape` when a value that an adjoint needs is overwritten:
            `"preserve"`, `"warn"`, `"error"` or `"ignore"`.
        print_lines: The largest number of lines that one launch prints; further lines are only counted.
        quiet: Silence `ScopedTimer`.
        track: The default of `Tape(track=…)`: None, or `"elements"` to record the last write and read of each
            element.
        strong_zero: An adjoint (or tangent) of zero stays zero, whatever it is multiplied by: 0 · inf = 0.
        vector_math: Use the vector versions of elementary functions of the C library (glibc) in vector lanes;
            their error is up to 4 units in the last place.
        verify_autograd_array_access: Also warn (`OverwriteWarning`) in `"preserve"` mode, once for each pair
            of a reading line and an overwriting line.
        verify_fp: Raise an error that names the launch or adjoint that produced a NaN or an infinite number.
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
"""Functions that are called after a setting has changed."""

_debuggers: dict[object, bool] = {}
"""The value of `shown` for each open block of `debugging`."""


@contextmanager
def debugging(*, shown: bool = False) -> Iterator[None]:
    """Context in which a debugger runs the program: checks that the settings leave open (None) are on.

    Args:
        shown: Indices have been shown to be within bounds for the values of the program.
    """
    own = object()
    try:
        _debuggers[own] = shown
        _changed()
        yield
    finally:
        try:
            _leave(own)
        except BaseException:  # Ctrl-C at this moment: later launches must not be checked because of it
            _leave(own)
            raise


def _leave(block: object) -> None:
    _debuggers.pop(block, None)
    _changed()


def is_debugging() -> bool:
    """True inside a block of `debugging`."""
    return bool(_debuggers)


def is_shown() -> bool:
    """True inside a block of `debugging` that was opened with `shown`."""
    return bool(_debuggers) and [*_debuggers.values()][-1]


def _changed() -> None:
    for listener in LISTENERS:
        listener()


def checked(name: str, value: object, what: str, where: str) -> Any:
    """Return the value of a setting, converted to its type.

    Args:
        name: The setting.
        value: The new value.
        what: The name of the setting in messages.
        where: The owner of the setting in messages.

    Raises:
        AttributeError: There is no such setting.
        ValueError: The setting cannot have this value.
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
    elif name == "kernel_cache_size":
        fits, allowed = value is None or (type(value) is int and value >= 0), "a number of MiB, or None"
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
    """Return the message for an unknown setting."""
    import difflib

    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"{where} has no setting {name!r}{hint} (settings: {', '.join(names)})"


config = Config()
