"""Checks of tapes: single launches, launches in lockstep, custom gradients, the whole end to end."""
