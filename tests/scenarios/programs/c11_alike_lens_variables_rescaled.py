# Rays through a lens: `*=` and `/=`, but on variables, and a struct whose fields are assigned again. Those are new
# values, in Warp as here.
# RUN as-warp
import numpy as np
import warp as wp


@wp.struct
class Ray:
    height: float
    slope: float


@wp.kernel
def refract(
    height: wp.array(dtype=float), focal: wp.array(dtype=float), gap: float, spot: wp.array(dtype=float)
):
    i = wp.tid()
    ray = Ray()
    ray.height = height[i]
    ray.slope = 0.1 * height[i]
    ray.slope = ray.slope - ray.height / focal[0]
    ray.height = ray.height + gap * ray.slope
    blur = ray.height
    blur *= ray.slope
    blur /= 1.0 + ray.height * ray.height
    blur *= blur
    spot[i] = blur + ray.height * ray.height


@wp.kernel
def total(spot: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, spot[wp.tid()])


height = wp.array(np.linspace(-0.5, 0.6, 8), dtype=float, requires_grad=True)
focal = wp.array([1.2], dtype=float, requires_grad=True)
spot = wp.zeros(8, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    wp.launch(refract, dim=8, inputs=[height, focal, 0.8], outputs=[spot])
    wp.launch(total, dim=8, inputs=[spot], outputs=[loss])
tape.backward(loss)
print(focal.grad.numpy())
