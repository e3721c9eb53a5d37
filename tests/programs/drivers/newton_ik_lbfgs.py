"""newton: inverse kinematics of a planar arm by L-BFGS, with gradients from tapes."""

import newton.ik as ik
from ik_arm import solve

solve(ik.IKOptimizer.LBFGS)
