"""The rules of `diagnose`, one a file: what is wrong, where, measured how, and what to change."""
