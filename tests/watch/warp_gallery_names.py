"""A module of the user's, whose names the kernels of `warp_gallery` use."""

import warp as w

SHIFT = w.constant(0.125)


@w.func
def shifted(x: float):
    return x + SHIFT
