"""nvalchemi-toolkit-ops: the damped Coulomb energy of eight atoms, and its derivative."""

import torch
from nvalchemi_atoms import atoms
from nvalchemiops.torch.interactions.electrostatics import coulomb_energy

positions, charges, neighbours, offsets, shifts = atoms()
cell = (10.0 * torch.eye(3, dtype=positions.dtype))[None].requires_grad_()
energy = coulomb_energy(positions, charges, cell, 6.0, 0.3, neighbours, offsets, shifts)
energy.sum().backward()
