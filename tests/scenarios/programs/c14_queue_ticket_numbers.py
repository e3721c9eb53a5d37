# Jobs draw ticket numbers at a counter, and wait as long as their number says. What waiting costs is tuned.
# RUN as-warp
import numpy as np
import warp as wp

JOBS = 9


# ADD: @wp.func
# ADD: def drawn(counter: wp.array(dtype=int), tickets: wp.array(dtype=int), i: int):
# ADD:     mine = wp.atomic_add(counter, 0, 2)
# ADD:     tickets[i] = mine
# ADD:     return mine
# ADD:
# ADD:
# ADD: @wp.func_replay(drawn)
# ADD: def drawn_before(counter: wp.array(dtype=int), tickets: wp.array(dtype=int), i: int):
# ADD:     return tickets[i]
# ADD:


@wp.kernel
def serve(
    urgency: wp.array(dtype=float),
    price: wp.array(dtype=float),
    counter: wp.array(dtype=int),
    tickets: wp.array(dtype=int),
    cost: wp.array(dtype=float),
):
    i = wp.tid()
    # EXPECT replayed-counter error: urgency, price
    # FIX: ticket = drawn(counter, tickets, i)
    ticket = wp.atomic_add(counter, 0, 2)
    wait = float(ticket) * price[0]
    cost[i] = urgency[i] * wait * wait + 0.1 * urgency[i]


@wp.kernel
def total(cost: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, cost[wp.tid()])


urgency = wp.array(np.linspace(0.2, 1.8, JOBS), dtype=float, requires_grad=True)
price = wp.array([0.3], dtype=float, requires_grad=True)
counter = wp.zeros(1, dtype=int)
tickets = wp.zeros(JOBS, dtype=int)
cost = wp.zeros(JOBS, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    # CALLED replayed-counter
    wp.launch(serve, dim=JOBS, inputs=[urgency, price, counter, tickets], outputs=[cost])
    wp.launch(total, dim=JOBS, inputs=[cost], outputs=[loss])
tape.backward(loss)
print("cost", loss.numpy()[0], "price", price.grad.numpy()[0])
