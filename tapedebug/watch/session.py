"""`watch_warp`: the context in which the launches of NVIDIA Warp are recorded."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tapedebug._errors import TapedebugError
from tapedebug._gc_pause import rare_full_collections
from tapedebug._interception import Interception
from tapedebug.watch import hooks
from tapedebug.watch.recorder import NotCovered, Recording, handlers
from tapedebug.watch.tape import WatchedTape

OLDEST, NEWEST = "1.10", "1.19"
"""The releases of Warp that are tested."""

MEMORY_BUDGET = 1 << 30
"""The default number of bytes for copies of arrays."""


class Watched:
    """The tapes that Warp recorded while it was watched.

    Attributes:
        engine_version: The version of Warp.
    """

    def __init__(self, active: _Active) -> None:
        self._active, self._recording = active, active.recording
        self.engine_version = str(hooks.look_up("warp:config.version"))

    @property
    def tapes(self) -> list[WatchedTape]:
        """The recorded tapes, in order; of many with the same launches the first two and the last two."""
        kept = (item.tape for item in self._recording.retention.tapes)
        return [tape for tape in kept if isinstance(tape, WatchedTape)]

    @property
    def not_covered(self) -> list[NotCovered]:
        """The parts of the program that were not recorded, each once."""
        return list(self._recording.not_covered)

    @property
    def seconds(self) -> float:
        """The processor time that watching took, in seconds; that of Warp's own functions does not count."""
        return self._active.seconds

    def __repr__(self) -> str:
        tapes = self.tapes
        launches = sum(len(tape.operations) for tape in tapes)
        return f"<NVIDIA Warp {self.engine_version}, watched: {len(tapes)} tapes, {launches} operations>"


class _Active:
    """The interception that is installed, and the number of contexts that use it."""

    def __init__(self, memory_budget: int | None) -> None:
        self.recording = Recording(memory_budget)
        self.interception = Interception(hooks.warp_functions(handlers(self.recording)))
        self.users = 0
        self._settings = ExitStack()
        self._began = time.perf_counter(), time.process_time()

    @property
    def seconds(self) -> float:
        """The processor time that watching took: its part of the time that has passed."""
        passed, used = time.perf_counter() - self._began[0], time.process_time() - self._began[1]
        return self.interception.seconds * min(1.0, used / max(1e-9, passed))

    def __enter__(self) -> None:
        self.users += 1
        try:
            if self.users == 1:
                self._settings.enter_context(rare_full_collections())
                self.interception.install()
        except BaseException:
            self._leave()
            raise

    def __exit__(self, *error: object) -> None:
        self._leave()

    def _leave(self) -> None:
        """End the use by one context; an interrupt is raised only when Warp is as it was."""
        global _active
        interrupted = None
        while True:
            try:
                if self.users == 1:
                    _active = None
                    self.interception.remove()
                    self._settings.close()
                self.users -= 1
                break
            except KeyboardInterrupt as error:
                interrupted = error
        if interrupted is not None:
            raise interrupted


_active: _Active | None = None


@contextmanager
def watch_warp(memory_budget: int | None = MEMORY_BUDGET) -> Iterator[Watched]:
    """Record what NVIDIA Warp runs inside the block, without a change of the program.

    Warp runs the program as always. Every launch, copy and fill that happens while a `wp.Tape` records is
    stored with the values that it found. Each tape of `watched.tapes` can be diagnosed:
    `tapedebug.diagnose(tape)`; `trace`, `report`, `TapeDebugger` and `gradcheck_tape` take it as well. When
    the block ends, Warp is as it was before. Blocks may be nested: the inner one shares what is recorded.

    Args:
        memory_budget: The number of bytes for copies of arrays as tapes found them; None for no limit. Beyond
            it, only ranges that the program is about to overwrite are copied.

    Yields:
        A `Watched` with `tapes`, and `not_covered` for what could not be recorded.

    Raises:
        TapedebugError: NVIDIA Warp is not installed, or its release lacks functions that watching needs.
    """
    global _active
    if _active is None:
        _check_installed()
        _active = _Active(memory_budget)
    active = _active
    with active:
        yield Watched(active)


def _check_installed() -> None:
    """Raise an error if there is no Warp that can be watched.

    Raises:
        TapedebugError: See `watch_warp`.
    """
    warp = hooks.installed_warp()
    if warp is None:
        raise TapedebugError("watch_warp: NVIDIA Warp is not installed", hint="pip install warp-lang")
    lacking = hooks.missing()
    if lacking:
        raise TapedebugError(
            f"watch_warp: NVIDIA Warp {warp.config.version} lacks {', '.join(lacking)}",
            hint=f"install a release from {OLDEST} to {NEWEST}",
        )
