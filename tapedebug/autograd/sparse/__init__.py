"""Sparse Jacobians: patterns, colourings, and evaluation in few runs."""
