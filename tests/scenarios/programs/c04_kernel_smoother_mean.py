# A kernel smoother: each place gets the weighted mean of all measurements. The loop only adds, and what follows
# it divides by what it left.
# RUN as-warp
import numpy as np
import warp as wp

PLACES = 12
POINTS = 30


# ADD: @wp.func
# ADD: def gathered(x: float, at: wp.array(dtype=float), y: wp.array(dtype=float), w: float, n: int):
# ADD:     total = float(0.0)
# ADD:     mass = float(0.0)
# ADD:     for k in range(n):
# ADD:         d = (x - at[k]) / w
# ADD:         weight = wp.exp(-0.5 * d * d)
# ADD:         mass += weight
# ADD:         total += weight * y[k]
# ADD:     return total, mass
# ADD:


@wp.kernel
def smooth(
    grid: wp.array(dtype=float),
    at: wp.array(dtype=float),
    y: wp.array(dtype=float),
    width: wp.array(dtype=float),
    n: int,
    curve: wp.array(dtype=float),
):
    i = wp.tid()
    total = float(0.0)
    mass = float(0.001)
    # EXPECT warp-limitation error: width, y
    # FIX: if n > 0:
    for k in range(n):
        # FIX: total, mass = gathered(grid[i], at, y, width[0], n)
        d = (grid[i] - at[k]) / width[0]
        # DROP
        weight = wp.exp(-0.5 * d * d)
        # DROP
        mass += weight
        # DROP
        total += weight * y[k]
    curve[i] = total / mass


@wp.kernel
def roughness(curve: wp.array(dtype=float), wanted: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    d = curve[i] - wanted[i]
    wp.atomic_add(loss, 0, d * d)


rng = np.random.default_rng(0)
spots = np.sort(rng.random(POINTS))
grid = wp.array(np.linspace(0.0, 1.0, PLACES), dtype=float)
at = wp.array(spots, dtype=float)
y = wp.array(np.sin(6.0 * spots) + 0.1 * rng.standard_normal(POINTS), dtype=float, requires_grad=True)
width = wp.array([0.1], dtype=float, requires_grad=True)
wanted = wp.array(np.sin(6.0 * np.linspace(0.0, 1.0, PLACES)), dtype=float)
curve = wp.zeros(PLACES, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    # CALLED warp-limitation
    wp.launch(smooth, dim=PLACES, inputs=[grid, at, y, width, POINTS], outputs=[curve])
    wp.launch(roughness, dim=PLACES, inputs=[curve, wanted], outputs=[loss])
tape.backward(loss)
print("loss", loss.numpy()[0], "width", width.grad.numpy()[0])
