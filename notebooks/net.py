"""Throw a net so that its centre hits a target: a differentiable simulation with two common mistakes.

A net of 16 × 16 mass points and springs flies for 40 semi-implicit Euler steps; the loss is the squared
distance (m²) of its centre from a target, and the throw is found by gradient descent. The first version
(`--buffers pingpong`) swaps two position buffers on one tape, so that a later step overwrites positions that
the adjoint of an earlier one still needs. It also reuses one `force` array, which looks just as bad and is
harmless: the integrator is linear in the force. `--buffers distinct` is the fixed version.

    tapedebug run --report report.html notebooks/net.py
    python notebooks/net.py --buffers distinct --iterations 20
"""

import argparse
from typing import Any, NamedTuple

import numpy as np

import tapedebug as wp

SIDE = 16  # mass points along one edge
SPACING = 0.1  # m, rest length of the springs along the grid
STEPS = 40
DT = 0.02  # s
STIFFNESS = 20.0  # N/m; with these masses and this time step, Euler is stable to about 80
DRAG = 0.05  # N s/m
MASS = 0.1  # kg, of one point
GRAVITY = wp.vec3(0.0, -9.81, 0.0)
TARGET = wp.vec3(2.5, 0.5, 0.5)  # m
FIRST_THROW = (3.0, 4.0, 0.0)  # m/s


@wp.func
def spring(a: wp.vec3, b: wp.vec3, rest: float, stiffness: float):
    """Force on `a` from a spring to `b` (N)."""
    d = b - a
    stretched = wp.length(d)
    return d * (stiffness * (stretched - rest) / stretched)


@wp.kernel
def launch_net(toss: wp.array(dtype=wp.vec3), grip: wp.array(dtype=float), v: wp.array(dtype=wp.vec3)):
    """The hand moves each point as firmly as it grips it."""
    i = wp.tid()
    v[i] = toss[0] * grip[i]


@wp.kernel
def spring_forces(
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    force: wp.array(dtype=wp.vec3),
    side: int,
    rest: float,
    stiffness: float,
    drag: float,
    weight: wp.vec3,
):
    """One thread a point gathers the springs to its four grid neighbours."""
    i = wp.tid()
    row = i // side
    col = i - row * side
    xi = x[i]
    f = weight - v[i] * drag
    if col > 0:
        f = f + spring(xi, x[i - 1], rest, stiffness)
    if col < side - 1:
        f = f + spring(xi, x[i + 1], rest, stiffness)
    if row > 0:
        f = f + spring(xi, x[i - side], rest, stiffness)
    if row < side - 1:
        f = f + spring(xi, x[i + side], rest, stiffness)
    force[i] = f


@wp.kernel
def shear_forces(
    x: wp.array(dtype=wp.vec3),
    first: wp.array(dtype=int),
    second: wp.array(dtype=int),
    force: wp.array(dtype=wp.vec3),
    rest: float,
    stiffness: float,
):
    """One thread a diagonal spring scatters its force to both ends."""
    s = wp.tid()
    a = first[s]
    b = second[s]
    f = spring(x[a], x[b], rest, stiffness)
    wp.atomic_add(force, a, f)
    wp.atomic_sub(force, b, f)


@wp.kernel
def integrate(
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    force: wp.array(dtype=wp.vec3),
    dt: float,
    inverse_mass: float,
    x_next: wp.array(dtype=wp.vec3),
    v_next: wp.array(dtype=wp.vec3),
):
    """Semi-implicit Euler: the new velocity moves the point."""
    i = wp.tid()
    moved = v[i] + force[i] * (dt * inverse_mass)
    v_next[i] = moved
    x_next[i] = x[i] + moved * dt


