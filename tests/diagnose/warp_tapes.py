"""Small tapes of a program for Warp, each a way to write over an array, or something that only looks like it.

Imported inside `as_warp()` by the tests, and run by Warp itself where it is installed:
`python warp_tapes.py FILE` writes the gradients of all of them.
"""

import json
import sys

import numpy as np
import warp as wp

wp.config.quiet = True


@wp.struct
class Bodies:
    q: wp.array(dtype=float)
    v: wp.array(dtype=float)


@wp.struct
class World:
    bodies: Bodies
    pull: float


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def double(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 2.0 * x[i]


@wp.kernel
def put(z: wp.array(dtype=float), x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = z[i]


@wp.kernel
def put_even(z: wp.array(dtype=float), x: wp.array(dtype=float)):
    i = wp.tid()
    x[2 * i] = z[i]


@wp.kernel
def square_odd(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[2 * i + 1] * x[2 * i + 1]


@wp.kernel
def add_square(z: wp.array(dtype=float), x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] + z[i] * z[i]


@wp.kernel
def collect_square(z: wp.array(dtype=float), x: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(x, i, z[i] * z[i])


@wp.kernel
def clear(x: wp.array(dtype=float)):
    x[wp.tid()] = 0.0


@wp.kernel
def first_half_to_second(x: wp.array(dtype=float), half: int):
    i = wp.tid()
    x[i + half] = x[i] * x[i]


@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, x[wp.tid()])


@wp.kernel
def scale_then_square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = 2.0 * x[i]
    y[i] = x[i] * x[i]


@wp.kernel
def square_in_place(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] * x[i]


@wp.kernel
def square_and_set(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]
    x[i] = 1.0


@wp.kernel
def through_scratch(x: wp.array(dtype=float), s: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    s[i] = wp.sin(x[i])
    y[i] = s[i] * s[i] * x[i]


@wp.kernel
def twice_through_scratch(x: wp.array(dtype=float), s: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    s[i] = wp.sin(x[i])
    a = s[i] * s[i]
    s[i] = a * x[i]
    y[i] = s[i] * s[i]


@wp.kernel
def fall(world: World, q_next: wp.array(dtype=float)):
    i = wp.tid()
    q = world.bodies.q[i]
    q_next[i] = q + 0.1 * world.bodies.v[i] - 0.1 * world.pull * q * q


@wp.kernel
def fall_with(world: World, push: wp.array(dtype=float), q_next: wp.array(dtype=float)):
    i = wp.tid()
    q_next[i] = world.bodies.q[i] + push[i] * world.bodies.v[i] - world.pull * world.bodies.q[i]


@wp.kernel
def step(state: Bodies, after: Bodies):
    i = wp.tid()
    after.v[i] = state.v[i] - 0.1 * state.q[i] * state.q[i]
    after.q[i] = state.q[i] + 0.1 * after.v[i]


@wp.kernel
def drift(state: Bodies):
    i = wp.tid()
    state.q[i] = state.q[i] + 0.1 * state.v[i]


@wp.kernel
def decay(x: wp.array(dtype=float), steps: int, y: wp.array(dtype=float)):
    i = wp.tid()
    v = x[i]
    for _ in range(steps):
        v = v - 0.1 * v * v
    y[i] = v


@wp.kernel
def mix(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    v = wp.vec2(x[i], 2.0)
    v[0] = v[1] * v[0]
    v[0] = v[0] * v[0]
    y[i] = wp.dot(v, v)


def floats(*values, requires_grad=True):
    return wp.array(np.array(values, dtype=np.float32), dtype=float, requires_grad=requires_grad)


def zeros(count):
    return wp.zeros(count, dtype=float, requires_grad=True)


TAPES = {}


def tape(function):
    TAPES[function.__name__] = function
    return function


def launch(kernel, dim, *arguments):
    wp.launch(kernel, dim=dim, inputs=list(arguments))


# ------------------------------------------------------------------ between launches


@tape
def ping_pong():
    x, y, loss = floats(1.0, 1.2, 0.3), zeros(3), zeros(1)
    first = x
    with wp.Tape() as tape:
        for _ in range(4):
            launch(square, 3, x, y)
            x, y = y, x
        launch(total, 3, x, loss)
    return tape, loss, [first]


@tape
def copy_back():
    x, y, loss = floats(1.0, 1.2, 0.3), zeros(3), zeros(1)
    with wp.Tape() as tape:
        for _ in range(3):
            launch(square, 3, x, y)
            wp.copy(x, y)
        launch(total, 3, x, loss)
    return tape, loss, [x]


@tape
def copy_with_offsets():
    x, y, z, loss = floats(1.0, 2.0, 3.0), zeros(3), floats(8.0, 9.0), zeros(1)
    with wp.Tape() as tape:
        launch(square, 3, x, y)
        wp.copy(x, z, dest_offset=1, src_offset=1, count=1)
        launch(add_square, 3, x, y)
        launch(total, 3, y, loss)
    return tape, loss, [x, z]


@tape
def scratch_that_is_read_back():
    x, s, y, z, loss = floats(1.0, 2.0, 3.0), zeros(3), zeros(3), zeros(3), zeros(1)
    with wp.Tape() as tape:
        launch(through_scratch, 3, x, s, y)
        launch(through_scratch, 3, y, s, z)
        launch(total, 3, z, loss)
    return tape, loss, [x]


@tape
def alike_scratch_of_one_launch():
    x, s, y, loss = floats(1.0, 2.0, 3.0), zeros(3), zeros(3), zeros(1)
    with wp.Tape() as tape:
        launch(through_scratch, 3, x, s, y)
        launch(total, 3, y, loss)
    return tape, loss, [x]


@tape
def two_names_for_one_buffer():
    x, y, c, loss = floats(1.0, 2.0, 3.0), zeros(3), floats(9.0, 8.0, 7.0), zeros(1)
    other = wp.array(ptr=x.ptr, dtype=float, shape=3, capacity=12)
    with wp.Tape() as tape:
        launch(square, 3, x, y)
        launch(put, 3, c, other)
        launch(total, 3, y, loss)
    return tape, loss, [x]


@tape
def two_names_by_dlpack():
    x, y, c, loss = floats(1.0, 2.0, 3.0), zeros(3), floats(9.0, 8.0, 7.0), zeros(1)
    other = wp.from_dlpack(x)
    with wp.Tape() as tape:
        launch(square, 3, x, y)
        launch(put, 3, c, other)
        launch(total, 3, y, loss)
    return tape, loss, [x]


@tape
def alike_linear_reader():
    x, y, c, loss = floats(1.0, 2.0, 3.0), zeros(3), floats(9.0, 8.0, 7.0), zeros(1)
    with wp.Tape() as tape:
        launch(double, 3, x, y)
        launch(put, 3, c, x)
        launch(add_square, 3, x, y)
        launch(total, 3, y, loss)
    return tape, loss, [x, c]


@tape
def alike_elements_that_nobody_reads():
    x, y, c, loss = floats(1.0, 2.0, 3.0, 4.0), zeros(2), floats(9.0, 8.0), zeros(1)
    with wp.Tape() as tape:
        launch(square_odd, 2, x, y)
        launch(put_even, 2, c, x)
        launch(total, 2, y, loss)
    return tape, loss, [x]


# ------------------------------------------------------------------ inside a launch


@tape
def in_place():
    x, loss = floats(1.0, 2.0, 3.0), zeros(1)
    with wp.Tape() as tape:
        launch(square_in_place, 3, x)
        launch(total, 3, x, loss)
    return tape, loss, [x]


@tape
def in_place_in_a_loop():
    x, loss = floats(1.0, 1.2, 0.3), zeros(1)
    with wp.Tape() as tape:
        for _ in range(3):
            launch(square_in_place, 3, x)
        launch(total, 3, x, loss)
    return tape, loss, [x]


@tape
def read_and_set():
    x, y, loss = floats(1.0, 2.0, 3.0), zeros(3), zeros(1)
    with wp.Tape() as tape:
        launch(square_and_set, 3, x, y)
        launch(total, 3, y, loss)
    return tape, loss, [x]


@tape
def one_array_as_input_and_output():
    x, loss = floats(1.0, 1.2, 0.3), zeros(1)
    with wp.Tape() as tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[x])
        launch(total, 3, x, loss)
    return tape, loss, [x]


@tape
def scratch_written_twice():
    x, s, y, loss = floats(1.0, 2.0, 3.0), zeros(3), zeros(3), zeros(1)
    with wp.Tape() as tape:
        launch(twice_through_scratch, 3, x, s, y)
        launch(total, 3, y, loss)
    return tape, loss, [x]


@tape
def alike_written_then_read():
    x, y, loss = floats(1.0, 2.0, 3.0), zeros(3), zeros(1)
    with wp.Tape() as tape:
        launch(scale_then_square, 3, x, y)
        launch(total, 3, y, loss)
    return tape, loss, [x]


@tape
def alike_one_half_to_the_other():
    x, loss = floats(1.0, 2.0, 0.0, 0.0), zeros(1)
    with wp.Tape() as tape:
        launch(first_half_to_second, 2, x, 2)
        launch(total, 4, x, loss)
    return tape, loss, [x]


# ------------------------------------------------------------------ views


@tape
def overlapping_slices():
    x, y, c, loss = floats(1.0, 2.0, 3.0, 4.0), zeros(3), floats(9.0, 8.0), zeros(1)
    with wp.Tape() as tape:
        launch(square, 3, x[0:3], y)
        launch(put, 2, c, x[2:4])
        launch(add_square, 3, x[1:4], y)
        launch(total, 3, y, loss)
    return tape, loss, [x, c]


@tape
def the_same_slice_twice():
    x, y, c, loss = floats(1.0, 2.0, 3.0, 4.0), zeros(2), floats(9.0, 8.0), zeros(1)
    with wp.Tape() as tape:
        launch(square, 2, x[1:3], y)
        launch(put, 2, c, x[1:3])
        launch(total, 2, y, loss)
    return tape, loss, [x]


@tape
def a_view_after_its_parent_was_read():
    x, y, c, loss = floats(1.0, 2.0, 3.0, 4.0), zeros(4), floats(9.0, 8.0), zeros(1)
    view = x[1:3]
    with wp.Tape() as tape:
        launch(square, 4, x, y)
        launch(put, 2, c, view)
        launch(total, 4, y, loss)
    return tape, loss, [x]


@tape
def the_parent_after_a_view_was_read():
    x, y, c, loss = floats(1.0, 2.0, 3.0, 4.0), zeros(2), floats(9.0, 8.0, 7.0, 6.0), zeros(1)
    with wp.Tape() as tape:
        launch(square, 2, x[1:3], y)
        launch(put, 4, c, x)
        launch(total, 2, y, loss)
    return tape, loss, [x]


@tape
def a_column_of_a_grid():
    grid = wp.array(np.arange(1.0, 7.0, dtype=np.float32).reshape(3, 2), dtype=float, requires_grad=True)
    y, c, loss = zeros(2), floats(9.0, 8.0, 7.0), zeros(1)
    with wp.Tape() as tape:
        launch(square, 2, grid[1], y)
        launch(put, 3, c, grid[:, 1])
        launch(total, 2, y, loss)
    return tape, loss, [grid]


@tape
def alike_disjoint_slices():
    x, loss = floats(1.0, 2.0, 0.0, 0.0), zeros(1)
    with wp.Tape() as tape:
        launch(square, 2, x[0:2], x[2:4])
        launch(total, 2, x[2:4], loss)
    return tape, loss, [x]


@tape
def alike_other_column():
    grid = wp.array(np.arange(1.0, 7.0, dtype=np.float32).reshape(3, 2), dtype=float, requires_grad=True)
    y, c, loss = zeros(3), floats(9.0, 8.0, 7.0), zeros(1)
    with wp.Tape() as tape:
        launch(square, 3, grid[:, 0], y)
        launch(put, 3, c, grid[:, 1])
        launch(total, 3, y, loss)
    return tape, loss, [grid]


# ------------------------------------------------------------------ fills, copies of what has no gradient


@tape
def zero_after_a_read():
    x, y, loss = floats(1.0, 2.0, 3.0), zeros(3), zeros(1)
    with wp.Tape() as tape:
        launch(square, 3, x, y)
        x.zero_()
        launch(total, 3, y, loss)
    return tape, loss, [x]


@tape
def scratch_cleared_by_zero():
    x, s, y, loss = floats(1.0, 2.0, 3.0), zeros(3), zeros(3), zeros(1)
    with wp.Tape() as tape:
        for _ in range(3):
            s.zero_()
            launch(collect_square, 3, x, s)
            launch(add_square, 3, s, y)
        launch(total, 3, y, loss)
    return tape, loss, [x]


@tape
def scratch_filled():
    x, s, y, loss = floats(1.0, 2.0, 3.0), zeros(3), zeros(3), zeros(1)
    with wp.Tape() as tape:
        for _ in range(3):
            s.fill_(0.5)
            launch(collect_square, 3, x, s)
            launch(add_square, 3, s, y)
        launch(total, 3, y, loss)
    return tape, loss, [x]


@tape
def assigned_from_numpy():
    x, y, loss = floats(1.0, 2.0, 3.0), zeros(3), zeros(1)
    with wp.Tape() as tape:
        launch(square, 3, x, y)
        x.assign(np.array([4.0, 5.0, 6.0], dtype=np.float32))
        launch(add_square, 3, x, y)
        launch(total, 3, y, loss)
    return tape, loss, [x]


@tape
def assigned_from_an_array():
    x, y, z, loss = floats(1.0, 2.0, 3.0), zeros(3), floats(4.0, 5.0, 6.0), zeros(1)
    with wp.Tape() as tape:
        launch(square, 3, x, y)
        x.assign(z)
        launch(add_square, 3, x, y)
        launch(total, 3, y, loss)
    return tape, loss, [x, z]


@tape
def copied_from_what_has_no_gradient():
    x, y, z, loss = floats(1.0, 1.2, 0.3), zeros(3), floats(4.0, 5.0, 6.0, requires_grad=False), zeros(1)
    with wp.Tape() as tape:
        launch(square, 3, x, y)
        wp.copy(x, z)
        launch(add_square, 3, x, y)
        launch(total, 3, y, loss)
    return tape, loss, [x]


@tape
def alike_linear_sums_cleared_by_a_kernel():
    x, s, y, loss = floats(1.0, 2.0, 3.0), zeros(3), zeros(3), zeros(1)
    with wp.Tape() as tape:
        for _ in range(3):
            launch(clear, 3, s)
            launch(collect_square, 3, x, s)
            launch(double, 3, s, y)
        launch(total, 3, y, loss)
    return tape, loss, [x]


@tape
def alike_cleared_before_the_first_use():
    x, s, y, loss = floats(1.0, 2.0, 3.0), floats(5.0, 5.0, 5.0), zeros(3), zeros(1)
    with wp.Tape() as tape:
        s.zero_()
        launch(collect_square, 3, x, s)
        launch(add_square, 3, s, y)
        launch(total, 3, y, loss)
    return tape, loss, [x]


# ------------------------------------------------------------------ arrays in structs


def bodies(*q):
    made = Bodies()
    made.q, made.v = floats(*q), floats(*[0.5] * len(q))
    return made


@tape
def structs_that_take_turns():
    a, b, loss = bodies(1.0, 2.0), bodies(0.0, 0.0), zeros(1)
    q, v = a.q, a.v
    with wp.Tape() as tape:
        for _ in range(3):
            launch(step, 2, a, b)
            a, b = b, a
        launch(total, 2, a.q, loss)
    return tape, loss, [q, v]


@tape
def a_field_of_a_nested_struct():
    world, y, loss = World(), zeros(2), zeros(1)
    world.bodies, world.pull = bodies(1.0, 2.0), 0.7
    c = floats(4.0, 3.0)
    with wp.Tape() as tape:
        launch(fall, 2, world, y)
        launch(put, 2, c, world.bodies.q)
        launch(total, 2, y, loss)
    return tape, loss, [world.bodies.q, world.bodies.v]


@tape
def an_array_beside_the_struct_that_holds_it():
    state, y, loss = bodies(1.0, 2.0), zeros(2), zeros(1)
    q = state.q
    with wp.Tape() as tape:
        launch(square, 2, q, y)
        launch(drift, 2, state)
        launch(total, 2, y, loss)
    return tape, loss, [q]


@tape
def alike_in_place_in_a_struct():
    state, loss = bodies(1.0, 2.0), zeros(1)
    with wp.Tape() as tape:
        for _ in range(3):
            launch(drift, 2, state)
        launch(total, 2, state.q, loss)
    return tape, loss, [state.q, state.v]


@tape
def alike_two_structs_of_their_own():
    a, loss = bodies(1.0, 2.0), zeros(1)
    q, v = a.q, a.v
    with wp.Tape() as tape:
        for _ in range(3):
            b = bodies(0.0, 0.0)
            launch(step, 2, a, b)
            a = b
        launch(total, 2, a.q, loss)
    return tape, loss, [q, v]


@tape
def alike_other_field():
    state, y, c, loss = bodies(1.0, 2.0), zeros(2), floats(4.0, 3.0, requires_grad=False), zeros(1)
    with wp.Tape() as tape:
        launch(square, 2, state.q, y)
        launch(put, 2, c, state.v)
        launch(total, 2, y, loss)
    return tape, loss, [state.q]


@tape
def struct_a_field_that_is_assigned_anew():
    world, loss = World(), zeros(1)
    world.bodies, world.pull = bodies(1.0, 2.0), 0.7
    q, v = world.bodies.q, world.bodies.v
    with wp.Tape() as tape:
        for _ in range(3):
            after = zeros(2)
            launch(fall, 2, world, after)
            world.bodies.q = after
        launch(total, 2, world.bodies.q, loss)
    return tape, loss, [q, v]


@tape
def struct_a_number_that_is_assigned_anew():
    world, loss = World(), zeros(1)
    world.bodies = bodies(1.0, 2.0)
    sums = zeros(2)
    with wp.Tape() as tape:
        for number in range(3):
            world.pull = 0.5 + float(number)
            after = zeros(2)
            launch(fall, 2, world, after)
            launch(add_square, 2, after, sums)
        launch(total, 2, sums, loss)
    return tape, loss, [world.bodies.q]


@tape
def alike_struct_of_each_step():
    q, loss = floats(1.0, 2.0), zeros(1)
    first = q
    with wp.Tape() as tape:
        for number in range(3):
            world, after = World(), zeros(2)
            world.bodies, world.pull = bodies(0.0, 0.0), 0.5 + float(number)
            world.bodies.q = q
            launch(fall, 2, world, after)
            q = after
        launch(total, 2, q, loss)
    return tape, loss, [first]


@tape
def alike_struct_beside_numpy_and_fields():
    q = floats(1.0, 2.0)
    world, after, out, loss = World(), zeros(2), zeros(2), zeros(1)
    world.bodies, world.pull = bodies(0.0, 0.0), 0.5
    world.bodies.q = q
    with wp.Tape() as tape:
        launch(fall_with, 2, world, np.array([0.5, 0.25], dtype=np.float32), after)
        launch(square, 2, after, out)
        launch(total, 2, out, loss)
    return tape, loss, [q]


# ------------------------------------------------------------------ what Warp reverses wrongly besides


@tape
def limit_loop():
    x, y, z, loss = floats(1.0, 2.0, 3.0), zeros(3), zeros(3), zeros(1)
    with wp.Tape() as tape:
        launch(decay, 3, x, 7, y)
        launch(decay, 3, y, 23, z)
        launch(total, 3, z, loss)
    return tape, loss, [x]


@tape
def limit_component():
    x, y, loss = floats(1.0, 2.0, 3.0), zeros(3), zeros(1)
    with wp.Tape() as tape:
        launch(mix, 3, x, y)
        launch(total, 3, y, loss)
    return tape, loss, [x]


@tape
def limit_retained():
    x, y, loss = floats(1.0, 2.0, 3.0), zeros(3), zeros(1)
    y.retain_grad = True
    with wp.Tape() as tape:
        launch(double, 3, x, y)
        launch(total, 3, y, loss)
        launch(square, 3, x, y)
        launch(total, 3, y, loss)
    return tape, loss, [x]


@tape
def limit_command():
    x, y, loss = floats(1.0, 2.0, 3.0), zeros(3), zeros(1)
    command = wp.launch(square, 3, inputs=[x, y], record_cmd=True)
    with wp.Tape() as tape:
        command.launch()
        launch(total, 3, y, loss)
        launch(total, 3, x, loss)
    return tape, loss, [x]


@tape
def limit_command_in_a_loop():
    states, loss = [floats(1.0, 2.0, 3.0), zeros(3), zeros(3), zeros(3)], zeros(1)
    with wp.Tape() as tape:
        command = wp.launch(square, 3, inputs=[states[0], states[1]], record_cmd=True)
        for step in range(3):
            command.set_param_at_index(0, states[step])
            command.set_param_at_index(1, states[step + 1])
            command.launch()
        launch(total, 3, states[-1], loss)
        launch(total, 3, states[0], loss)
    return tape, loss, [states[0]]


@tape
def alike_command_of_what_has_no_gradient():
    x, weights, doubled, y, loss = floats(1.0, 2.0), wp.ones(2), wp.zeros(2), zeros(2), zeros(1)
    command = wp.launch(double, 2, inputs=[weights, doubled], record_cmd=True)
    with wp.Tape() as tape:
        command.launch()
        launch(square, 2, x, y)
        launch(total, 2, y, loss)
    return tape, loss, [x]


@tape
def alike_command_off_the_loss():
    x, seen, y, loss = floats(1.0, 2.0), zeros(2), zeros(2), zeros(1)
    command = wp.launch(double, 2, inputs=[x, seen], record_cmd=True)
    with wp.Tape() as tape:
        launch(square, 2, x, y)
        command.launch()
        launch(total, 2, y, loss)
    return tape, loss, [x]


def gradients(name):
    """Run a tape backward: the gradients of its inputs."""
    tape, loss, inputs = TAPES[name]()
    tape.backward(loss)
    return tape, [a.grad.numpy().ravel().tolist() for a in inputs]


if __name__ == "__main__":
    with open(sys.argv[1], "w") as stream:
        json.dump({name: gradients(name)[1] for name in TAPES}, stream)
