"""Replays of a tape in private memory: values, adjoints, tangents, batches, snapshots."""
