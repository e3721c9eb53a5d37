"""Tapes: records, versions of memory, saved values, and queries on what was recorded."""
