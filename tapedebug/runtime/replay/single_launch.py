"""Run one launch that is on no tape as shadows run it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapedebug.runtime.launch.adjoint_launch import plan_for
from tapedebug.runtime.launch.launch import kernel_for, launch_dims, resolve
from tapedebug.runtime.launch.python_operation import PythonOperation, PythonPlan
from tapedebug.runtime.memory.buffer import Buffer
from tapedebug.runtime.tape.buffer_versions import BufferVersions, ExternalInput, RangeState, SavedValue
from tapedebug.runtime.tape.record import Record, call_site
from tapedebug.runtime.tape.tracker import Tracker


class SingleLaunch(Tracker):
    """The tracker of a launch that does not run: nothing is overwritten, so nothing is copied.

    Shadows start from the content of memory when they are made.
    """

    def __init__(self) -> None:
        super().__init__("preserve", dry=True)

    def _keep_need(self, need: SavedValue, buffer: Buffer, live: ExternalInput | None) -> None:
        pass

    def _keep_livein(self, live: ExternalInput, buffer: Buffer, need: SavedValue | None = None) -> None:
        pass

    def _guard(self, state: RangeState, ledger: BufferVersions) -> None:
        pass


def one_launch(
    kernel: Any,
    dim: Any,
    args: Sequence[Any],
    *,
    active: frozenset[int] | None = None,
    flat: bool = False,
) -> SingleLaunch:
    """Return a launch from which any number of shadows can be made; see `Shadow.for_launch`.

    Raises:
        LaunchError: The arguments do not fit the kernel.
    """
    if not flat:
        kernel = kernel_for(kernel, dim, tuple(args))
    plan, checked = resolve(kernel, tuple(args), flat=flat)
    if active is not None:
        plan = plan_for(plan.kernel, checked, plan, active)
    sizes, threads, slots = launch_dims(kernel, dim)
    return _recorded_alone(
        Record(0, plan, checked, sizes, threads, plan.packed(slots, checked), call_site(), None)
    )


def one_python(operation: PythonOperation) -> SingleLaunch:
    """Return a Python operation as a launch from which any number of shadows can be made."""
    return _recorded_alone(Record(0, PythonPlan(operation), operation.args, (), 0, b"", call_site(), None))


def _recorded_alone(record: Record) -> SingleLaunch:
    tracker = SingleLaunch()
    tracker.before(record)
    tracker.records.append(record)
    return tracker
