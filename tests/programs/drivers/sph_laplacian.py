"""sphWarpCore: the Laplacian of a velocity field (scheme `Dot`), and its derivative by positions."""

import torch
from sph_particles import particles
from sphWarpCore import sphOperation_warp
from sphWarpCore.enumTypes import KernelFunctions, LaplacianScheme, SupportScheme, WarpOperation

positions, supports, masses, domain, neighbours = particles()
density = torch.ones_like(masses)
velocity = torch.stack([torch.sin(positions[:, 0]), torch.cos(2.0 * positions[:, 1])], dim=1).contiguous()
place = positions.clone().requires_grad_()
laplacian = sphOperation_warp(
    place, place, supports, supports, masses, masses, density, density, velocity, velocity,
    domain=domain, adjacency=neighbours, operation=WarpOperation.Laplacian, kernel=KernelFunctions.Wendland2,
    supportMode=SupportScheme.Gather, laplacianMode=LaplacianScheme.Dot,
)  # fmt: skip
(gradient,) = torch.autograd.grad((laplacian * velocity.flip(0)).sum(), place)
