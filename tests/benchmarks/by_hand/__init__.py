"""The kernels of the suite as one writes them by hand in Numba: forward and adjoint, serial and `prange`.

Numba on a CPU has no atomics. What is parallel here gathers, or adds into parts of its own that are added
up afterwards; the serial form scatters where that is less work. Adjoints add to the gradients of inputs, as
those of the engines do. Never fastmath: the engines keep to the meaning of float32 arithmetic, too.
"""

from tests.benchmarks.by_hand.ways import Way as Way
from tests.benchmarks.by_hand.ways import ways as ways
