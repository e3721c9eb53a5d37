"""Comparisons of whole pairs: by grids, by sparsity, by combinations, and what else can be asked."""
