"""Warp's logging calls: messages of this engine and of programs, sent to the logger that a program sets."""

from __future__ import annotations

import logging
import sys
import warnings
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

from tapedebug._config import LOG, config

METHODS = ("debug", "info", "warning", "error")


@runtime_checkable
class Logger(Protocol):
    """The methods of a logger that `set_logger` takes."""

    def debug(self, message: str) -> None:
        """Take a message of the level `LOG_DEBUG`."""

    def info(self, message: str) -> None:
        """Take a message of the level `LOG_INFO`."""

    def warning(self, message: str, category: Any = None, stacklevel: int = 1) -> None:
        """Take a warning; `category` and `stacklevel` are those of `warnings.warn`."""

    def error(self, message: str) -> None:
        """Take a message of the level `LOG_ERROR`."""


def _show(message: Warning | str, category: type[Warning], *place: object) -> None:
    sys.stderr.write(f"Warp {category.__name__}: {message}\n")


class LoggerBasic:
    """The logger of programs that set none: standard output, and standard error for warnings and errors."""

    def debug(self, message: str) -> None:
        """Print a message."""
        sys.stdout.write(f"{message}\n")

    def info(self, message: str) -> None:
        """Print a message."""
        sys.stdout.write(f"{message}\n")

    def warning(self, message: str, category: Any = None, stacklevel: int = 1) -> None:
        """Issue a Python warning, which is shown in one line."""
        with warnings.catch_warnings():
            warnings.showwarning = _show  # type: ignore[assignment]
            warnings.warn(message, category, stacklevel=stacklevel + 1)

    def error(self, message: str) -> None:
        """Print a message to standard error."""
        sys.stderr.write(f"Warp Error: {message}\n")


class _Handler(logging.Handler):
    """Sends the messages of this engine to the logger that the program has set."""

    def emit(self, record: logging.LogRecord) -> None:
        name = record.levelname.lower()
        getattr(_logger, name if name in METHODS else "error")(record.getMessage())


_DEFAULT = LoggerBasic()
_logger: Any = _DEFAULT
_handler = _Handler()
_warnings_seen: set[Any] = set()


def set_logger(logger: Any) -> None:
    """Send messages to this logger; None restores the default.

    Raises:
        TypeError: The object lacks a method of `Logger`.
    """
    missing = [name for name in METHODS if not callable(getattr(logger, name, None))]
    if logger is not None and missing:
        raise TypeError(
            f"a logger must implement the Logger protocol ({', '.join(METHODS)}); {type(logger)!r} lacks "
            f"{', '.join(missing)}"
        )
    _use(_DEFAULT if logger is None else logger)


def _use(logger: Any) -> None:
    global _logger
    _logger = logger
    LOG.removeHandler(_handler)
    if logger is not _DEFAULT:
        LOG.addHandler(_handler)


def get_logger() -> Any:
    """Return the logger that messages are sent to."""
    return _logger


def log_debug(message: str) -> None:
    """Send a message of the level `LOG_DEBUG`, if `config.log_level` allows it."""
    if config.log_level <= logging.DEBUG:
        _logger.debug(message)


def log_info(message: str) -> None:
    """Send a message of the level `LOG_INFO`, if `config.log_level` allows it."""
    if config.log_level <= logging.INFO:
        _logger.info(message)


def log_warning(message: str, category: Any = None, stacklevel: int = 1, once: bool = False) -> None:
    """Send a warning, if `config.log_level` allows it; with `once`, and deprecations, one time only."""
    if config.log_level > logging.WARNING:
        return
    once = once or category is DeprecationWarning
    if once and (category, message) in _warnings_seen:
        return
    _logger.warning(message, category=category, stacklevel=stacklevel + 2)
    if once:
        _warnings_seen.add((category, message))


def log_error(message: str) -> None:
    """Send an error message."""
    _logger.error(message)


class ScopedLogger:
    """Context in which messages are sent to another logger."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger
        self._before: list[Any] = []

    def __enter__(self) -> ScopedLogger:
        before = _logger
        set_logger(self.logger)
        self._before.append(before)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _use(self._before.pop())


class ScopedLogLevel:
    """Context with another `config.log_level`."""

    def __init__(self, level: int) -> None:
        self.level = level
        self._before: list[int] = []

    def __enter__(self) -> ScopedLogLevel:
        self._before.append(config.log_level)
        config.log_level = self.level
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        config.log_level = self._before.pop()


NAMES: dict[str, Any] = {
    "LOG_DEBUG": logging.DEBUG,
    "LOG_ERROR": logging.ERROR,
    "LOG_INFO": logging.INFO,
    "LOG_WARNING": logging.WARNING,
    "Logger": Logger,
    "ScopedLogLevel": ScopedLogLevel,
    "ScopedLogger": ScopedLogger,
    "get_logger": get_logger,
    "set_logger": set_logger,
}
"""The public names of Warp that this module has."""
