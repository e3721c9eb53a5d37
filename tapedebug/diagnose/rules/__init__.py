"""The rules of `diagnose`, one in each file."""
