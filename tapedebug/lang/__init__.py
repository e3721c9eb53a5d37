"""The kernel language: types, functions and their rules."""
