"""Checks of tapes: launches alone and in lockstep, gradients of the user's own, the whole from end to end."""
