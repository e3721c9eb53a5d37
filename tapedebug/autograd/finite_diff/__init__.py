"""Finite differences, adjoints, and the verdict on each entry from the two numbers."""
