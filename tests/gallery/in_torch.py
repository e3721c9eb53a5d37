"""The pictures as functions of torch tensors, with the same wrong or right backward passes.

A wrong one is an `autograd.Function` as somebody would write it. What has no such form (a replay, numbers of
16 bits) is left out, and what takes hours.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tests.gallery.entry import Picture, Values

Tensor = torch.Tensor


def custom(forward: Callable[..., Tensor], backward: Callable[..., Any]) -> Callable[..., Tensor]:
    """A function with a backward pass of its own: `backward(g, *inputs)` gives the gradients."""

    class Custom(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Tensor) -> Tensor:
            ctx.save_for_backward(*inputs)
            return forward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            return backward(g, *ctx.saved_tensors)

    return Custom.apply


def off_by(error: float) -> Callable[..., Tensor]:
    return custom(lambda x: x**3, lambda g, x: 3 * x * x * (1 + error) * g)


def at(size: int, *chosen: int) -> Tensor:
    """Return which of `size` indices are chosen."""
    found = torch.zeros(size, dtype=torch.bool)
    found[list(chosen)] = True
    return found


def one_of(x: Tensor, index: int, wrong: Tensor, right: Tensor) -> Tensor:
    return torch.where(at(len(x), index), wrong, right)


def piecewise(x: Tensor) -> Tensor:
    return torch.where(x > 1, 2 * x - 1, x * x)


def halving(x: Tensor, limit: float = 0.5) -> tuple[Tensor, Tensor]:
    s, f = x.clone(), torch.ones_like(x)
    while (s.abs() > limit).any():
        f = torch.where(s.abs() > limit, f * 0.5, f)
        s = torch.where(s.abs() > limit, s * 0.5, s)
    return s, f


def gathering(x: Tensor) -> Tensor:
    return torch.roll(x, -1)


def laplace(a: Tensor) -> Tensor:
    left, right = torch.cat([a[:1], a[:-1]]), torch.cat([a[1:], a[-1:]])
    return left**2 + right**2 - 2 * a**2


def adj_laplace(g: Tensor, a: Tensor) -> Tensor:
    found = -4 * a * g
    found[:-1] += 2 * a[:-1] * g[1:]
    found[1:] += 2 * a[1:] * g[:-1]
    return found


def adj_neighbour(g: Tensor, a: Tensor) -> Tensor:
    found = torch.zeros_like(a)
    return found.index_add(0, (torch.arange(len(a)) - 1).clamp(min=0), 2 * a * g)


def adj_wrap(g: Tensor, a: Tensor) -> Tensor:
    found = gathering(a) * g
    found[1:] += a[:-1] * g[:-1]
    return found


AT = torch.tensor([2, 0, 1, 4, 2])


def replaced(g: Tensor, s: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    return (g * x)[-1].reshape(s.shape), s * g


def turned(q: Tensor, v: Tensor) -> Tensor:
    w, u = q[..., 3:], q[..., :3]
    return (2 * w * w - 1) * v + 2 * w * torch.linalg.cross(u, v) + 2 * u * (u * v).sum(-1, keepdim=True)


def product(m: Tensor, v: Tensor) -> Tensor:
    return (m @ v[..., None])[..., 0]


def outer(a: Tensor, b: Tensor) -> Tensor:
    return a[..., :, None] * b[..., None, :]


DEGREE = 0.017453292

WRONG: dict[str, Callable[..., Tensor]] = {
    "a wrong sign": custom(lambda x: x * x, lambda g, x: -2 * x * g),
    "counted twice": custom(lambda x: x * x, lambda g, x: 4 * x * g),
    "half of it": custom(lambda x: x * x, lambda g, x: x * g),
    "severed": custom(lambda x: x * x, lambda g, x: 0 * g),
    "half of the product rule": custom(lambda x: x * x.sin(), lambda g, x: x.sin() * g),
    "inner derivative forgotten": custom(lambda x: (3 * x).sin(), lambda g, x: (3 * x).cos() * g),
    "radians for degrees": custom(lambda x: (x * DEGREE).sin(), lambda g, x: (x * DEGREE).cos() * g),
    "quotient rule without the square": custom(lambda a, b: a / b, lambda g, a, b: (g / b, -a / b * g)),
    "arguments swapped": custom(lambda a, b: a * a * b, lambda g, a, b: (a * a * g, 2 * a * b * g)),
    "second argument forgotten": custom(lambda a, b: a * b.exp(), lambda g, a, b: (b.exp() * g, 0 * g)),
    "the other branch": custom(piecewise, lambda g, x: torch.where(x < 1, 2 * g, 2 * x * g)),
    "a rare branch": custom(
        lambda x: x / (1 + x * x),
        lambda g, x: torch.where(x > 5, 1 / (1 + x * x), (1 - x * x) / (1 + x * x) ** 2) * g,
    ),
    "min to the other operand": custom(torch.minimum, lambda g, a, b: (g * (a >= b), g * (a < b))),
    "straight-through clamp": custom(lambda x: x.clamp(-1, 1), lambda g, x: g),
    "straight-through round": custom(torch.round, lambda g, x: g),
    "outside of both slopes at a kink": custom(torch.relu, lambda g, x: g * ((x > 0) + 2.0 * (x == 0))),
    "operand for result": custom(torch.sqrt, lambda g, x: 0.5 / x * g),
    "negative seeds dropped": custom(torch.exp, lambda g, x: x.exp() * g.clamp(min=0)),
    "large seeds clipped": custom(torch.exp, lambda g, x: (x.exp() * g).clamp(-100, 100)),
    "small seeds dropped": custom(torch.exp, lambda g, x: x.exp() * g * (g.abs() > 0.01)),
    "0 where small": custom(lambda x: x * x, lambda g, x: 2 * x * g * ((2 * x).abs() > 0.01)),
    "NaN": custom(lambda x: (x * x).sqrt(), lambda g, x: x.sqrt() * x.sqrt() / x * g),
    "infinite": custom(lambda x: (-x * x).exp(), lambda g, x: -2 * x / (-x * x).exp() * g),
    "one power too many": custom(lambda x: x**3, lambda g, x: 3 * x**3 * g),
    "a loop one iteration short": custom(
        lambda x: halving(x)[0] ** 2, lambda g, x: 2 * halving(x, 1.0)[0] * halving(x, 1.0)[1] * g
    ),
    "index off by one": custom(lambda a: a * a, adj_neighbour),
    "periodic wrap forgotten": custom(lambda a: a * gathering(a), adj_wrap),
    "shifted the wrong way": custom(
        lambda a: gathering(a).sin(), lambda g, a: torch.roll(gathering(a).cos() * g, -1)
    ),
    "only at the boundary": custom(laplace, adj_laplace),
    "only thread 5": custom(torch.tanh, lambda g, x: one_of(x, 5, 1 + x.tanh() ** 2, 1 - x.tanh() ** 2) * g),
    "one element of 5,000": custom(lambda x: x * x, lambda g, x: one_of(x, 1711, 0 * x, 2 * x) * g),
    "= for += in a shared element": custom(lambda s, x: s * x, replaced),
    "sum for mean": custom(lambda a: a.mean()[None], lambda g, a: g.expand_as(a)),
    "last iteration left out": custom(
        lambda a: (a * a).sum()[None], lambda g, a: one_of(a, 9, 0 * a, 2 * a) * g
    ),
    "in place": custom(lambda x, y: y * x.sin(), lambda g, x, y: (y * x.cos() * g, x.cos() * g)),
    "stale value": custom(lambda a: a * a, lambda g, a: 2 * 0.98 * a * g),
    "a term that does not belong": custom(lambda a: 4 * a, lambda g, a: 4 * g + 0.02 * torch.roll(g, 3)),
    "scatter without the index": custom(lambda a, _: a[AT].exp(), lambda g, a, _: (a[AT].exp() * g, None)),
    "softmax without its off-diagonal terms": custom(
        lambda a: torch.softmax(a, 0), lambda g, a: torch.softmax(a, 0) * (1 - torch.softmax(a, 0)) * g
    ),
    "log-sum-exp not normalised": custom(lambda a: torch.logsumexp(a, 0)[None], lambda g, a: a.exp() * g),
    "an intermediate without gradient": lambda x: (x * x).detach() ** 2,
    "components of a vec3 swapped": custom(
        lambda v: v @ v.new_tensor([1, 2, 3]), lambda g, v: v.new_tensor([1, 3, 2]) * g[:, None]
    ),
    "cross product with a wrong sign": custom(
        torch.linalg.cross, lambda g, a, b: (torch.linalg.cross(b, g), torch.linalg.cross(a, g))
    ),
    "normalize without its projection": custom(
        lambda v: v / v.norm(dim=-1, keepdim=True), lambda g, v: g / v.norm(dim=-1, keepdim=True)
    ),
    "a matrix not transposed": custom(product, lambda g, m, v: (outer(g, v), product(m, g))),
    "an outer product transposed": custom(product, lambda g, m, v: (outer(v, g), product(m.mT, g))),
    "an inverse not transposed": custom(
        torch.linalg.inv, lambda g, m: -torch.linalg.inv(m) @ g @ torch.linalg.inv(m)
    ),
    "rotated forward": custom(turned, lambda g, q, v: (0 * q, turned(q, g))),
    "the other field of a struct": custom(
        lambda q, v: 0.5 * v * v + 2 * q * q, lambda g, q, v: (v * g, 4 * q * g)
    ),
    "a native function's factor": custom(lambda x: x * x, lambda g, x: x * g),
    "a native function's = for +=": custom(lambda a, x: a * x, replaced),
    **{f"float32 off by {e:.0e}": off_by(e) for e in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)},
    **{f"float64 off by {e:.0e}": off_by(e) for e in (1e-2, 1e-4, 1e-6, 1e-8)},
    "one thread off by 2e-4": custom(
        lambda x: (-x).exp(), lambda g, x: one_of(x, 7, -1.0002 * (-x).exp(), -((-x).exp())) * g
    ),
}


def logistic(r: float) -> Callable[[Tensor], Tensor]:
    def function(x: Tensor) -> Tensor:
        for _ in range(50):
            x = r * x * (1 - x)
        return x

    return function


def with_noise(x: Tensor) -> Tensor:
    noise = torch.randn(len(x), generator=torch.Generator().manual_seed(42), dtype=x.dtype)
    return x * x + 0.5 * noise * x


CALLS = [0]


def of_a_counter(x: Tensor) -> Tensor:
    CALLS[0] += 1
    return x * x + 0.001 * (CALLS[0] % 5)


def long_sum(x: Tensor) -> Tensor:
    k = torch.arange(10000, dtype=x.dtype)
    return (0.001 * torch.sin(x[:, None] * k * 0.001)).sum(1)


def pendulum(x: Tensor, steps: int = 1000, h: float = 0.01) -> Tensor:
    v = torch.zeros_like(x)
    for _ in range(steps):
        v = v - h * x.sin()
        x = x + h * v
    return x


def newton(x: Tensor) -> Tensor:
    r, step = x, torch.ones_like(x)
    while (step.abs() > 1e-6 * r).any():
        step = torch.where(step.abs() > 1e-6 * r, 0.5 * (r - x / r), 0 * r)
        r = r - step
    return r


def in_bins(x: Tensor, bins: Tensor) -> Tensor:
    return torch.zeros(3, dtype=x.dtype).index_add(0, bins, x.sin())


def tridiagonal(x: Tensor) -> Tensor:
    s = -2 * x
    s = s + torch.cat([0 * x[:1], x[:-1] * x[1:]])
    return s + torch.cat([x[1:], 0 * x[:1]])


def simulated(p: Tensor, v: Tensor) -> Tensor:
    for _ in range(10):
        v = v - 0.1 * p.sin()
        p = p + 0.1 * v
    return (p * v).sum()[None]


def rotated(axis: Tensor, angle: Tensor) -> Tensor:
    axis = axis / axis.norm(dim=-1, keepdim=True)
    half = angle[:, None] / 2
    return turned(torch.cat([axis * half.sin(), half.cos()], 1), axis.new_tensor([[1, 2, 3]]))


def springs(p: Tensor) -> Tensor:
    d = p[1:] - p[:-1]
    n = d.norm(dim=-1, keepdim=True)
    push = d * (1000 * (n - 1) / n)
    none = torch.zeros_like(p[:1])
    return torch.cat([push, none]) - torch.cat([none, push])


def angle_between(a: Tensor, b: Tensor) -> Tensor:
    return torch.atan2(torch.linalg.cross(a, b).norm(dim=-1), (a * b).sum(-1))


def huber(x: Tensor) -> Tensor:
    return torch.where(x.abs() <= 1, 0.5 * x * x, x.abs() - 0.5)


def smooth(x: Tensor) -> Tensor:
    t = x.clamp(0, 1)
    return t * t * (3 - 2 * t)


def sawtooth(x: Tensor) -> Tensor:
    return (1000 * x - (1000 * x).round()).abs()


def direction(v: Tensor) -> Tensor:
    n = v.norm(dim=-1, keepdim=True)
    return torch.where(n > 0, v / torch.where(n > 0, n, 1.0), 0 * v)


def cube(x: Tensor) -> Tensor:
    return x * x * x


def length(v: Tensor) -> Tensor:
    return v.norm(dim=-1)


RIGHT: dict[str, Callable[..., Tensor]] = {
    "x³ at 1,000": cube,
    "x at 1e5": lambda x: 1 * x,
    "x at 1e30": lambda x: 1 * x,
    "sin(100 x)": lambda x: (100 * x).sin(),
    "sin(10,000 x)": lambda x: (10000 * x).sin(),
    "(x + 1e7) − 1e7": lambda x: (x + 1e7) - 1e7,
    "((x + 1e7) − 1e7)²": lambda x: ((x + 1e7) - 1e7) ** 2,
    "x² + 1e7": lambda x: x * x + 1e7,
    "(x + 1,000)² − 1e6": lambda x: (x + 1000) ** 2 - 1e6,
    "x² at 1e-20": lambda x: x * x,
    "x² at 1e18": lambda x: x * x,
    "x² at 1e30, which overflows": lambda x: x * x,
    "1e30 x² at 1e-20": lambda x: 1e30 * x * x,
    "sin(1e20 x) at 1e-20": lambda x: (1e20 * x).sin(),
    **{f"1/x at {e}": torch.reciprocal for e in ("1e-3", "1e-6", "1e-15")},
    **{f"√x at {e}": torch.sqrt for e in ("1e-8", "1e-20")},
    "log x at 1e-6": torch.log,
    "exp(20 x) at 4": lambda x: (20 * x).exp(),
    "exp(−500 x) at 0.1": lambda x: (-500 * x).exp(),
    "acos beside 1": torch.acos,
    "tanh where it is flat": torch.tanh,
    "atan2 beside its cut": torch.atan2,
    "logistic map, 50 steps, chaotic": logistic(3.9),
    "logistic map, 50 steps, tame": logistic(2.8),
    "random numbers in the forward pass": with_noise,
    "a forward pass that counts its calls": of_a_counter,
    "float64 at 1e-7": lambda x: x.sin() * (-x).exp(),
    "x to the 0.1 at 1e-4": lambda x: x**0.1,
    "x to the 12 at 30": lambda x: x**12,
    "|x| beside 0": torch.abs,
    "|x| at 0": torch.abs,
    "relu beside 0": torch.relu,
    "relu at 0": torch.relu,
    "min beside a tie": torch.minimum,
    "min at a tie": torch.minimum,
    "the largest of several, tied": lambda x: x.amax()[None],
    "the largest of several, beside a tie": lambda x: x.amax()[None],
    "floor between integers": lambda x: x.floor() + x,
    "floor at an integer": lambda x: x.floor() + x,
    "round beside a half": lambda x: x - x.round(),
    "round at a half": lambda x: x - x.round(),
    "remainder beside its jump": lambda x: torch.fmod(x, 1.0),
    "clamp beside its ends": lambda x: x.clamp(-1, 1),
    "clamp at an end": lambda x: x.clamp(-1, 1),
    "a branch, smooth where it meets": piecewise,
    "a branch that jumps, beside it": lambda x: torch.where(x > 1, x + 1, x),
    "a branch that jumps": lambda x: torch.where(x > 1, x + 1, x),
    "x |x| at 0": lambda x: x * x.abs(),
    "smoothstep at its ends": smooth,
    "Huber at its threshold": huber,
    "length of a nearly zero vector": length,
    "length of a zero vector": length,
    "a sawtooth of 1,000 teeth": sawtooth,
    "sign beside 0": lambda x: x.sign() + 0.1 * x,
    "the largest by atomics": lambda x: torch.stack([x[k::3].amax() for k in range(3)]),
    "64 threads into 3 bins": in_bins,
    "gathers by index": lambda x, i: x[i] ** 2,
    "a float32 loop of 10,000": long_sum,
    "1,000 steps of a pendulum": pendulum,
    "a while loop of the data": lambda x: halving(x)[0] ** 2,
    "Newton's iteration until it stands": newton,
    "*= twice in place": lambda x, y: y * x * x,
    "softmax of large logits": lambda x: torch.softmax(x, 0),
    "log-sum-exp of large logits": lambda x: torch.logsumexp(x, 0)[None],
    "tridiagonal, 1,024": tridiagonal,
    "a dense Jacobian of 64 × 64": lambda x: torch.sin(
        torch.arange(64, dtype=x.dtype)[:, None] + x[None, :]
    ).sum(1),
    "ten steps in place, as a function": simulated,
    "ping-pong buffers, as a function": lambda x: x**16,
    "direction of a nearly zero vector": direction,
    "direction of a zero vector": direction,
    "rotation by nearly nothing": rotated,
    "inverse of an ill-conditioned matrix": torch.linalg.inv,
    "ill-conditioned solve": lambda m, b: torch.linalg.solve(m, b),
    "singular values, nearly equal": torch.linalg.svdvals,
    "QR of a nearly singular matrix": lambda m: torch.linalg.qr(m).R,
    "eigenvalues, nearly equal": lambda m: torch.linalg.eigvalsh(0.5 * (m + m.mT)),
    "determinant near 0": torch.linalg.det,
    "angle between nearly parallel vectors": angle_between,
    "stiff springs": springs,
    "an array in a struct": lambda q: 3 * 9.81 * q[:, 1] + 0.5 * (q * q).sum(-1),
}

FIELDS: dict[str, list[Any]] = {
    "the other field of a struct": [[0.5, -1.0, 2.0], [1.5, 0.3, -0.7]],
    "an array in a struct": [np.linspace(-1.0, 1.0, 6).reshape(2, 3)],
}
"""The arrays in structs."""


def says(picture: Picture, dtype: torch.dtype) -> bool | str | None:
    """Return the result of torch's `gradcheck`, an error's name, or None if the picture has no such form."""
    function = (WRONG | RIGHT).get(picture.name)
    if function is None or (dtype == torch.float32 and "float64" in picture.name):
        return None
    arrays = [a for a in (*picture.inputs, *_in_place(picture)) if isinstance(a, Values)]
    given = [np.asarray(a.values) for a in arrays if a.grad]
    extra = [
        torch.as_tensor(np.asarray(a.values)).long() for a in arrays if not a.grad and a.dtype is not float
    ]
    given = FIELDS.get(picture.name, given)
    tensors = [torch.tensor(np.asarray(values), dtype=dtype, requires_grad=True) for values in given]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            called = functools.partial(_behind, function, extra)
            return bool(
                torch.autograd.gradcheck(
                    called, tensors, atol=picture.atol, rtol=picture.rtol, raise_exception=False
                )
            )
        except Exception as error:  # whatever it says, it is neither of the two
            return type(error).__name__


def _behind(function: Callable[..., Tensor], extra: list[Any], *tensors: Tensor) -> Tensor:
    return function(*tensors, *extra)


def _in_place(picture: Picture) -> list[Any]:
    """Outputs that the kernel reads, too."""
    return [a for a in picture.outputs if "in place" in picture.name and isinstance(a, Values)]
