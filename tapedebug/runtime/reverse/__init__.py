"""The reverse pass of a tape: seeds, the table of adjoint arguments, recomputation, late gradients."""
