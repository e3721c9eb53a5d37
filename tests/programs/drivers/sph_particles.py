"""Particles on a periodic grid with their neighbours: the input of the programs for sphWarpCore."""

import torch
import warp as wp
from sphWarpCore import ParticleState, radiusSearchCompactHashMap
from sphWarpCore.util import generateNeighborTestData

wp.config.quiet = True
wp.init()


def particles():
    """Return positions, supports, masses, domain and neighbours, as in the documentation of the package."""
    positions, supports, count, domain, dx = generateNeighborTestData(6, 12, 2, True, torch.device("cpu"))
    torch.manual_seed(0)
    positions = (positions + 0.1 * dx * torch.randn_like(positions)).contiguous()
    masses = torch.full((count,), float(dx) ** 2)
    state = ParticleState(positions=positions, supports=supports, masses=masses)
    return positions, supports, masses, domain, radiusSearchCompactHashMap(state, domain)
