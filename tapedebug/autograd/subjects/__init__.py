"""What a check runs: kernels, functions and tapes on private memory, and what was asked of them."""
