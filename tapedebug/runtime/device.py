"""Devices: `"cpu"` today. Functions that take a device resolve it with `get_device`."""

from __future__ import annotations

from typing import Any

from tapedebug._errors import DeviceError
from tapedebug.runtime.config import config


class Device:
    """A place where arrays live and kernels run.

    Attributes:
        alias: The short name, `"cpu"`.
    """

    __slots__ = ("alias",)

    def __init__(self, alias: str) -> None:
        self.alias = alias

    @property
    def name(self) -> str:
        """The name that the hardware reports."""
        import platform  # here, because it starts a process

        return platform.processor() or platform.machine() or "CPU"

    @property
    def is_cpu(self) -> bool:
        """True if memory of this device is host memory."""
        return self.alias == "cpu"

    @property
    def is_cuda(self) -> bool:
        """True if this is a CUDA device (none is supported yet)."""
        return not self.is_cpu

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return self.alias == other
        return isinstance(other, Device) and self.alias == other.alias

    def __hash__(self) -> int:
        return hash(self.alias)

    def __str__(self) -> str:
        return self.alias

    def __repr__(self) -> str:
        return f'Device("{self.alias}")'


CPU = Device("cpu")


def get_device(ident: Any = None) -> Device:
    """Return the device called `ident`; None means the current one.

    Raises:
        DeviceError: There is no such device; the message names those that exist.
    """
    if ident is None or ident is CPU:
        return CPU
    if isinstance(ident, Device):
        ident = ident.alias
    if isinstance(ident, str):
        if ident == "cpu":
            return CPU
        if ident == "cuda" or ident.startswith("cuda:"):
            if config.cuda_on_cpu:
                return CPU
            raise DeviceError(
                f'there is no device {ident!r}: this version runs on "cpu" only (CUDA is planned)',
                hint='leave device= out, pass device="cpu", or set config.cuda_on_cpu = True (--cuda-on-cpu)',
            )
    raise DeviceError(
        f'there is no device {ident!r}: the devices are "cpu"',
        hint='leave device= out, or pass device="cpu"',
    )


def get_devices() -> list[Device]:
    """Return all devices of this process."""
    return [CPU]


def get_preferred_device() -> Device:
    """Return the device to use if none is given."""
    return CPU


def set_device(ident: Any) -> None:
    """Make `ident` the current device; with one device this only checks the name."""
    get_device(ident)


class ScopedDevice:
    """Context manager: `with ScopedDevice("cpu"):` makes a device the current one for a block."""

    def __init__(self, device: Any) -> None:
        self.device = get_device(device)

    def __enter__(self) -> Device:
        return self.device

    def __exit__(self, *exc: object) -> None:
        return None


def is_cpu_available() -> bool:
    """Return True: kernels can always run on the CPU."""
    return True


def is_cuda_available() -> bool:
    """Return False: kernels cannot run on a CUDA device yet."""
    return False


def get_cuda_device_count() -> int:
    """Return the number of CUDA devices that kernels can run on: none yet."""
    return 0


def synchronize() -> None:
    """Wait until all launches have finished; on the CPU they have when `launch` returns."""


def synchronize_device(device: Any = None) -> None:
    """Wait until all launches on `device` have finished."""
    get_device(device)


def init() -> None:
    """Do nothing: everything is initialised on first use. Exists for programs that call it."""
