"""Judgements by hand of loud findings: (program, rule, kernel) to a sentence; kernel "" stands for any."""

JUDGEMENTS: dict[tuple[str, str, str], str] = {
    ("diffray", "wrong-adjoint", "draw_kernel"): (
        "True: the value of a loop is 0 in the adjoint. With a loop count that is known when the kernel is "
        "compiled, five gradients agree with differences."
    ),
    ("diffray", "disconnected", ""): (
        "True: `texture` and `tex_coords` have no gradient because of the same loop. For `vertices` "
        "differences of the launch give 1.09 where the adjoint gives 0; the cause was not examined."
    ),
    ("warp_nn_gru", "overwrite", "_create_kernels__locals__kernel"): (
        "True: the cell returns the same array at every call, which the next call overwrites. With an array "
        "of its own for each call the gradient agrees with PyTorch in float64 to 1e-7."
    ),
    ("darcy_ls_optimization", "stale-value", ""): (
        "True: it is as it says, and meant. `p` is solved off the tape after the form was recorded, so that the adjoint "
        "of the form sees the solution (the comment in `step` names the implicit function theorem). The solve is "
        "a `record_func`, which cannot run again, so the effect on the gradient is not known."
    ),
    ("elastic_shape_optimization", "stale-value", ""): (
        "True: it is as it says, and meant, as in `darcy_ls_optimization`. `u` is solved after the form was recorded."
    ),
    ("sph_crk", "warp-limitation", "computeCRKVolume_Func"): (
        "True: the adjoint divides by the value of a loop, which is 0 there. Where the division is moved out of "
        "the kernel, the gradient agrees with differences."
    ),
    ("sph_crk", "out-of-bounds", ""): (
        "True: kinds of particles that nobody gave are an array of one element, and are read for each neighbour. "
        "With a test for the operation that needs none, the driver runs on this engine, which allows no such read."
    ),
    ("sph_laplacian", "warp-limitation", "computeDotLaplacian"): (
        "True: the value of an inner loop is 0 in the adjoint. With `wp.dot` in place of the loop the gradient "
        "agrees with differences."
    ),
    ("sph_laplacian", "custom-grad", "adj_vectorNormalize_warp_2D"): (
        "True: at distance 0 `norm_hess_warp` adds the cube of its epsilon to that of a length that holds it "
        "already, and gives 1/(2ε) where the derivative of `norm_grad_warp` is 1/ε. The wrong gradient end to "
        "end comes from the loops; what this one adds to it was not examined."
    ),
}
