"""Vector code for many threads in lockstep: each SIMD lane runs one thread."""
