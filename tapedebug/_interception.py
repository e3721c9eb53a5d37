"""Interception of functions, by exchanging their code instead of replacing them in their modules.

So calls are seen of all who hold a function (`from warp import launch`, a closure, a `functools.partial`),
and afterwards every function is the same object with the same code as before.
"""

from __future__ import annotations

import functools
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FunctionType, TracebackType
from typing import Any

from tapedebug._traceback import frames_of_user, is_own_frame

Handler = Callable[..., Any]
"""Called in place of a function, with the original function and the arguments of the call.

What it calls is not intercepted."""

_GLOBAL = "__tapedebug_handlers__"
_numbers = itertools.count()


class Interception:
    """Context in which calls of some functions go to handlers.

    Args:
        handlers: The handler of each function, which it gets as its first argument, to call it.

    Attributes:
        seconds: The time that handlers took, without that of the functions themselves.
    """

    def __init__(self, handlers: Mapping[FunctionType, Handler]) -> None:
        self._handlers = dict(handlers)
        self.seconds = 0.0
        self._installed: list[tuple[FunctionType, CodeType, int]] = []

    def install(self) -> None:
        """Send the calls of the functions to their handlers; undone if any function cannot be intercepted."""
        try:
            for function, handler in self._handlers.items():
                self._exchange(function, handler)
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Give all functions their own code again."""
        while self._installed:
            function, code, number = self._installed[-1]
            function.__code__ = code
            handlers = function.__globals__.get(_GLOBAL, {})
            handlers.pop(number, None)
            if not handlers:
                function.__globals__.pop(_GLOBAL, None)
            self._installed.pop()

    def __enter__(self) -> Interception:
        self.install()
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def _exchange(self, function: FunctionType, handler: Handler) -> None:
        original = _copy_of(function)
        number = next(_numbers)
        handlers: dict[int, Callable[..., Any]] = function.__globals__.setdefault(_GLOBAL, {})
        handlers[number] = self._entry(original, handler)
        self._installed.append((function, function.__code__, number))
        function.__code__ = _redirection(function, number)

    def _entry(self, original: FunctionType, handler: Handler) -> Callable[..., Any]:
        """Return the function that gets the calls: the handler or, if a handler calls, the original."""

        @functools.wraps(original)
        def timed(*args: object, **kwargs: object) -> object:
            began = time.perf_counter()
            try:
                return original(*args, **kwargs)
            finally:
                self.seconds -= time.perf_counter() - began

        def entry(*args: object, **kwargs: object) -> object:
            if _thread.depth:
                return original(*args, **kwargs)
            _thread.depth += 1
            began = time.perf_counter()
            try:
                return handler(timed, *args, **kwargs)
            except BaseException as error:
                error.__traceback__ = _without_own_frames(error.__traceback__)
                raise
            finally:
                self.seconds += time.perf_counter() - began
                _thread.depth -= 1

        return entry


class _Thread(threading.local):
    """The state of one thread: calls are intercepted while `depth` is 0."""

    depth = 0


_thread = _Thread()


@contextmanager
def not_intercepted() -> Iterator[None]:
    """Context in which this thread's calls of intercepted functions go to the functions themselves."""
    _thread.depth += 1
    try:
        yield
    finally:
        _thread.depth -= 1


def _without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback of an error of others without the frames of this package in between.

    That of an error of this package stays as it is.
    """
    last = trace
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return trace if last is None or is_own_frame(last) else frames_of_user(trace)


def _copy_of(function: FunctionType) -> FunctionType:
    """Return a function with the present code of another one."""
    copy = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__ = function.__qualname__
    return copy


def _redirection(function: FunctionType, number: int) -> CodeType:
    """Return code that passes all arguments on to a handler; its frames carry the function's own name."""
    text = f"""def redirection(*args, **kwargs):
        __tracebackhide__ = True
        return {_GLOBAL}[{number}](*args, **kwargs)"""
    made: dict[str, Any] = {}
    exec(compile(text, function.__code__.co_filename, "exec"), made)
    code: CodeType = made["redirection"].__code__
    return code.replace(
        co_name=function.__name__,
        co_qualname=function.__qualname__,
        co_firstlineno=function.__code__.co_firstlineno,
    )
