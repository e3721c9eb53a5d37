# A ledger: wages and interest are added in place, to elements of an array and to a component of a vector by its
# index. What is added to needs nothing of what was there.
# RUN as-warp
import warp as wp


@wp.kernel
def book(wage: wp.array(dtype=float), rate: wp.array(dtype=float), days: int, balance: wp.array(dtype=float)):
    i = wp.tid()
    parts = wp.vec3(wage[i], 0.0, 0.0)
    parts[1] += wage[i] * rate[0]
    parts[2] += parts[1] * rate[0]
    for _ in range(days):
        balance[i] += parts[0] + parts[1]
    balance[i] -= parts[2]


@wp.kernel
def short(balance: wp.array(dtype=float), goal: float, loss: wp.array(dtype=float)):
    i = wp.tid()
    d = balance[i] - goal
    wp.atomic_add(loss, 0, d * d)


wage = wp.array([1.0, 1.5, 0.7], dtype=float, requires_grad=True)
rate = wp.array([0.1], dtype=float, requires_grad=True)
balance = wp.array([0.2, 0.1, 0.4], dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(book, dim=3, inputs=[wage, rate, 5], outputs=[balance])
    wp.launch(short, dim=3, inputs=[balance, 6.0], outputs=[loss])
tape.backward(loss)
print(rate.grad.numpy())
