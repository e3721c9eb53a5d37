"""The cost of checked bounds: the kernels of the suite with and without `config.check_bounds`.

    python -m tests.benchmarks.bounds --rounds 15

Launches and reverse passes alternate between both settings, so that a busy machine disturbs both alike; the
ratio is that of the two minima. In lanes and chunks as launches are, and with one thread and without lanes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tapedebug as wp
from notebooks import net
from tests.benchmarks import kernels
from tests.benchmarks.cases import CASES, Setup

SIZES = {"sine": 400_000, "springs": 256, "bodies": 1024, "heat": 512, "sum": 400_000, "deposit": 100_000}
WAYS: dict[str, dict[str, Any]] = {
    "in lanes": {"lanes": True, "num_threads": None},
    "one thread": {"lanes": False, "num_threads": 1},
}


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table of the documentation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args(argv)
    print("| kernel | in lanes: forward | backward | one thread: forward | backward |")
    print("| --- | --- | --- | --- | --- |")
    for name, size in SIZES.items():
        case = CASES[name]
        ratios = [
            f"{ratio:.2f}" for way in WAYS for ratio in measured(case.make(size), WAYS[way], options.rounds)
        ]
        print(f"| {case.title}, {case.says(size)} | {' | '.join(ratios)} |", flush=True)


def measured(setup: Setup, way: dict[str, Any], rounds: int) -> list[float]:
    """The ratios of checked to unchecked, of launches and of reverse passes."""
    kernel: Any = getattr(net if setup.kernel == "spring_forces" else kernels, setup.kernel)
    args = {name: _argument(name, value, setup) for name, value in setup.arguments.items()}
    out, before = args[setup.writes], {name: getattr(wp.config, name) for name in way}
    for name, value in way.items():
        setattr(wp.config, name, value)

    def launch() -> None:
        wp.launch(kernel, setup.dim, list(args.values()))

    def backward() -> Callable[[], None]:
        with wp.Tape() as tape:
            launch()
        seed = wp.array(setup.seed, dtype=out.dtype)
        return lambda: tape.backward(grads={out: seed})

    least: dict[tuple[int, bool], float] = {}
    try:
        passes = {}
        for checks in (False, True):
            wp.config.check_bounds = checks
            passes[checks] = backward()
        for _ in range(rounds + 2):
            for checks in (False, True):
                wp.config.check_bounds = checks
                for number, run in enumerate((launch, passes[checks])):
                    run()
                    taken = _timed(run)
                    least[number, checks] = min(least.get((number, checks), taken), taken)
    finally:
        wp.config.check_bounds = None
        for name, value in before.items():
            setattr(wp.config, name, value)
    return [least[number, True] / least[number, False] for number in (0, 1)]


def _argument(name: str, value: Any, setup: Setup) -> Any:
    if isinstance(value, np.ndarray):
        kinds = {2: wp.vec2, 3: wp.vec3}
        dtype = kinds[value.shape[-1]] if name in setup.vectors else float
        return wp.array(value, dtype=dtype, requires_grad=True)
    return wp.vec3(*value) if name in setup.vectors else value


def _timed(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
