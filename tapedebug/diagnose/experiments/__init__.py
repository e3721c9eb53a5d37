"""Experiments on a tape in private memory: changed runs, measured and compared."""
