"""Differences, adjoints and verdicts: two numbers for every entry, and what they mean beside each other."""
