"""Eight atoms in a box, each pair of which is a neighbour: the input of the programs for nvalchemi-toolkit-ops."""

import numpy as np
import torch
import warp as wp

wp.config.quiet = True
wp.init()
rng = np.random.default_rng(0)
COUNT = 8


def atoms(dtype=torch.float64):
    """Return positions, charges, and the neighbour list as pairs, offsets and shifts."""
    grid = np.stack(np.meshgrid(*[np.arange(2)] * 3), -1).reshape(-1, 3) * 1.5
    positions = torch.tensor(grid + 0.2 * rng.normal(size=grid.shape), dtype=dtype, requires_grad=True)
    charges = torch.tensor(rng.normal(size=COUNT), dtype=dtype, requires_grad=True)
    pairs = np.array([(i, j) for i in range(COUNT) for j in range(COUNT) if i != j], dtype=np.int32).T
    neighbours = torch.tensor(pairs)
    offsets = torch.arange(COUNT + 1, dtype=torch.int32) * (COUNT - 1)
    shifts = torch.zeros((pairs.shape[1], 3), dtype=torch.int32)
    return positions, charges, neighbours, offsets, shifts
