"""Explanations, by hand, of differences between watched programs and `--as-warp`."""

BY_RULE: dict[tuple[str, str], str] = {
    ("not-reset", "as-warp"): "Warp does not remember earlier recordings. The coverage says so.",
    ("unconverged", "as-warp"): "A solve cannot be continued by more rounds on Warp. The coverage says so.",
    ("uninitialised-read", "as-warp"): (
        "It is not known on Warp which memory was never written. The coverage says so."
    ),
}
"""By rule and the side that has more."""

OTHER_POINT = "The first tape agrees. Later tapes begin where the gradients of the run led, and those of Warp are wrong."
PER_TAPE = (
    "A gap: on Warp the history of a gradient is followed on one tape only, so that a gradient that comes from "
    "an earlier tape is no finding. If it was not zero when a reverse pass began, the coverage says so."
)
SAME_ERROR = "The same error at the same line with the same numbers; on Warp it is measured as an overwrite."

BY_PROGRAM: dict[tuple[str, str], str] = {
    ("c01_probe_in_place", "overwrite"): OTHER_POINT,
    ("c04_pendulum_tuned_by_descent", "warp-limitation"): OTHER_POINT,
    ("c06_springs_never_zeroed", "accumulated"): PER_TAPE,
    ("c06_springs_never_zeroed", "verdict"): PER_TAPE,
    ("c07_furnace_one_tape_per_hour", "truncated"): PER_TAPE,
    ("c07_furnace_one_tape_per_hour", "verdict"): PER_TAPE,
    ("c24_cart_one_tape_a_frame_zeroed", "truncated"): PER_TAPE,
    ("c24_cart_one_tape_a_frame_zeroed", "verdict"): PER_TAPE,
    ("c11_echo_gain_in_place", "warp-limitation"): SAME_ERROR,
    ("c11_echo_gain_in_place", "overwrite"): SAME_ERROR,
    ("c10_robust_fit_at_zero", "warp-limitation"): (
        "The loss has a kink, where two adjoints may choose two slopes. It was a false alarm; the rule was "
        "mended after this measurement."
    ),
    ("c17_terrain_row_after_row", "run"): (
        "This engine stops the launch with an error that names the line; Warp runs it, and the index is found "
        "afterwards."
    ),
    ("c23_wrist_two_angles_in_a_list", "disconnected"): (
        "A gap: reads of arrays through NumPy or lists are not seen on Warp."
    ),
    ("pair_01_04_decay_loop_under_warp", "overwrite"): (
        "The kernel has two errors. On Warp the effect of the overwrite is measured with Warp's adjoint kernel, "
        "which the other one makes wrong."
    ),
}
"""By program and rule."""
