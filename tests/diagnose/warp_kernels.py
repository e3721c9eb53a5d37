"""Kernels that Warp reverses wrongly, and look-alikes that it reverses rightly: one construct each.

`test_warp_peer.py` runs them with both engines. All take four numbers `x`, four weights `y`, a result `out`
for each, and a length.
"""

import warp as wp


@wp.kernel
def loop_adds(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = float(0.0)
    for k in range(n):
        s += x[i] * y[k]
    out[i] = s


@wp.kernel
def loop_multiplies(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    for k in range(n):
        s = s * y[k]
    out[i] = s


@wp.kernel
def loop_squares(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    for k in range(n):
        s = s - 0.1 * s * s + y[k]
    out[i] = s * s


@wp.kernel
def loop_two_variables(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    p = x[i]
    v = float(0.5)
    for k in range(n):
        v = v - 0.1 * wp.sin(p) * y[k]
        p = p + 0.1 * v
    out[i] = p * v


@wp.kernel
def loop_of_seventeen(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    for k in range(17):
        s = s - 0.05 * s * s * y[0]
    out[i] = s


@wp.kernel
def loop_of_sixteen(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    for k in range(16):
        s = s - 0.05 * s * s * y[0]
    out[i] = s


@wp.kernel
def nested(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    for k in range(n):
        t = s * y[k]
        for m in range(n):
            t = t * 0.9 + y[m] * t * t * 0.1
        s = s + 0.1 * t
    out[i] = s


@wp.kernel
def while_loop(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    while s > 0.3:
        s = s * 0.7 * y[0]
    out[i] = s


@wp.kernel
def loop_breaks(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    for k in range(n):
        s = s * y[k]
        if s < 0.5:
            break
    out[i] = s


@wp.kernel
def loop_breaks_first(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = float(0.0)
    for k in range(n):
        if s > 1.0:
            break
        s += x[i] * y[k]
    out[i] = s


@wp.kernel
def loop_continues(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    for k in range(n):
        if y[k] < 0.75:
            continue
        s = s * y[k]
    out[i] = s


@wp.kernel
def loop_branches(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    for k in range(n):
        if s > 1.0:
            s = s * y[k]
        else:
            s = s + 0.3 * s * s
    out[i] = s


@wp.kernel
def value_after(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = float(0.0)
    for k in range(n):
        t = x[i] * y[k]
        s += t
    out[i] = s + t


@wp.kernel
def value_before(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    z = s * s
    for k in range(n):
        s = s + y[k]
    out[i] = z + s


@wp.kernel
def norm_of_loop(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = float(0.0)
    m = float(0.0)
    for k in range(n):
        m += y[k]
        s += x[i] * y[k] * y[k]
    out[i] = s / (1.0 + m)


@wp.func
def step(s: float, w: float):
    return s - 0.2 * s * s * w


@wp.kernel
def loop_calls(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    for k in range(n):
        s = step(s, y[k])
    out[i] = s


@wp.func
def total(x: wp.array(dtype=float), y: wp.array(dtype=float), i: int, n: int):
    s = float(0.0)
    m = float(0.0)
    for k in range(n):
        m += y[k]
        s += x[i] * y[k] * y[k]
    return s, m


@wp.kernel
def loop_in_function(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s, m = total(x, y, i, n)
    out[i] = s / (1.0 + m)


@wp.kernel
def array_times(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    out[i] = x[i]
    out[i] *= y[i]


@wp.kernel
def array_times_itself(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    x[i] *= y[i]
    out[i] = x[i]


@wp.kernel
def array_divided(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    x[i] /= y[i]
    out[i] = x[i] * x[i]


@wp.kernel
def array_plus(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    out[i] += x[i] * y[i]
    out[i] += x[i]


@wp.kernel
def local_times(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    s *= y[i]
    s /= x[i] + 2.0
    s *= s
    out[i] = s


@wp.kernel
def component_twice(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    v = wp.vec3(x[i], y[i], 1.0)
    v[0] = x[i] * y[i]
    v[0] = v[0] * v[1]
    out[i] = wp.dot(v, v)


@wp.kernel
def component_once(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    v = wp.vec3()
    v[0] = x[i] * y[i]
    v[1] = x[i]
    out[i] = wp.dot(v, v)


@wp.kernel
def component_letters(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    v = wp.vec3(x[i], y[i], 1.0)
    v.y = x[i]
    v.y = v.y * 2.0 + v.x
    out[i] = v.x * v.y


@wp.kernel
def component_plus(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    v = wp.vec3(x[i], y[i], 1.0)
    v[0] += x[i] * y[i]
    out[i] = v[0] * v[1]


@wp.kernel
def component_letter_plus(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    v = wp.vec3(x[i], y[i], 1.0)
    v.x += x[i] * y[i]
    out[i] = v.x * v.y


@wp.kernel
def component_times(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    v = wp.vec3(x[i], y[i], 1.0)
    v[0] *= y[i]
    out[i] = v[0] * v[1]


@wp.kernel
def component_after_use(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    v = wp.vec3(x[i], y[i], 1.0)
    d = wp.dot(v, v)
    v[2] = 3.0 * x[i]
    out[i] = d + v[2]


@wp.kernel
def component_in_branch(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    v = wp.vec3(x[i], y[i], 1.0)
    if x[i] > 1.0:
        v[0] = y[i] * x[i]
    out[i] = wp.dot(v, v)


@wp.kernel
def component_in_loop(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    v = wp.vec3(x[i], y[i], 1.0)
    for k in range(n):
        v[0] = v[0] * y[k]
    out[i] = wp.dot(v, v)


@wp.kernel
def matrix_element(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    m = wp.mat22(x[i], y[i], 1.0, 2.0)
    m[0, 0] = m[0, 0] * y[i]
    out[i] = wp.determinant(m)


@wp.kernel
def vector_loop(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    p = wp.vec3(x[i], y[i], 1.0)
    v = wp.vec3(0.0, 1.0, x[i])
    for k in range(n):
        v = v - p * (0.1 * wp.dot(p, p))
        p = p + v * 0.1
    out[i] = wp.length(p)


@wp.kernel
def vector_loop_normalized(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    p = wp.vec3(x[i], y[i], 1.0)
    for k in range(n):
        p = wp.normalize(p) * 1.1 + wp.vec3(y[k], 0.1, 0.2)
    out[i] = p[0]


@wp.struct
class State:
    p: float
    v: float


@wp.kernel
def struct_field(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = State()
    s.p = x[i]
    s.v = s.p * s.p
    s.p = y[i]
    out[i] = s.p * s.v


@wp.kernel
def struct_field_in_loop(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    s = State()
    s.p = x[i]
    s.v = 0.5
    for k in range(n):
        s.v = s.v - 0.1 * wp.sin(s.p) * y[k]
        s.p = s.p + 0.1 * s.v
    out[i] = s.p


@wp.kernel
def within_kernel(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    out[i] = x[i] * x[i] * y[i]
    x[i] = 1.0


@wp.kernel
def loop_of_array(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    for k in range(n):
        out[i] = out[i] * y[k] + x[i]


@wp.kernel
def loop_accumulates(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    for k in range(n):
        out[i] += x[i] * y[k]


@wp.kernel
def two_loops(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    for k in range(n):
        s = s * y[k]
    r = s * s
    for k in range(n):
        r = r * 0.5 + wp.sin(r)
    out[i] = r + s


@wp.kernel
def loop_minimum(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = float(10.0)
    for k in range(n):
        s = wp.min(s, wp.abs(x[i] - y[k]))
    out[i] = s


@wp.kernel
def loop_exp(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    for k in range(n):
        s = wp.sqrt(wp.exp(s * 0.3)) * wp.tanh(s) / (1.0 + s)
    out[i] = s


@wp.kernel
def copies(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    old = s
    for k in range(n):
        now = s
        s = s * y[k] + 0.1 * old * now
        old = now
    out[i] = s * old


@wp.kernel
def conditional_in_loop(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    s = x[i]
    for k in range(n):
        s = s * y[k] if s > 1.0 else s + 0.2 * s * s
    out[i] = s


@wp.kernel
def loop_in_branch(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    if x[i] > 1.0:
        for k in range(n):
            s = s * y[k] + 0.1
    else:
        s = s * s
    out[i] = s * y[i]


@wp.kernel
def range_of_three(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    for k in range(n - 1, -1, -2):
        s = s * y[k] + 0.1 * s * s * float(k)
    out[i] = s


@wp.kernel
def continue_written_out(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    s = x[i]
    for k in range(4):
        if y[k] < 0.75:
            continue
        s = s * y[k]
    out[i] = s


@wp.kernel
def break_of_constant_range(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    s = x[i]
    for k in range(4):
        if s < 0.6:
            break
        s = s * y[k]
    out[i] = s * s


@wp.kernel
def break_of_inner_loop(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    s = x[i]
    for k in range(n):
        for m in range(n):
            if s > 2.0:
                break
            s = s + 0.3 * s * y[m]
        s = s * y[k]
    out[i] = s


@wp.kernel
def while_breaks(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    k = int(0)
    while k < n:
        s = s * y[0] + 0.1
        if s < 0.7:
            break
        k += 1
    out[i] = s


@wp.kernel
def returns_early(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    if x[i] > 1.5:
        return
    s = x[i] * y[i]
    out[i] = s * s


@wp.kernel
def matrix_loop(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    m = wp.mat22(x[i], 0.1, 0.2, y[i])
    p = wp.vec2(1.0, x[i])
    for k in range(n):
        p = m * p
    out[i] = p[0] * p[1]


@wp.kernel
def quaternion_loop(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    q = wp.quat(0.0, 0.0, 0.1 * x[i], 1.0)
    r = wp.quat(0.05 * y[i], 0.0, 0.0, 1.0)
    for k in range(n):
        q = q * r
    out[i] = q[2] + q[3]


@wp.func
def advance(p: wp.vec3, y: wp.array(dtype=float), n: int):
    for k in range(n):
        p = p - p * (0.1 * wp.dot(p, p) * y[k])
    return p


@wp.kernel
def loop_in_function_in_loop(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    p = wp.vec3(x[i], y[i], 1.0)
    for k in range(n):
        p = advance(p, y, n)
    out[i] = p[0] + p[1]


@wp.kernel
def function_with_loop(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    p = advance(wp.vec3(x[i], y[i], 1.0), y, n)
    out[i] = p[0] + p[1]


@wp.func
def clipped(a: float):
    return wp.min(a, 1.0)


@wp.func_grad(clipped)
def adj_clipped(a: float, adj_ret: float):
    wp.adjoint[a] += adj_ret * a


@wp.kernel
def own_gradient_in_loop(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    s = x[i]
    for k in range(n):
        s = clipped(s) * y[k] + 0.1 * x[i]
    out[i] = s


@wp.kernel
def sums_of_two_loops(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = float(0.0)
    for k in range(n):
        s += x[i] * y[k]
    r = float(0.0)
    for k in range(n):
        r += s * y[k] * y[k]
    out[i] = r


@wp.kernel
def loop_max_of_array(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    best = float(-10.0)
    for k in range(n):
        if x[k] * y[i] > best:
            best = x[k] * y[i]
    out[i] = best


@wp.kernel
def component_of_loop_vector(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    v = wp.vec3(0.0, 0.0, 0.0)
    for k in range(n):
        v[0] += x[i] * y[k]
        v[1] += x[i]
    out[i] = v[0] + 2.0 * v[1]


@wp.func
def squeezed(a: float, times: int):
    for k in range(times):
        a = a - 0.1 * a * a
    return a


@wp.kernel
def function_of_constant_length(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    out[i] = squeezed(x[i], 2) * squeezed(y[i], 3)


@wp.kernel
def component_becomes_constant(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    v = wp.vec3(x[i], 0.5, y[i])
    v[2] = wp.sin(v[1])
    out[i] = wp.dot(v, v) * x[i]


@wp.kernel
def counted(
    x: wp.array(dtype=float),
    y: wp.array(dtype=float),
    out: wp.array(dtype=float),
    n: int,
    counter: wp.array(dtype=int),
):
    k = wp.atomic_add(counter, 0, 1)
    out[k] = x[k] * x[k] * y[k]


@wp.func
def cubed(x: float):
    return x * x * x


@wp.kernel
def adjoint_of_frac(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    out[i] = wp.frac(x[i] * 1.7) * y[i]


@wp.kernel
def adjoint_of_frac_in_a_loop(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    s = float(0.0)
    for k in range(n):
        s += wp.frac(x[i] + y[k])
    out[i] = s


@wp.kernel
def adjoint_of_a_divisor(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    out[i] = wp.mod(x[i] * 2.3, y[i])


@wp.kernel
def adjoint_of_a_dividend(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    out[i] = wp.mod(x[i] * 2.3, 0.7) * y[i]


@wp.kernel
def adjoint_of_mod_of_vectors(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    v = wp.mod(wp.vec3(x[i], y[i], 2.2), wp.vec3(0.7, 0.5, y[i]))
    out[i] = v[0] + v[1] * x[i] + v[2]


@wp.kernel
def adjoint_of_bounds(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    state = wp.rand_init(3, i)
    out[i] = wp.randf(state, x[i], x[i] + y[i]) * y[i]


@wp.kernel
def adjoint_of_a_gradient(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    out[i] = wp.grad(cubed)(x[i]) * y[i]


@wp.kernel
def adjoint_of_an_exchange(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    wp.atomic_exch(out, i, x[i] * y[i])


@wp.kernel
def adjoint_of_a_claim(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    wp.atomic_cas(out, i, 0.0, x[i] * y[i])


@wp.kernel
def adjoint_of_an_extreme(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    wp.atomic_max(out, i % 2, x[i] * y[i])


@wp.kernel
def adjoint_of_an_extreme_of_equals(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    wp.atomic_max(out, 0, x[0] * y[1])


@wp.kernel
def adjoint_of_two_extremes(
    x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float), n: int
):
    i = wp.tid()
    wp.atomic_min(out, i, -x[i] * y[i])
    wp.atomic_max(out, i, -0.5 * y[i])
