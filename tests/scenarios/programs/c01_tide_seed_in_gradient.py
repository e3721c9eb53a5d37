"""The sensitivity of the last water levels: the gradient is seeded with `fill_`, and levels are smoothed in place
before a second reader of theirs (written for Warp)."""
# RUN as-warp

import warp as wp

N = 8


@wp.kernel
def rise(level: wp.array(dtype=float), flow: wp.array(dtype=float)):
    i = wp.tid()
    flow[i] = level[i] * level[i]


@wp.kernel
def drain(flow: wp.array(dtype=float), level: wp.array(dtype=float)):
    i = wp.tid()
    level[i] = 0.5 * flow[i]


@wp.kernel
def arrive(flow: wp.array(dtype=float), last: wp.array(dtype=float)):
    i = wp.tid()
    last[i] = 2.0 * flow[i]


level = wp.array([0.5 + 0.1 * i for i in range(N)], dtype=float, requires_grad=True)
flow = wp.zeros(N, dtype=float, requires_grad=True)
last = wp.zeros(N, dtype=float, requires_grad=True)
spare = wp.zeros(N, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(rise, dim=N, inputs=[level], outputs=[flow])
    # EXPECT overwrite error: level
    # FIX: wp.launch(drain, dim=N, inputs=[flow], outputs=[spare])
    wp.launch(drain, dim=N, inputs=[flow], outputs=[level])
    wp.launch(arrive, dim=N, inputs=[flow], outputs=[last])
last.grad.fill_(1.0)
tape.backward()
print(level.grad.numpy())