@wp.kernel
def target_loss(x: wp.array(dtype=wp.vec3), side: int, target: wp.vec3, loss: wp.array(dtype=float)):
    """Squared distance from the middle of the four middle points to the target."""
    m = (side // 2) * side + side // 2
    centre = (x[m] + x[m - 1] + x[m - side] + x[m - side - 1]) * 0.25
    d = centre - target
    wp.atomic_add(loss, 0, wp.dot(d, d))


class Net(NamedTuple):
    """The parts that stay the same from throw to throw."""

    x: Any  # (side²,) vec3, positions before the throw
    grip: Any  # (side²,) float32, 1 at the centre
    first: Any  # (springs,) int32, one end of each diagonal spring
    second: Any  # (springs,) int32, its other end
    side: int


def make_net(side: int = SIDE, spacing: float = SPACING) -> Net:
    """A square net around the origin, slightly bulged, so that it folds the same way every time."""
    row, col = np.divmod(np.arange(side * side), side)
    x = (np.stack([col, row], axis=1) - (side - 1) / 2) * spacing
    radius2 = (x**2).sum(axis=1)
    x = np.column_stack([x, -0.2 * radius2])
    grip = np.exp(-radius2 / (0.7 * side * spacing) ** 2)
    corner = np.arange(side * side).reshape(side, side)[:-1, :-1].ravel()
    first = np.concatenate([corner, corner + 1])
    second = np.concatenate([corner + side + 1, corner + side])
    return Net(
        wp.array(x, dtype=wp.vec3),
        wp.array(grip, dtype=float),
        wp.array(first, dtype=int),
        wp.array(second, dtype=int),
        side,
    )


def simulate(net: Net, throw: Any, loss: Any, buffers: str = "pingpong", steps: int = STEPS) -> Any:
    """Fly for `steps` steps and add the squared miss to `loss`; returns the last positions.

    Args:
        net: the net at rest.
        throw: (1,) vec3, the velocity of the hand (m/s).
        loss: (1,) float32, zero.
        buffers: "pingpong" reuses two buffers for positions, two for velocities and one for forces, as a
            first version does; "distinct" gives each step its own.
        steps: how many steps of `DT` seconds.
    """

    def fresh() -> Any:
        return wp.zeros(len(net.x), dtype=wp.vec3, requires_grad=True)

    points, diagonals = len(net.x), len(net.first)
    x, x_next, v, v_next, force = wp.clone(net.x, requires_grad=True), fresh(), fresh(), fresh(), fresh()
    weight = GRAVITY * MASS

    wp.launch(launch_net, dim=points, inputs=[throw, net.grip], outputs=[v])
    for _ in range(steps):
        if buffers == "distinct":
            x_next, v_next, force = fresh(), fresh(), fresh()
        wp.launch(spring_forces, dim=points, inputs=[x, v, force, net.side, SPACING, STIFFNESS, DRAG, weight])
        wp.launch(
            shear_forces,
            dim=diagonals,
            inputs=[x, net.first, net.second, force, SPACING * 2.0**0.5, 0.5 * STIFFNESS],
        )
        wp.launch(integrate, dim=points, inputs=[x, v, force, DT, 1.0 / MASS], outputs=[x_next, v_next])
        x, x_next = x_next, x
        v, v_next = v_next, v
    wp.launch(target_loss, dim=1, inputs=[x, net.side, TARGET], outputs=[loss])
    return x


def record(net: Net, throw: Any, buffers: str = "pingpong", **tape_options: Any) -> tuple[wp.Tape, Any]:
    """One throw on a tape made with `tape_options`; returns the tape and the loss, (1,) float32."""
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape(**tape_options)
    with tape:
        simulate(net, throw, loss, buffers)
    return tape, loss


def descend(
    net: Net, throw: Any, iterations: int, rate: float = 1.5, buffers: str = "pingpong"
) -> list[float]:
    """Improve `throw` in place by gradient descent; returns the loss before each step."""
    losses = []
    for _ in range(iterations):
        tape, loss = record(net, throw, buffers)
        tape.backward(loss)
        losses.append(float(loss.numpy()[0]))
        throw.assign(throw.numpy() - rate * throw.grad.numpy())
        tape.zero()
    return losses


def main() -> None:
    """Throw once and print the gradient; then, if asked to, descend."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--buffers", choices=("pingpong", "distinct"), default="pingpong")
    parser.add_argument("--iterations", type=int, default=0, help="steps of gradient descent (default: 0)")
    options = parser.parse_args()

    net = make_net()
    throw = wp.array([FIRST_THROW], dtype=wp.vec3, requires_grad=True)
    tape, loss = record(net, throw, options.buffers)
    tape.backward(loss)
    print(f"loss {loss.numpy()[0]:.6f} m², gradient {np.array2string(throw.grad.numpy()[0], precision=6)}")
    tape.zero()

    if options.iterations:
        losses = descend(net, throw, options.iterations, buffers=options.buffers)
        miss = 100 * losses[-1] ** 0.5
        print(f"after {options.iterations} steps: throw {throw.numpy()[0]} m/s, {miss:.2f} cm off the target")


if __name__ == "__main__":
    main()
