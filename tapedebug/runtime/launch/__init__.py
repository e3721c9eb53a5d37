"""Kernel launches: argument checking and packing, launch plans, printed output, adjoint launches."""
