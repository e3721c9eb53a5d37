"""Thresholds of verdicts: each decides if a gradient is called wrong, or if a finding is reported.

Limits of work (samples, sizes, seconds) stay beside the code that works.
"""


# ------------------------------------------------------------------ gradients against their reference

GRADIENT_WRONG = 1e-3
"""A gradient that differs by more, relatively, is WRONG: the default `rtol` of the end-to-end check."""

GRADIENT_CHANGED = 1e-5
"""A gradient that changes by less, relatively, is the same: float32 rounding explains the difference."""

OVERWRITE_ROUNDING = 1e-6
"""An overwrite that changes gradients by less, relatively, is not reported: a few roundings in float32."""

FLOAT64_RUNS_DIFFER = 1e-6
"""Two runs in float64 that differ by less, relatively, differ by rounding only."""

FLOAT32_RUNS_DIFFER = 1e-4
"""Two runs in float32 that differ by less, relatively, differ by rounding only (memory without a float64
twin)."""

OUTPUT_CHANGED = 1e-5
"""An exchange that changes less of what a launch writes, relatively, changes nothing."""

INTEROP_GRADIENT_CHANGED = 1e-9
"""A gradient that changes by less, relatively, does not depend on what PyTorch computed."""

ENTRY_IS_OFF = 1e-3
"""An entry that is off by more of the largest one shows, beside its float64 twin, what is wrong."""

RUNS_DIVERGED = 1e-3
"""Losses in float32 and float64 that differ by more, relatively, are those of two different runs."""

FLOAT32_RESOLUTION = 1e-7
"""An error bar below this part of a pair's largest entry is finer than float32 gradients can be."""

DIRECTIONS_MARGIN = 3.0
"""The gradient as a whole may be off by this many times the error along random directions."""

ENTRY_ROUNDING = 1e-5
"""An entry this small beside the largest is rounding in float32."""

FLOAT32_OFF_ITS_TWIN = 1e-2
"""A float32 gradient that is further from its own float64 twin, relatively, is off by more than rounding."""

REFERENCE_ROUNDINGS = 8.0
"""Roundings of its dtype by which an entry may differ from the reference: constants in a gradient are
rounded, too."""

REFERENCE_DECIDED = 0.25
"""An error bar of at most this part of the difference of two gradients along a direction decides which is
right."""

HESSIAN_ASYMMETRY = 1e-9
"""A relative mismatch of ⟨u, H v⟩ and ⟨v, H u⟩ that float64 rounding explains."""

HESSIAN_AGREES = 1e-5
"""Second derivatives agree if they differ from a difference of gradients by less than this part of their
size."""

CALL_GRADIENT_OFF = 1e-3
"""A custom gradient that is further from differences of its function, relatively, is WRONG."""


# ------------------------------------------------------------------ single launches

ADJOINT_ROUNDING = 1e-12
"""An entry below this part of the largest one of an adjoint in float64 is rounding."""

LAUNCH_ROUNDING = 1e-10
"""A change of a launch's outputs below this part of them, if an argument changes by 100 %, is rounding."""

BIAS_VISIBLE = 1e-5
"""The relative difference from which on errors are examined for a common sign."""

BIAS_ROUNDING = 1e-5
"""A difference below this part of a row's largest entry is rounding of the row's terms."""

BIAS_IS_FACTOR = 1e-5
"""The ratio of entries to their reference may scatter by this, relatively, and be one factor."""

VARIANT_ROUNDINGS = 64.0
"""Roundings of the largest gradient by which two variants of one adjoint may differ."""

FLOAT64_ADJOINT_OFF = 1e-7
"""A float64 adjoint that is off by more, relatively, is off by more than rounding."""

PROJECTION_ROUNDING = 1e-11
"""The error of a float64 sum, as a part of the sum of its terms' absolute values."""

PROJECTION_TOLERATED = 0.4
"""The part of `atol` by which a random projection may find an entry off that is not evaluated itself."""

TANGENT_INCOMPLETE = 0.5
"""The share of outputs whose tangent differs from differences from which on the tangent leaves something
out."""

PATTERN_TOLERATED = 0.5
"""The part of `atol` that an entry outside of the sparsity pattern may have if it is not evaluated itself."""

SUM_ROUNDING_FLOAT64 = 1e-9
"""The rounding of a float64 sum of entries, as a part of the sum."""

SUM_ROUNDING_FLOAT32 = 1e-5
"""The rounding of a float32 sum of entries, as a part of the sum."""

