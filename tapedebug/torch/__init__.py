"""PyTorch and tapes: modules between two launches, and launches as a function of PyTorch.

`function` records a module or a function of tensors as one operation of a tape. `from_tape` makes launches a
function that `torch.autograd` differentiates. PyTorch is imported on first use.
"""

from __future__ import annotations

from tapedebug.torch.from_tape import TapeFunction as TapeFunction
from tapedebug.torch.from_tape import from_tape as from_tape
from tapedebug.torch.function import TorchFunction as TorchFunction
from tapedebug.torch.function import function as function
