"""The square of an angle off axis, of an antenna that points near its satellite: smooth, and not flat."""

import tapedebug as wp


@wp.kernel
def off_axis(dish: wp.array(dtype=wp.vec3), loss: wp.array(dtype=float)):
    i = wp.tid()
    angle = wp.acos(wp.dot(wp.normalize(dish[i]), wp.vec3(0.0, 0.0, 1.0)))
    wp.atomic_add(loss, 0, angle * angle)


dish = wp.array([[0.2, -0.1, 2.0], [0.05, 0.1, 1.0]], dtype=wp.vec3, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(off_axis, dim=2, inputs=[dish], outputs=[loss])
tape.backward(loss)
print("gradient", dish.grad.numpy())
