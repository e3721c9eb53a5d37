"""Jacobians with few entries: where they can be, in how few runs they are found."""