ENTRY_REFUTED = 3.0
"""Error bars by which a difference must be off to show that an entry is WRONG."""

ENTRY_PRECISION = 1e-7
"""A mismatch below this part of a derivative's size is not refuted by any difference."""

ENTRY_REPORTED = 1e-5
"""The relative error from which on an entry is reported."""

ENTRY_REPEATED = 0.1
"""A second difference, with shorter steps, confirms the first within this part of the error."""


# ------------------------------------------------------------------ float32 rounding, or an error

ROUNDING_MINOR = 1e-2
"""The relative rounding of a gradient that still agrees: the default `rtol` of `gradcheck`."""

ROUNDING_NOTED = 1e-4
"""The relative rounding of a gradient from which on its note tells rounding in the forward values from
that in the reverse pass: this takes a reverse pass of its own."""

ROUNDING_SPREAD = 10.0
"""Rounding may be this many times the largest scatter that was measured."""

ROUNDING_MARGIN = 4.0
"""A gradient that is off by more than this many times the scatter of a few rounded runs is not off by
rounding."""

ROUNDED_PER_WRONG = 20
"""Entries that rounding explains, for each that it seems not to explain."""

FORWARD_DIGITS_LOST = 1e-3
"""The relative error of a float32 forward value above which rounding inside the kernel is assumed."""

LOSS_ROUNDING_FLOAT32 = 1e-5
"""A change of a float32 loss below this part of it is hidden by its rounding."""

LOSS_ROUNDING_FLOAT64 = 1e-11
"""A change of a float64 loss below this part of it is rounding."""

ROUNDING_SENSITIVE = 1e-2
"""A gradient that moves by more, relatively, if the inputs are rounded once in float32, is sensitive to
rounding."""

FLOAT32_BAR_VISIBLE = 1e-8
"""The error bar, relative to a derivative, up to which an error bar of float32 matters beside it."""

TAPE_AMPLIFIES = 1e3
"""A displacement of the inputs that grows beyond this many times the largest values of the tape is
amplified."""

GRADIENT_STEADY = 4.0
"""The factor by which a gradient's rate of change may grow from one distance to the next."""

DERIVATIVE_REFUTED = 3.0
"""A float64 adjoint that is off by more than this many error bars of a difference is not the derivative."""

DIRECTIONS_RESOLVED = 1 / 3
"""The share of directions that must be resolved if the others are not."""

NEARLY_STATIONARY = 1e-4
"""A gradient below this part of its change over the inputs' size may be too small for differences."""

ASIDE_AGREES = 1e-3
"""The relative error to which the adjoint at displaced inputs agrees with differences."""


ADDITION_SMALL = 4.0
"""An addition below so many units in the last place of a sum may be lost."""

ADDITION_LOST = 0.1
"""The part of the sum of additions to an element that must be lost, and by which the loss must move without
the loss."""

ADDITION_LOST_UNITS = 8.0
"""Units in the last place that an element must lack in the end; rounding to and fro is less."""

LOSS_MOVED = 1e-3
"""A loss that lost additions change by less, relatively, does not depend on them."""


# ------------------------------------------------------------------ finite differences

FUNCTION_ROUNDING = 1e-9
"""A relative deviation below this is rounding within a function; chaos and jumps are larger."""

SLOPE_CONVERGED = 0.02
"""One-sided slopes (or jumps) that change by less, relatively, from step to step have converged."""

SLOPE_CONVERGED_STEPS = 5
"""Steps in a row in which slopes must converge; a chaotic map would show fewer by chance in a thousand
outputs."""

TERMS_PRECISION = 1e-4
"""Differences that are worse, relative to the terms of the product, are of no use."""

TERMS_DISAGREE = 100.0
"""Differences disagree from this many times their error on."""

DOT_PRODUCT_ROUNDING = 1e-14
"""A relative mismatch that float64 rounding explains without further runs."""

DOT_PRODUCT_NOISE = 100.0
"""A mismatch above this many times the measured rounding is not rounding."""

STAIRS_ROUNDING = 1e-5
"""Stairs above this part of a function's change over a step of 1 are too coarse for float64 rounding."""

LINE_IS_STRAIGHT = 1e-6
"""Two slopes that differ by less, of the largest slope, are those of a straight line."""

SLOPES_DIFFER = 1e-3
"""Slopes on both sides that differ by more, relatively, are two."""


# ------------------------------------------------------------------ patterns of errors

NUMBERS_EQUAL = 1e-3
"""A relative difference up to which two wrong entries show the same error."""

