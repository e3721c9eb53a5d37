"""Names of Warp about CUDA devices, streams and memory pools, on an engine that runs on the CPU.

Queries answer as Warp does on a machine without a GPU. Streams and events exist only where `"cuda"` means the
CPU (`--cuda-on-cpu`): launches run at once and in order, which is one of the orders that streams allow, so
waiting does nothing.
"""

from __future__ import annotations

import time
from enum import IntEnum
from types import TracebackType
from typing import Any

from tapedebug._errors import DeviceError
from tapedebug._unsupported import run_on_warp
from tapedebug.runtime.config import config
from tapedebug.runtime.device import CPU, Device, get_device, get_devices
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.indexed import indexedarray


class MemoryKind(IntEnum):
    """The kinds of memory of arrays; here all are `HOST`."""

    UNKNOWN = 0
    HOST = 1
    PINNED = 2
    CUDA_DEVICE = 3
    CUDA_MEMPOOL = 4
    CUDA_MANAGED = 5


class CaptureMode(IntEnum):
    """The modes of captures on CUDA devices; captures on the CPU ignore them."""

    GLOBAL = 0
    THREAD_LOCAL = 1
    RELAXED = 2


def no_cuda(name: str) -> DeviceError:
    """Return the error for a name that needs a CUDA device."""
    return DeviceError(
        f"{name} needs a CUDA device; this engine runs on the CPU",
        hint=f"use the name only `if device.is_cuda`, or --cuda-on-cpu; {run_on_warp()}",
    )


def get_cuda_device_count() -> int:
    """Return the number of CUDA devices: 0, or 1 where `"cuda"` means the CPU (`--cuda-on-cpu`)."""
    return int(config.cuda_on_cpu)


def get_cuda_devices() -> list[Device]:
    """Return the CUDA devices: none, or the CPU where `"cuda"` means it (`--cuda-on-cpu`)."""
    return [CPU] * get_cuda_device_count()


def get_cuda_device(ordinal: int | None = None) -> Device:
    """Return a CUDA device by its number.

    Raises:
        DeviceError: There is none.
    """
    return get_device(f"cuda:{ordinal or 0}")


def is_device_available(device: object) -> bool:
    """True if a device exists."""
    return device in get_devices()


def can_access(device: Any, resource: object) -> bool:
    """Return True: all arrays are in the memory of the CPU.

    Raises:
        TypeError: `resource` is no array.
    """
    get_device(device)
    if not isinstance(resource, array | indexedarray):
        raise TypeError(f"can_access() takes an array; got {resource!r}")
    return True


def get_cuda_supported_archs() -> list[int]:
    """Return the CUDA architectures that kernels can be compiled for: none."""
    return []


def get_cuda_driver_version() -> None:
    """Return None: there is no CUDA driver."""


def get_cuda_toolkit_version() -> None:
    """Return None: there is no CUDA toolkit."""


def is_mempool_supported(device: Any) -> bool:
    """Return False: memory pools are those of CUDA devices."""
    get_device(device)
    return False


is_mempool_enabled = is_mempool_supported


def set_mempool_enabled(device: Any, enable: bool) -> None:
    """Refuse to turn on the memory pool of a device, which has none; turning it off does nothing.

    Raises:
        DeviceError: `enable` is true.
    """
    get_device(device)
    if enable and not config.cuda_on_cpu:
        raise no_cuda("set_mempool_enabled(…, True)")


def is_peer_access_supported(target_device: Any, peer_device: Any) -> bool:
    """Return False: there are no CUDA devices that could access each other."""
    get_device(target_device)
    get_device(peer_device)
    return False


is_peer_access_enabled = is_peer_access_supported
is_mempool_access_supported = is_peer_access_supported
is_mempool_access_enabled = is_peer_access_supported


def set_peer_access_enabled(target_device: Any, peer_device: Any, enable: bool) -> None:
    """Refuse to let CUDA devices access each other, as there are none; turning it off does nothing.

    Raises:
        DeviceError: `enable` is true.
    """
    get_device(target_device)
    get_device(peer_device)
    if enable and not config.cuda_on_cpu:
        raise no_cuda("access between devices")


set_mempool_access_enabled = set_peer_access_enabled


def is_conditional_graph_supported() -> bool:
    """Return False: branches and loops in graphs are decided on CUDA devices."""
    return False


