"""JAX and tapes: launches as a function that `jax.grad` differentiates. JAX is imported on first use."""

from __future__ import annotations

from tapedebug.jax.function import JaxFunction as JaxFunction
from tapedebug.jax.function import function as function
