"""Launches on several threads: partitions, schedules, the cost model and the thread pool."""