ENTRY_IS_ZERO = 1e-6
"""Float32 cannot tell an entry below this part of the largest one from zero."""

PATTERN_ROUNDING = 2e-6
"""A relative difference that float32 rounding in a kernel explains."""

PATTERN_INTERIOR = 4
"""Right elements between the ends from which on wrong ends are a boundary."""

PATTERN_ENTRIES = 4
"""Wrong entries, or elements, from which on a number that fits is no coincidence."""

PATTERN_INTEGERS = 20
"""Integers up to which a ratio is an integer factor without another reason."""

FACTOR_EXPLAINS = 1e-3
"""The relative remainder up to which a constant factor explains a wrong gradient."""

FACTOR_CONFIRMED = 1e-2
"""The relative distance from the factor up to which differences confirm it."""


# ------------------------------------------------------------------ findings

LOOP_GRADIENT_FADED = 1e-3
"""The rounding of a gradient that has faded in a loop, as a part of the one with which the loop began."""

SEED_IS_ADJOINT = 1e-3
"""A seed that differs by less, relatively, is the adjoint that another tape handed on."""

ORDER_SLOPE_ROUNDING = 1e-9
"""A slope below this part of the loss is rounding, where the gradient is 0."""

ROUNDTRIP_MULTIPLE = 1e-5
"""Values are a multiple of others, plus a constant, if they differ from that by less, relatively."""

HOST_SUM_MULTIPLE = 1e-6
"""The relative distance up to which a number counts as a multiple of the sum."""

TIME_STEPPING = 0.5
"""The share of its own value in the next one below which a loop is no time stepping."""

STEP_IS_MULTIPLE = 1e-3
"""A step is a multiple of a gradient if what that leaves of it is less, relatively."""

STEP_ALONG_GRADIENT = 0.5
"""A step goes along a gradient if the cosine of their angle is at least this, as with Adam or momentum."""

STEP_BEYOND_CHANCE = 4.0
"""The cosine times the square root of how many numbers were compared, at least: by chance that is about a
number from a normal distribution."""

CONTRIBUTIONS_EQUAL = 1e-4
"""Contributions that differ by less, relatively, are the same; sums in float32 round."""

SINGULAR_VALUES_NEAR = 1e-3
"""Singular values that differ by less, relatively, have vectors that turn by much when the matrix changes."""

ZERO_GRADIENT_NOISE = 1e-10
"""Changes of the loss below this, relative to it and to the largest change within 10 %, are rounding."""

ZERO_GRADIENT_CURVED = 30.0
"""A loss that changes by more than this factor when the displacement is 10 times as large has no slope."""

EXPLODING_REPORTED = 1e4
"""A loop that amplifies its adjoint by less is not reported."""

EXPLODING_WARNS = 1e6
"""Relative amplification beyond which a change of the last digit of a float32 decides about the loss."""

EXPLODING_WARNS_FLOAT64 = 1e14
"""Relative amplification beyond which a change of the last digit of a float64 decides about the loss."""

EXPLODING_NOISE = 0.1
"""A relative difference of the float32 and the float64 gradient beyond which neither is of use."""

OVERFLOW_EXPLAINED = 1e4
"""A loop that amplifies its adjoint by less does not explain why it overflows."""

SLOPE_IS_JUMP = 1e9
"""A ratio of slopes beyond which there is no slope but a jump."""

LOOP_MEMORY_REPORTED = 64_000_000
"""Bytes of saved loop values that are reported on any machine."""

LOOP_MEMORY_IGNORED = 8_000_000
"""Bytes below which loops are never reported, whatever the arrays: they fit into caches."""

LOOP_MEMORY_RATIO = 4
"""Saved loop values are reported from this many times the bytes of a launch's arrays on."""

UNCONVERGED_REPORTED = 0.01
"""A relative distance to the fixed point, or a relative change of loss or gradient, that matters."""

UNCONVERGED_FIXED = 1e-3
"""The relative distance to the fixed point that the proposed fix is to reach."""

VANISHED_GRADIENT = 1e-8
"""The size of a gradient, relative to the loss, below which a step in float32 has no effect."""

VANISHING_SLOPE = 0.05
"""The slope of an operation that has reached its flat part."""

VANISHING_LOSS_FALLS = 1e-6
"""The relative change of the loss that counts as progress."""

WARP_GRADIENT_ROUNDING = 1e-6
"""The part of the largest gradient that is rounding where another gradient is 0."""
