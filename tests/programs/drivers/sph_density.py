"""sphWarpCore: the density of particles, and its derivative by positions, in two steps of gradient descent."""

import torch
from sph_particles import particles
from sphWarpCore import sphOperation_warp
from sphWarpCore.enumTypes import KernelFunctions, SupportScheme, WarpOperation

positions, supports, masses, domain, neighbours = particles()
positions.requires_grad_()
for _ in range(2):
    density = sphOperation_warp(
        positions, positions, supports, supports, masses, masses, None, None, None, None, domain, neighbours,
        operation=WarpOperation.Density, kernel=KernelFunctions.Wendland2, supportMode=SupportScheme.Gather,
    )  # fmt: skip
    (gradient,) = torch.autograd.grad((density - 1.0).pow(2).sum(), positions)
    with torch.no_grad():
        positions -= 1e-5 * gradient
