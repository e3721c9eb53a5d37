# Coordinates on a sphere, a component at a time: each is assigned once, and what was there before is a constant.
# RUN as-warp
import numpy as np
import warp as wp


@wp.kernel
def on_sphere(
    latitude: wp.array(dtype=float), longitude: wp.array(dtype=float), place: wp.array(dtype=wp.vec3)
):
    i = wp.tid()
    p = wp.vec3()
    p[0] = wp.cos(latitude[i]) * wp.cos(longitude[i])
    p[1] = wp.cos(latitude[i]) * wp.sin(longitude[i])
    p[2] = wp.sin(latitude[i])
    place[i] = p


@wp.kernel
def distance(place: wp.array(dtype=wp.vec3), station: wp.array(dtype=wp.vec3), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.length(place[i] - station[0]))


rng = np.random.default_rng(3)
latitude = wp.array(rng.random(10), dtype=float, requires_grad=True)
longitude = wp.array(3.0 * rng.random(10), dtype=float, requires_grad=True)
station = wp.array([[0.0, 0.6, 0.8]], dtype=wp.vec3, requires_grad=True)
place = wp.zeros(10, dtype=wp.vec3, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    wp.launch(on_sphere, dim=10, inputs=[latitude, longitude], outputs=[place])
    wp.launch(distance, dim=10, inputs=[place, station], outputs=[loss])
tape.backward(loss)
print(loss.numpy())
