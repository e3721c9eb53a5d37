"""sphWarpCore: a field, interpolated at the particles, and the derivative by the field in two steps of descent."""

import torch
from sph_particles import particles
from sphWarpCore import sphOperation_warp
from sphWarpCore.enumTypes import KernelFunctions, OperationDirection, SupportScheme, WarpOperation

positions, supports, masses, domain, neighbours = particles()
names = {"kernel": KernelFunctions.Wendland2, "supportMode": SupportScheme.Gather}
density = sphOperation_warp(
    positions, positions, supports, supports, masses, masses, None, None, None, None, domain, neighbours,
    operation=WarpOperation.Density, **names,
)  # fmt: skip
field = torch.sin(positions[:, 0]).contiguous().requires_grad_()
for _ in range(2):
    values = sphOperation_warp(
        positions, positions, supports, supports, masses, masses, density, density, field, field,
        domain=domain, adjacency=neighbours, operation=WarpOperation.Interpolate,
        operationMode=OperationDirection.AllToAll, **names,
    )  # fmt: skip
    (gradient,) = torch.autograd.grad(values.pow(2).sum(), field)
    with torch.no_grad():
        field -= 0.1 * gradient