class Event:
    """A point in a stream: the time at which it was recorded."""

    def __init__(self, device: Any = None, enable_timing: bool = False, interprocess: bool = False) -> None:
        self.device = _cuda_device("Event", device)
        self.enable_timing = enable_timing
        self.recorded = 0.0

    @property
    def is_complete(self) -> bool:
        """Return True: launches have finished when `launch` returns."""
        return True


class Stream:
    """A queue of launches of a CUDA device, where `"cuda"` means the CPU: launches run at once, in order."""

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self.device = _cuda_device("Stream", device)
        self.priority = priority
        self.is_capturing = False

    @property
    def is_complete(self) -> bool:
        """Return True: launches have finished when `launch` returns."""
        return True

    def record_event(self, event: Event | None = None, external: bool = False) -> Event:
        """Record an event, by default a new one, and return it."""
        event = event or Event(self.device)
        event.recorded = time.perf_counter()
        return event

    def wait_event(self, event: Event, external: bool = False) -> None:
        """Wait for an event: its launches have finished."""

    def wait_stream(self, other_stream: Stream, event: Event | None = None, external: bool = False) -> None:
        """Wait for another stream: its launches have finished."""


def _cuda_device(name: str, device: Any) -> Device:
    """Return the device of a stream or an event.

    Raises:
        DeviceError: There is no CUDA device.
    """
    if not config.cuda_on_cpu:
        raise no_cuda(name)
    return get_device(device)


_streams: dict[str, Stream] = {}


def get_stream(device: Any = None) -> Stream:
    """Return the current stream of a device.

    Raises:
        DeviceError: The device is no CUDA device.
    """
    alias = get_device(device).alias
    if alias not in _streams:
        _streams[alias] = Stream(device)
    return _streams[alias]


def set_stream(stream: Stream, device: Any = None, sync: bool = False) -> None:
    """Make a stream the current one of its device."""
    _streams[_cuda_device("set_stream", device).alias] = stream


def record_event(event: Event | None = None, external: bool = False) -> Event:
    """Record an event in the current stream, and return it."""
    return get_stream().record_event(event)


def wait_event(event: Event, external: bool = False) -> None:
    """Wait for an event: its launches have finished."""


def wait_stream(other_stream: Stream, event: Event | None = None, external: bool = False) -> None:
    """Wait for another stream: its launches have finished."""


def synchronize_stream(stream_or_device: Any = None) -> None:
    """Wait for a stream: its launches have finished."""


def synchronize_event(event: Event) -> None:
    """Wait for an event: its launches have finished."""


def get_event_elapsed_time(start_event: Event, end_event: Event, synchronize: bool = True) -> float:
    """Return the time between two recorded events in milliseconds."""
    return (end_event.recorded - start_event.recorded) * 1000


class ScopedStream:
    """Context in which a stream is the current one of its device; None changes nothing."""

    def __init__(self, stream: Stream | None, sync_enter: bool = True, sync_exit: bool = False) -> None:
        self.stream = stream
        self._before: list[Stream] = []

    def __enter__(self) -> Stream | None:
        if self.stream is not None:
            self._before.append(get_stream(self.stream.device))
            set_stream(self.stream, self.stream.device)
        return self.stream

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.stream is not None:
            set_stream(self._before.pop(), self.stream.device)


class _ScopedSetting:
    """Context in which a setting of CUDA devices would be another."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class ScopedMempool(_ScopedSetting):
    """Context in which the memory pool of a device is on or off; there is none that could be on."""

    def __init__(self, device: Any, enable: bool) -> None:
        set_mempool_enabled(device, enable)


class ScopedPeerAccess(_ScopedSetting):
    """Context in which CUDA devices may access each other; there are none."""

    def __init__(self, target_device: Any, peer_device: Any, enable: bool) -> None:
        set_peer_access_enabled(target_device, peer_device, enable)


class ScopedMempoolAccess(ScopedPeerAccess):
    """Context in which CUDA devices may access each other's memory pools; there are none."""


def set_device_allocator(device: Any, allocator: object) -> None:
    """Refuse to allocate by other functions: this engine has its own memory.

    Raises:
        DeviceError: Always, but for `allocator` None.
    """
    get_device(device)
    if allocator is not None:
        raise no_cuda("an allocator of the program's own")


_PRIVATE = ("no_cuda",)
NAMES: dict[str, Any] = {
    name: value
    for name, value in list(globals().items())
    if not name.startswith("_") and name not in _PRIVATE and getattr(value, "__module__", "") == __name__
}
"""The public names of Warp that this module has."""
