"""Comparisons of whole pairs: on grids, by sparsity, by random combinations, and further checks."""
