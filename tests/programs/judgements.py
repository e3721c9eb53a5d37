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
    ("sph_crk", "nonfinite", "computeCRKVolume_Func"): (
        "True: the adjoint divides by the value of a loop, which is 0 there. Where the division is moved out of "
        "the kernel, the gradient agrees with differences."
    ),
    ("sph_laplacian", "wrong-adjoint", "computeSPHLaplacianTensor_Func"): (
        "True: the value of an inner loop is 0 in the adjoint. With `wp.dot` in place of the loop the gradient "
        "agrees with differences."
    ),
}
