"""Entries that are compiled on their first call, such as scalar ones where all threads run in vectors."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from tapedebug.compiler.objects import ENTRY, Entry

if TYPE_CHECKING:
    from tapedebug.compiler.diagnostics import Diagnostic
    from tapedebug.compiler.variant import Variant


class LazyEntry(Entry):
    """An entry that is compiled when it is called, or when something is asked of it; from then on an `Entry`.

    Attributes:
        kernel: Whose it is: where that is compiled anew, what it was before.
        variant: Which of its programs.
    """

    _flags_, _argtypes_, _restype_ = ENTRY._flags_, ENTRY._argtypes_, None

    def __new__(cls, kernel: Any, variant: Variant) -> LazyEntry:
        """Make a function that points nowhere yet."""
        made: LazyEntry = super().__new__(cls, 0)
        return made

    def __init__(self, kernel: Any, variant: Variant) -> None:
        self.kernel, self.variant = kernel, variant

    @property
    def address(self) -> int:  # type: ignore[override]
        """The address of the machine code."""
        return self.settled().address

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:  # type: ignore[override]
        """The diagnostics that the code can emit, by number."""
        return self.settled().diagnostics

    def __call__(self, lo: int, hi: int, args: int) -> None:
        """Run threads, as the entry that it becomes."""
        self.settled()(lo, hi, args)

    def settled(self) -> Entry:
        """The same object, compiled."""
        if type(self) is LazyEntry:  # else another thread was first
            made = self.kernel.compiled(self.variant)
            ctypes.c_void_p.from_buffer(self).value = made.address
            # The class last: until then whoever calls it comes here.
            self.__dict__.update(vars(made))
            self.__class__ = Entry
            self.__dict__.pop("kernel", None)
            self.__dict__.pop("variant", None)
        return self
