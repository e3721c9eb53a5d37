"""sphWarpCore: correction factors of reproducing kernels, and the derivative of the volumes by positions."""

import torch
from sph_particles import particles
from sphWarpCore import ParticleState, computeCRKFactors
from sphWarpCore.enumTypes import KernelFunctions

positions, supports, masses, domain, neighbours = particles()
positions.requires_grad_()
state = ParticleState(positions=positions, supports=supports, masses=masses)
volumes, density, _ = computeCRKFactors(state, domain, KernelFunctions.Wendland2, adjacency=neighbours)
weights = torch.linspace(0.5, 1.5, len(volumes))
(gradient,) = torch.autograd.grad((weights * volumes).sum(), positions)
