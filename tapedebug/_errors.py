"""Errors that users see: kernel or array, source line with a caret, values, and a hint."""

from __future__ import annotations

from collections.abc import Sequence

from tapedebug._source import BETWEEN, Span, call_site, display_file, site_span
from tapedebug._traceback import frames_of_user


class TapedebugError(Exception):
    """Base of all errors of tapedebug.

    Args:
        message: The problem, with the values that were seen.
        span: The location in the user's source, shown with a caret.
        hint: The suggested change, in one sentence.
        notes: Further lines, such as the call chain.
    """

    def __init__(
        self,
        message: str,
        *,
        span: Span | None = None,
        hint: str | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.message = message
        self.span = span or self._default_span()
        self.hint = hint
        self.notes = tuple(notes)
        super().__init__(str(self))

    def _default_span(self) -> Span | None:
        """Return the location for an error that is raised without one."""
        return None

    def __str__(self) -> str:
        parts = [self.message]
        if self.span is not None:
            parts.append(f"  --> {display_file(self.span.file)}:{self.span.line}, in {self.span.function}")
            if self.span.text:  # code run by `exec` has no source
                parts.extend(f"   | {line}" for line in self.span.caret().splitlines())
        parts.extend(f"  = note: {note}" for note in self.notes)
        if self.hint:
            parts.append(f"  = hint: {self.hint}")
        return "\n".join(parts)

    def _render_traceback_(self) -> list[str]:
        """Return the traceback that IPython displays, of the user's code alone unless `%xmode` is Verbose."""
        from IPython.core.getipython import get_ipython

        shown = get_ipython().InteractiveTB
        trace = self.__traceback__ if shown.mode == "Verbose" else frames_of_user(self.__traceback__)
        lines: list[str] = shown.structured_traceback(type(self), self, trace)
        return lines


class ArgumentError(TapedebugError, TypeError):
    """A function for tapes, checks or reports got an argument of a type that it does not take."""


class KernelError(TapedebugError, RuntimeError):
    """Base of the errors of kernels that cannot be compiled."""


class KernelSyntaxError(KernelError):
    """A kernel uses a construct that the kernel language does not support."""


class KernelTypeError(KernelError, TypeError):
    """Types in a kernel do not match."""


class KernelNameError(KernelError, NameError):
    """A kernel uses a name that is undefined or denotes an object that kernels cannot use."""


class ComponentError(TapedebugError, TypeError, ValueError):
    """The components of a vector, matrix, quaternion or transform outside kernels do not fit its type."""


class ComponentKeyError(TapedebugError, KeyError, IndexError):
    """A vector or matrix outside kernels is indexed by something that denotes none of its components."""


class OperandError(TapedebugError, TypeError, RuntimeError):
    """An operation of kernels that is called outside of them got operands that do not fit."""


class LaunchError(TapedebugError, RuntimeError):
    """A launch does not match its kernel in number, type, shape or device of the arguments.

    It shows the call in the user's program: `span` is the place of the argument, by default that of the call.
    """

    def _default_span(self) -> Span:
        return site_span(call_site(between=_CALLERS))


_CALLERS = BETWEEN | {"torch", "jax"}
"""Packages that call functions of this one, for the user."""


class LaunchSizeError(LaunchError, ValueError):
    """The `dim` of a launch is not one to four sizes, or one of them is negative or too large."""


class KernelAssertionError(TapedebugError, AssertionError):
    """An `assert` of a kernel failed in one of its threads."""


class KernelRaisedError(TapedebugError, RuntimeError):
    """A function that Numba compiled raised an exception in a thread of a kernel."""


class BoundsError(TapedebugError, IndexError):
    """A thread of a kernel indexed outside an array (`config.check_bounds`)."""


class NonFiniteError(TapedebugError, ArithmeticError):
    """A launch or an adjoint produced a NaN or an infinite number (`config.verify_fp`)."""


class TapeError(TapedebugError, RuntimeError):
    """A tape is used in a way that cannot give a gradient."""


class OverwriteError(TapeError):
    """A launch would overwrite values that a recorded adjoint still needs (`on_overwrite="error"`)."""


class ArrayError(TapedebugError, ValueError):
    """An array cannot be created, viewed, copied or assigned as requested."""


class DeviceError(TapedebugError, ValueError):
    """A device that does not exist here, or that this operation does not support."""


class GradcheckError(TapedebugError, ValueError):
    """A gradient check failed."""


class TapedebugWarning(UserWarning):
    """Base of all warnings of tapedebug."""


class OverwriteWarning(TapedebugWarning):
    """A needed value was overwritten on a tape with `on_overwrite="warn"`."""
