"""Passes over the IR: each a pure function in a file of its own."""
