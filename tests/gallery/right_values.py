"""Right adjoints where numbers are hard: large, tiny, cancelling, fast, stiff, chaotic."""

import numpy as np

import tapedebug as wp
from tests.gallery.entry import Picture, Values


@wp.kernel
def cube(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i] * x[i]


@wp.kernel
def identity(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i]


@wp.kernel
def sine_of(x: wp.array(dtype=float), k: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sin(k * x[i])


@wp.kernel
def there_and_back(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = (x[i] + 10000000.0) - 10000000.0


@wp.kernel
def there_and_back_squared(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    b = (x[i] + 10000000.0) - 10000000.0
    y[i] = b * b


@wp.kernel
def on_a_pedestal(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i] + 10000000.0


@wp.kernel
def difference_of_squares(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    a = x[i] + 1000.0
    y[i] = a * a - 1000000.0


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def scaled_square(x: wp.array(dtype=float), k: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = k * x[i] * x[i]


@wp.kernel
def reciprocal(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 1.0 / x[i]


@wp.kernel
def root(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sqrt(x[i])


@wp.kernel
def logarithm(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.log(x[i])


@wp.kernel
def stiff(x: wp.array(dtype=float), k: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.exp(k * x[i])


@wp.kernel
def arc_cosine(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.acos(x[i])


@wp.kernel
def saturated(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.tanh(x[i])


@wp.kernel
def angle(a: wp.array(dtype=float), b: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.atan2(a[i], b[i])


@wp.kernel
def logistic(x: wp.array(dtype=float), r: float, n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    a = x[i]
    for _k in range(n):
        a = r * a * (1.0 - a)
    y[i] = a


@wp.kernel
def with_noise(x: wp.array(dtype=float), seed: int, y: wp.array(dtype=float)):
    i = wp.tid()
    state = wp.rand_init(seed, i)
    y[i] = x[i] * x[i] + 0.5 * wp.randn(state) * x[i]


@wp.kernel
def halves(x: wp.array(dtype=wp.float16), y: wp.array(dtype=wp.float16)):
    i = wp.tid()
    y[i] = wp.sin(x[i]) * x[i]


@wp.kernel
def doubles(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    y[i] = wp.sin(x[i]) * wp.exp(-x[i])


@wp.func_native(
    "static int calls; return x * x + 0.001f * (float)(++calls % 5);", "adj_x += 2.0f * x * adj_ret;"
)
def counted_square(x: float) -> float: ...


@wp.kernel
def of_a_counter(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = counted_square(x[i])


@wp.kernel
def powers(x: wp.array(dtype=float), n: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.pow(x[i], n)


def mapped(name, kernel, values, *numbers, verdict="AGREE", **options):
    """A picture of a kernel that maps `values` one by one."""
    outputs = [Values(np.zeros(len(values)))]
    return Picture(name, kernel, [Values(values), *numbers], outputs, verdict, **options)


PICTURES = [
    mapped("x³ at 1,000", cube, [1.0, 100.0, 1000.0], rtol=1e-4),
    mapped("x at 1e5", identity, [1e3, 1e5], rtol=1e-4),
    mapped("x at 1e30", identity, [1e30, -1e30], rtol=1e-4),
    mapped("sin(100 x)", sine_of, np.linspace(0, 1, 64), 100.0),
    mapped("sin(10,000 x)", sine_of, np.linspace(0, 1, 64), 10000.0),
    mapped("(x + 1e7) − 1e7", there_and_back, [0.3, 0.7, -2.0], rtol=1e-4),
    mapped("((x + 1e7) − 1e7)²", there_and_back_squared, [0.3, 0.7], verdict="UNDECIDABLE"),
    mapped("x² + 1e7", on_a_pedestal, [0.5, 3.0], rtol=1e-4),
    mapped("(x + 1,000)² − 1e6", difference_of_squares, [1e-3, 0.5], rtol=1e-4),
    mapped("x² at 1e-20", square, [1e-20, -3e-20], atol=0.0),
    mapped("x² at 1e18", square, [1e18, -3e18], atol=0.0, rtol=1e-4),
    mapped("x² at 1e30, which overflows", square, [1e30], rtol=1e-4),
    mapped("1e30 x² at 1e-20", scaled_square, [1e-20, 2e-20], 1e30, atol=0.0),
    mapped("sin(1e20 x) at 1e-20", sine_of, [1e-20, 2e-20], 1e20, atol=0.0),
    mapped("1/x at 1e-3", reciprocal, [1e-3, -1e-3], rtol=1e-4),
    mapped("1/x at 1e-6", reciprocal, [1e-6, -2e-6], rtol=1e-4),
    mapped("1/x at 1e-15", reciprocal, [1e-15, -2e-15], rtol=1e-4),
    mapped("√x at 1e-8", root, [1e-8, 1.0], rtol=1e-4),
    mapped("√x at 1e-20", root, [1e-20, 1.0], rtol=1e-4),
    mapped("log x at 1e-6", logarithm, [1e-6, 1.0], rtol=1e-4),
    mapped("exp(20 x) at 4", stiff, [4.0, 2.0, -1.0], 20.0),
    mapped("exp(−500 x) at 0.1", stiff, [0.1, 1e-3], -500.0, atol=1e-25),
    mapped("acos beside 1", arc_cosine, [0.9999, 0.999999, -0.99999]),
    mapped("tanh where it is flat", saturated, [3.0, 8.0, -20.0]),
    Picture(
        "atan2 beside its cut",
        angle,
        [Values([1e-5, -1e-5, 0.5]), Values([-1.0, -1.0, 1e-6])],
        [Values([0.0, 0.0, 0.0])],
        rtol=1e-4,
    ),
    mapped("logistic map, 50 steps, chaotic", logistic, [0.3, 0.4], 3.9, 50, verdict="UNDECIDABLE"),
    mapped("logistic map, 50 steps, tame", logistic, [0.3, 0.4], 2.8, 50),
    mapped("random numbers in the forward pass", with_noise, [0.5, -1.0, 2.0], 42, rtol=1e-4),
    mapped(
        "a forward pass that counts its calls",
        of_a_counter,
        [0.5, 2.0],
        verdict="NONDETERMINISTIC",
        says="two forward runs on the same values differ by",
    ),
    Picture(
        "float16", halves, [Values([0.5, 1.5, -0.75], wp.float16)], [Values([0.0, 0.0, 0.0], wp.float16)]
    ),
    Picture(
        "float64 at 1e-7",
        doubles,
        [Values([0.5, 1.5, -0.75], wp.float64)],
        [Values([0.0, 0.0, 0.0], wp.float64)],
        atol=0.0,
        rtol=1e-7,
    ),
    mapped("x to the 0.1 at 1e-4", powers, [1e-4, 1.0], 0.1, rtol=1e-4),
    mapped("x to the 12 at 30", powers, [30.0, 1.5], 12.0, rtol=1e-4),
]
