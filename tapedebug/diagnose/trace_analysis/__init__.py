"""Analyses of a trace and of kernel source: data flow, loops, repeats, overwrites."""
