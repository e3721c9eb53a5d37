"""Calls of LLVM's masked loads, stores, gathers and scatters, in the syntax of the LLVM that parses them.

From LLVM 22 (llvmlite 0.50) on, the alignment is an attribute of the address. Before, it was an argument
between the address and the mask.
"""

from __future__ import annotations

from tapedebug._dataclass import dataclass
from tapedebug.lang.lowering import BITS, FLOATS, alignment, llvm_type

ALIGN_IS_ATTRIBUTE = 22
"""The first major version of LLVM whose masked intrinsics take the alignment as an attribute."""


@dataclass(frozen=True, slots=True)
class MaskedAccess:
    """Loads and stores of one vector, of which only the lanes that a mask selects touch memory.

    Attributes:
        kind: The scalar type of a lane in memory, such as "f32".
        width: The number of lanes.
        llvm: The major version of LLVM that parses the text.
    """

    kind: str
    width: int
    llvm: int

    @property
    def type(self) -> str:
        """The type of the vector."""
        return f"<{self.width} x {llvm_type(self.kind)}>"

    def load(self, place: str, mask: str) -> str:
        """Return a load of consecutive elements from an address; other lanes are 0."""
        return f"call {self.type} @llvm.masked.load.{self._suffix}.p0({self._from('ptr', place, mask)})"

    def store(self, value: str, place: str, mask: str) -> str:
        """Return a store to consecutive elements from an address on."""
        return f"call void @llvm.masked.store.{self._suffix}.p0({self._to('ptr', value, place, mask)})"

    def gather(self, places: str, mask: str) -> str:
        """Return a load with an address for each lane; other lanes are 0."""
        symbol = f"@llvm.masked.gather.{self._suffix}.v{self.width}p0"
        return f"call {self.type} {symbol}({self._from(self._pointers, places, mask)})"

    def scatter(self, value: str, places: str, mask: str) -> str:
        """Return a store with an address for each lane; where addresses are equal, the last lane's stays."""
        symbol = f"@llvm.masked.scatter.{self._suffix}.v{self.width}p0"
        return f"call void {symbol}({self._to(self._pointers, value, places, mask)})"

    @property
    def _pointers(self) -> str:
        return f"<{self.width} x ptr>"

    @property
    def _suffix(self) -> str:
        """The vector type as the names of intrinsics spell it."""
        return f"v{self.width}{'f' if self.kind in FLOATS else 'i'}{BITS[self.kind]}"

    def _from(self, pointer: str, place: str, mask: str) -> str:
        return f"{self._where(pointer, place, mask)}, {self.type} zeroinitializer"

    def _to(self, pointer: str, value: str, place: str, mask: str) -> str:
        return f"{self.type} {value}, {self._where(pointer, place, mask)}"

    def _where(self, pointer: str, place: str, mask: str) -> str:
        """The arguments for address, alignment and mask."""
        align, lanes = alignment(self.kind), f"<{self.width} x i1> {mask}"
        if self.llvm >= ALIGN_IS_ATTRIBUTE:
            return f"{pointer} align {align} {place}, {lanes}"
        return f"{pointer} {place}, i32 {align}, {lanes}"
