"""Fields of random numbers, and the states that select them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.lang import noise_reference
from tests.lang.cases.base import WIDE, Case

SEED = int(noise_reference.pcg(7))


def _state_bits(x: Any) -> Any:
    seeds = np.trunc(x * 1000).astype(np.int64).astype(np.uint32)
    return (noise_reference.pcg(seeds) >> np.uint32(16)).astype(float)


NOISE = [
    Case(
        "rand_init",
        "scalar(wp.rand_init(int({0} * 1000.0)) >> wp.uint32(16))",
        _state_bits,
        (WIDE,),
        "s>s",
    ),
    Case(
        "noise",
        "wp.noise(wp.rand_init(7), {0})",
        lambda x: noise_reference.noise(SEED, x[..., None]),
        (WIDE,),
        "s>s",
    ),
    Case("noise", "wp.noise(wp.rand_init(7), {0})", lambda x: noise_reference.noise(SEED, x), (WIDE,), "v>s"),
    *(
        Case(
            "pnoise",
            f"wp.pnoise(wp.rand_init(7), {{0}}, {', '.join(map(str, periods))})",
            lambda x, periods=periods: noise_reference.noise(
                SEED, x.reshape(-1, len(periods)), np.array(periods)
            ),
            ((-8.0, 8.0),),
            "v>s" if len(periods) > 1 else "s>s",
            (len(periods),) if len(periods) > 1 else (2, 3, 4),
        )
        for periods in ((3,), (3, 2), (3, 2, 5), (3, 2, 5, 4))
    ),
    Case(
        "curlnoise",
        "wp.curlnoise(wp.rand_init(7), {0})",
        lambda x: noise_reference.curl(SEED, x),
        (WIDE,),
        "v>v",
        (2, 3),
    ),
]
