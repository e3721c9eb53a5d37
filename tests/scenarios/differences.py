"""Explanations, by hand, of differences between watched programs and `--as-warp`."""

BY_RULE: dict[tuple[str, str], str] = {
    ("not-reset", "as-warp"): "Warp keeps no record of earlier recordings. The coverage says so.",
    ("unconverged", "as-warp"): "A solve cannot be continued by more rounds on Warp. The coverage says so.",
}
"""By rule and the side that has more."""

OTHER_POINT = "The first tape agrees. Later tapes begin where the gradients of the run led, and those of Warp are wrong."
SEED_LEFT = (
    "In Warp the gradient of the first loss is still 1 when the second one is reversed: that pass adds the first "
    "loss once more, so the sum is twice the first and once the second. On this engine a pass leaves no seed."
)
SAME_ERROR = "The same error at the same line with the same numbers; on Warp it is measured as an overwrite."

BY_PROGRAM: dict[tuple[str, str], str] = {
    ("c01_probe_in_place", "overwrite"): OTHER_POINT,
    ("c04_pendulum_tuned_by_descent", "warp-limitation"): OTHER_POINT,
    ("c06_drone_step_before_backward", "accumulated"): (
        "In Warp `tape.zero()` zeroes only gradients that a pass of that tape has used: before `backward` it "
        "does nothing, and the gradients of earlier tapes stay. On this engine it zeroes all of them."
    ),
    ("c06_alike_two_losses_one_tape", "accumulated"): SEED_LEFT,
    ("c06_alike_two_losses_one_tape", "verdict"): SEED_LEFT,
    ("c11_echo_gain_in_place", "warp-limitation"): SAME_ERROR,
    ("c11_echo_gain_in_place", "overwrite"): SAME_ERROR,
    ("c17_terrain_row_after_row", "run"): (
        "This engine stops the launch with an error that names the line; Warp runs it, and the index is found "
        "afterwards."
    ),
    ("pair_01_04_decay_loop_under_warp", "overwrite"): (
        "The kernel has two errors. On Warp the effect of the overwrite is measured with Warp's adjoint kernel, "
        "which the other one makes wrong."
    ),
}
"""By program and rule."""
