"""`ScopedTimer`: time a block, print the time as Warp does, and group its launches on the tape."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from tapedebug.runtime.config import config
from tapedebug.runtime.device import synchronize as _synchronize
from tapedebug.runtime.state import state

if TYPE_CHECKING:
    from tapedebug.runtime.tape.tape import Tape


class ScopedTimer:
    """Context manager that times its block and registers a scope on the active tape.

    Args:
        name: The printed name, also that of the scope.
        active: If False, nothing is timed or printed; the scope is still registered.
        print: Print `NAME took … ms` at the end.
        detailed: Profile the Python code too, and print the profile.
        dict: A dictionary of lists; the milliseconds are appended to `dict[name]`.
        use_nvtx: Accepted; there is no GPU profiler on the CPU.
        color: Accepted, for `use_nvtx`.
        synchronize: Wait for the device before each reading of the clock.
        cuda_filter: Accepted; there is no GPU activity to time on the CPU.
        report_func: Called with an empty list (of GPU activities) and the indentation, in place of printing.
        skip_tape: Register no scope.

    Attributes:
        elapsed: Milliseconds that the block took.
        extra_msg: Text added to the printed line.
    """

    _indent = -1

    def __init__(
        self,
        name: str,
        active: bool = True,
        print: bool = True,
        detailed: bool = False,
        dict: builtins.dict[str, list[float]] | None = None,
        use_nvtx: bool = False,
        color: int | str = "rapids",
        synchronize: bool = False,
        cuda_filter: int = 0,
        report_func: Callable[[list[Any], str], None] | None = None,
        skip_tape: bool = False,
    ) -> None:
        self.name = name
        self.active = active
        self.print = print
        self.detailed = detailed
        self.dict = dict
        self.report_func = report_func
        self.synchronize = synchronize
        self.skip_tape = skip_tape
        self.elapsed = 0.0
        self.extra_msg = ""
        self._tape: Tape | None = None
        self._start = 0.0
        self._profile: Any = None
        if dict is not None:
            dict.setdefault(name, [])

    def __enter__(self) -> ScopedTimer:
        if self.active:
            if self.synchronize:
                _synchronize()
            ScopedTimer._indent += self.print
            if self.detailed:
                import cProfile

                self._profile = cProfile.Profile()
                self._profile.enable()
            self._start = perf_counter()
        self._tape = None if self.skip_tape else state.tape
        if self._tape is not None:
            self._tape.record_scope_begin(self.name)
        return self

    def __exit__(self, *exc: object) -> None:
        # The tape closes its open scopes itself if its block ends inside this one.
        tape, self._tape = self._tape, None
        if tape is not None and tape is state.tape and tape.scope is not None:
            tape.record_scope_end()
        if not self.active:
            return
        if self.synchronize:
            _synchronize()
        self.elapsed = (perf_counter() - self._start) * 1e3
        if self._profile is not None:
            self._profile.disable()
        if self.dict is not None:
            self.dict[self.name].append(self.elapsed)
        if self.print:
            if not config.quiet:
                self._report("    " * ScopedTimer._indent)
            ScopedTimer._indent -= 1

    def _report(self, indent: str) -> None:
        if self.report_func is not None:
            self.report_func([], indent)
            return
        if self._profile is not None:
            self._profile.print_stats(sort="tottime")
        extra = f" {self.extra_msg}" if self.extra_msg else ""
        builtins.print(f"{indent}{self.name} took {self.elapsed:.2f} ms{extra}")
