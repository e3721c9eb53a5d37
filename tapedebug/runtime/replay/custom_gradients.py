"""Custom gradients of the functions that kernels call: a capability of the contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tapedebug._dataclass import dataclass
from tapedebug.compiler.function import Function
from tapedebug.compiler.ir import NATIVE, ops_of
from tapedebug.compiler.passes.custom import calls_with_gradient, own_adjoints
from tapedebug.contract import BypassedGradient, CheckedCall, CustomCall, CustomGradients, NativeCall, Values
from tapedebug.runtime.capabilities import OPERATION
from tapedebug.runtime.replay.custom_gradient_calls import CheckedThread
from tapedebug.runtime.replay.thread_interpreter import thread_of
from tapedebug.runtime.tape.record import Record


@dataclass(frozen=True, slots=True)
class RecordCustomGradients:
    """The capability `contract.CustomGradients` of a launch."""

    record: Record

    @property
    def _kernel(self) -> Any:
        return self.record.kernel

    def calls(self) -> list[CustomCall]:
        """Return the calls of functions with a custom gradient or replay, native ones too."""
        if not self._kernel.has_custom_calls:
            return []
        return [
            CustomCall(node.name, node.span, node.function, node.gradient is not None)
            for node in own_adjoints(self._kernel._lowered.custom.body)
        ]

    def native_calls(self) -> list[NativeCall]:
        """Return the calls of native functions, except those that Numba compiled, which we differentiate."""
        if not self._kernel.has_native_calls:
            return []
        return [
            NativeCall(op.data[0].native.name, op.span)
            for op in ops_of(self._kernel._lowered.function.body)
            if op.kind in NATIVE and not op.data[0].native.is_numba
        ]

    def bypassed(self) -> Iterator[BypassedGradient]:
        """Yield the gradients defined in the kernel's module that its adjoint never runs."""
        kernel = self._kernel
        known = getattr(kernel.python, "__globals__", {})
        gradients = [value for value in known.values() if isinstance(value, Function) and value.companion_of]
        if not gradients:
            return  # and nothing is lowered
        run = {node.function for node in calls_with_gradient(kernel._lowered.custom.body)}
        for gradient in gradients:
            function = gradient.companion_of
            if function is None or function.gradient is not gradient or function in run:
                continue
            now = known.get(function.name)
            if not isinstance(now, Function):
                continue
            used = next((v for v in now.overloads if kernel in v.users and v.gradient is None), None)
            if used is not None and used is not function:
                yield BypassedGradient(gradient, function, used, function not in used.overloads)

    def check(self, thread: int, values: Mapping[int, Values], /) -> list[CheckedCall]:
        """Return the calls of one thread, each compared with finite differences.

        Raises:
            CannotFollow: The thread cannot be interpreted.
        """
        found = checked_thread(self.record, thread, values)
        found.run()
        return found.checked


def checked_thread(record: Record, index: int, values: Mapping[int, Values]) -> CheckedThread:
    """Return a thread of a launch, not yet run, whose calls are checked."""
    plain = thread_of(record, index, values, record.plan.kernel._lowered.custom)
    return CheckedThread(plain.function, index, plain.dim, plain.arrays, plain.scalars, plain.active)


OPERATION[CustomGradients] = lambda record: None if record.kernel is None else RecordCustomGradients(record)
