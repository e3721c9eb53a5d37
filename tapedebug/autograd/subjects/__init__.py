"""Subjects of checks: kernels, functions and tapes on private memory, and the pairs to check."""
