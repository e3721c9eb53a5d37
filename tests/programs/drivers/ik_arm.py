"""A planar arm of two links, whose joint angles newton's inverse kinematics fits to three targets."""

import newton
import newton.ik as ik
import warp as wp

wp.config.quiet = True


def solve(optimizer: ik.IKOptimizer) -> None:
    """Fit the angles in two iterations."""
    builder = newton.ModelBuilder()
    joints, parent = [], -1
    for number in range(2):
        link = builder.add_link(xform=wp.transform([0.5 + number, 0.0, 0.0], wp.quat_identity()), mass=1.0)
        start = wp.transform([0.5 * number, 0.0, 0.0], wp.quat_identity())
        end = wp.transform([-0.5, 0.0, 0.0], wp.quat_identity())
        joint = builder.add_joint_revolute(
            parent, link, parent_xform=start, child_xform=end, axis=[0.0, 0.0, 1.0]
        )
        joints.append(joint)
        parent = link
    builder.add_articulation(joints)
    model = builder.finalize(requires_grad=True)
    targets = wp.array([[1.5, 1.0, 0.0], [1.2, -0.8, 0.0], [0.3, 1.4, 0.0]], dtype=wp.vec3)
    objective = ik.IKObjectivePosition(
        link_index=1, link_offset=wp.vec3(0.5, 0.0, 0.0), target_positions=targets
    )
    angles = wp.array([[0.3, 0.4]] * 3, dtype=float, requires_grad=True)
    solver = ik.IKSolver(model, 3, [objective], optimizer=optimizer, jacobian_mode=ik.IKJacobianType.AUTODIFF)
    solver.step(angles, angles, iterations=2)
