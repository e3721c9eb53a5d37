"""`gradcheck_tape` and `check_pairs`: launch by launch, at the values of the launch."""

import json
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import GradcheckFailure, check_pairs, end_to_end, gradcheck_tape, pair_check
from tests.autograd import kernels as k


def record(*launches: Any, **options: Any) -> wp.Tape:
    tape = wp.Tape(**options)
    with tape:
        for kernel, args in launches:
            wp.launch(kernel, dim=len(args[0]), inputs=args)
    return tape


def chain(first: Any = k.square, second: Any = k.cube) -> tuple[wp.Tape, Any, Any, Any]:
    x, y, z = (k.vector([0.5, -2.0, 3.0]) for _ in range(3))
    return record((first, [x, y]), (second, [y, z])), x, y, z


QUIET: dict[str, Any] = {"show_summary": False, "raise_exception": False}


def test_every_launch_is_checked() -> None:
    tape, *_ = chain()
    result = gradcheck_tape(tape, **QUIET)
    assert result
    assert [(p.launch, p.subject, p.input, p.output, p.verdict) for p in result.pairs] == [
        (0, "launch 0 (square)", "x", "y", "AGREE"),
        (1, "launch 1 (cube)", "x", "y", "AGREE"),
    ]
    assert str(result.coverage) == (
        "2 of 2 launches checked one by one: 2 input-output pairs, 18 of 18 entries"
    )


def test_the_summary_has_a_table_for_each_launch(capsys: pytest.CaptureFixture) -> None:
    tape, *_ = chain()
    gradcheck_tape(tape)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "launch 0 (square)"
    assert [cell.strip() for cell in lines[1].split(" | ")][:3] == ["Input", "Output", "Max Abs Error"]
    assert lines[5] == "launch 1 (cube)"
    assert lines[-1] == "Gradient check for tape of 2 launches passed"


def test_values_are_those_of_the_launch_not_what_arrays_hold_later() -> None:
    x, y = k.vector([-1.0, 4.0]), k.vector([0.0, 0.0])
    tape = record((k.relu, [x, y]), (k.minus, [y, x]))
    x.assign([0.0, 0.0])  # exactly the kink of relu
    result = gradcheck_tape(tape, **QUIET)
    assert result.verdict == "AGREE"
    assert x.numpy().tolist() == [0.0, 0.0]


def test_values_that_numpy_wrote_between_launches_are_those_of_the_next_one() -> None:
    x, y = k.vector([1.0, 2.0]), k.vector([0.0, 0.0])
    with wp.Tape() as tape:
        wp.launch(k.square, 2, [x, y])
        x.numpy()[:] = [-3.0, 4.0]
        wp.launch(k.cube, 2, [x, y])
    result = gradcheck_tape(tape, **QUIET)
    assert result
    assert "x = wp.array([1.0, 2.0]" in result.reproduce(result.pairs[0])
    assert "x = wp.array([-3.0, 4.0]" in result.reproduce(result.pairs[1])
    del x
    assert "x = wp.array([-3.0, 4.0]" in result.reproduce(result.pairs[1])


def test_a_wrong_launch_is_named_alone() -> None:
    tape, *_ = chain(second=k.with_adjoint_of(k.cube, k.square))
    result = gradcheck_tape(tape, **QUIET)
    assert [p.verdict for p in result.pairs] == ["AGREE", "WRONG"]
    assert result.failing is result.pairs[1]
    with pytest.raises(GradcheckFailure) as caught:
        gradcheck_tape(tape, show_summary=False)
    assert caught.value.message.startswith(
        "Gradient check for tape of 2 launches failed: WRONG: launch 1 (cube), y with respect to x: "
        "d y[2] / d x[2]: AD 18, FD 243 ± "
    )


def test_in_place_launches_are_checked_with_their_old_values() -> None:
    x, y = k.vector([0.5, 3.0]), k.vector([2.0, -1.0])
    result = gradcheck_tape(record((k.times, [x, y])), **QUIET)
    assert [(p.input, p.output, p.verdict) for p in result.pairs] == [
        ("x", "y", "AGREE"),
        ("y", "y", "AGREE"),
    ]
    wrong = record((k.with_adjoint_of(k.times, k.square), [x, y]))
    assert gradcheck_tape(wrong, **QUIET).verdict == "WRONG"


def test_reverse_order_and_skipping() -> None:
    tape, *_ = chain()
    assert [p.launch for p in gradcheck_tape(tape, reverse_launches=True, **QUIET).pairs] == [1, 0]
    skipped = gradcheck_tape(tape, skip_to_launch_index=1, **QUIET)
    assert [p.launch for p in skipped.pairs] == [1]
    assert str(skipped.coverage) == (
        "1 of 2 launches checked one by one: 1 input-output pairs, 9 of 9 entries\n"
        "  - not checked: launch 0: skip_to_launch_index=1"
    )
    both = gradcheck_tape(tape, reverse_launches=True, skip_to_launch_index=1, **QUIET)
    assert [p.launch for p in both.pairs] == [0]


@pytest.mark.parametrize(
    "skip, message",
    [
        (-1, "gradcheck_tape: skip_to_launch_index counts from 0; got -1"),
        (
            2,
            "gradcheck_tape: skip_to_launch_index=2, and the tape has 2 launches: nothing would be left to "
            "check",
        ),
        (1.0, "gradcheck_tape: skip_to_launch_index is a number of launches; got 1.0"),
        (True, "gradcheck_tape: skip_to_launch_index is a number of launches; got True"),
    ],
)
def test_places_to_skip_to_that_are_none(skip: Any, message: str) -> None:
    tape, *_ = chain()
    with pytest.raises(wp.GradcheckError) as caught:
        gradcheck_tape(tape, skip_to_launch_index=skip, **QUIET)
    assert caught.value.message == message


def test_what_is_no_tape_is_refused() -> None:
    with pytest.raises(wp.GradcheckError) as caught:
        gradcheck_tape(k.square)
    assert str(caught.value) == (
        "gradcheck_tape: a tape is needed; got <kernel square> (Kernel)\n"
        "  = hint: record launches inside `with wp.Tape() as tape:`, or use gradcheck for a kernel"
    )


def test_no_launch_is_left_out_in_silence() -> None:
    x, y, z = k.vector([1.0, 2.0]), k.vector([0.0, 0.0]), k.vector([0.0, 0.0], grad=False)
    tape = record(*[(k.square, [x, y])] * 4, (k.cube, [y, x]), (k.times, [x, z]), (k.times, [x, y]))
    result = gradcheck_tape(
        tape,
        skip_to_launch_index=1,
        blacklist_kernels=["cube"],
        input_output_masks={6: [("x", "y")]},
        **QUIET,
    )
    assert [(p.launch, p.input) for p in result.pairs] == [(1, "x"), (2, "x"), (3, "x"), (6, "x")]
    assert result.coverage.notes == (
        "not checked: launch 0: skip_to_launch_index=1",
        "not checked: launch 4: cube is on the blacklist",
        "not checked: launch 5 (times): y has requires_grad=False",
        "not checked in launch 6 (times): left out by input_output_masks: y → y",
    )
    result = gradcheck_tape(tape, whitelist_kernels=["times"], **QUIET)
    assert result.coverage.notes[0] == "not checked: launches 0–3: square is not on the whitelist"


def test_black_and_white_lists() -> None:
    tape, *_ = chain()
    result = gradcheck_tape(tape, blacklist_kernels=["square"], **QUIET)
    assert [p.launch for p in result.pairs] == [1]
    assert result.coverage.notes == ("not checked: launch 0: square is on the blacklist",)
    result = gradcheck_tape(tape, whitelist_kernels=["square"], **QUIET)
    assert [p.launch for p in result.pairs] == [0]
    assert result.coverage.notes == ("not checked: launch 1: cube is not on the whitelist",)
    assert len(gradcheck_tape(tape, whitelist_kernels=[], **QUIET).pairs) == 2
    with pytest.raises(wp.GradcheckError) as caught:
        gradcheck_tape(tape, blacklist_kernels=["sqare"], **QUIET)
    assert caught.value.message == (
        "gradcheck_tape: blacklist_kernels names the kernel 'sqare'; the kernels on the tape are square, cube"
    )


def test_masks_by_kernel() -> None:
    x, y = k.vector([0.5, 3.0]), k.vector([2.0, -1.0])
    tape = record((k.times, [x, y]), (k.square, [x, y]))
    result = gradcheck_tape(tape, input_output_masks={"times": [("y", "y")]}, **QUIET)
    assert [(p.launch, p.input, p.output) for p in result.pairs] == [(0, "y", "y"), (1, "x", "y")]
    result = gradcheck_tape(tape, input_output_masks={"times": [(0, 0)]}, **QUIET)
    assert [(p.launch, p.input, p.output) for p in result.pairs] == [(0, "x", "y"), (1, "x", "y")]


def test_masks_by_launch_count_more() -> None:
    x, y = k.vector([0.5, 3.0]), k.vector([2.0, -1.0])
    tape = record((k.times, [x, y]), (k.times, [x, y]), (k.times, [x, y]))
    masks = {"times": [("y", "y")], 1: [("x", "y")], 2: [(x, y)]}
    result = gradcheck_tape(tape, input_output_masks=masks, **QUIET)
    assert [(p.launch, p.input) for p in result.pairs] == [(0, "y"), (1, "x"), (2, "x")]


@pytest.mark.parametrize(
    "masks, message",
    [
        ({7: []}, "gradcheck_tape: input_output_masks names launch 7, which is not on the tape"),
        ({2: []}, "gradcheck_tape: input_output_masks names launch 2, which is a copy, not a kernel"),
        (
            {"times": []},
            "gradcheck_tape: input_output_masks names the kernel 'times'; the kernels on the tape are "
            "square, cube",
        ),
        (
            [("x", "y")],
            "gradcheck_tape: input_output_masks is a dictionary from kernel keys (or indices of launches) to "
            "lists of pairs; got [('x', 'y')]",
        ),
        (
            {0: [(k.vector([1.0]), "y")]},
            "launch 0 (square): the input-output mask names an array (shape=(1,)) that is no argument of it",
        ),
    ],
)
def test_masks_of_tapes_that_name_what_there_is_not(masks: Any, message: str) -> None:
    tape, x, y, _ = chain()
    with tape:
        wp.copy(x, y)
    with pytest.raises(wp.GradcheckError) as caught:
        gradcheck_tape(tape, input_output_masks=masks, **QUIET)
    assert caught.value.message == message
    with pytest.raises(wp.GradcheckError, match=r"blacklist_kernels is a list of keys; got 'square'"):
        gradcheck_tape(tape, blacklist_kernels="square", **QUIET)


def test_the_options_of_gradcheck() -> None:
    tape, *_ = chain()
    result = gradcheck_tape(tape, check_forward_ad=True, check_batched_grad=True, **QUIET)
    assert [(p.launch, p.check) for p in result.pairs] == [
        (launch, check) for launch in (0, 1) for check in ("adjoint", "tangent", "batched adjoint")
    ]
    x, y = k.vector([1.0, 2.0]), k.vector([0.0, 0.0])
    only = gradcheck_tape(
        record((k.no_adjoint, [x, y])), check_backward_ad=False, check_forward_ad=True, **QUIET
    )
    assert [(p.check, p.verdict) for p in only.pairs] == [("tangent", "AGREE")]


def test_without_time_the_rest_is_not_checked() -> None:
    x, y = k.vector(np.linspace(0.5, 1.5, 300)), k.vector(np.zeros(300))
    tape = record(*[(k.square, [x, y])] * 40)
    assert gradcheck_tape(tape, max_inputs_per_var=2, **QUIET)
    result = gradcheck_tape(tape, max_seconds=0.05, **QUIET)
    assert (result.verdict, len(result.pairs)) == ("UNDECIDABLE", 40)
    late = [pair for pair in result.pairs if pair.verdict == "UNDECIDABLE"]
    assert late[-1].launch == 39
    assert late[-1].message == "not checked: time was up (max_seconds=0.05)"
    assert all(pair.verdict == "AGREE" for pair in result.pairs if pair not in late)
    assert result.coverage.notes[-1].endswith("–39: time was up (max_seconds=0.05)")


def test_how_far_it_is_is_told() -> None:
    tape, *_ = chain()
    seen: list[str] = []
    gradcheck_tape(tape, show_summary=False, progress=seen.append)
    assert seen == [
        "launch 0 (square), 1 of 2",
        "the adjoint, 1 input-output pair",
        "launch 1 (cube), 2 of 2",
        "the adjoint, 1 input-output pair",
    ]


def test_a_result_outlives_what_its_tape_recorded() -> None:
    x, y = k.vector([-1.0, 4.0]), k.vector([0.0, 0.0])
    tape = record((k.square, [x, y]), (k.cube, [y, x]))
    result = gradcheck_tape(tape, **QUIET)
    script = result.reproduce()
    x.numpy()[:] = 7.0
    tape.reset()
    assert result.reproduce() == script
    assert "x = wp.array([-1.0, 4.0]" in script


def test_launches_that_nothing_can_be_said_of_are_noted_and_do_not_raise() -> None:
    x, y, z = k.vector([1.0, 2.0]), k.vector([0.0, 0.0], grad=False), k.vector([0.0, 0.0])
    n = wp.array([1, 2], dtype=int)
    tape = wp.Tape()
    with tape:
        wp.launch(k.square, 2, [x, y])
        wp.launch(k.counting, 2, [n, n])
        wp.copy(z, x)
        wp.launch(k.no_adjoint, 2, [x, z])
        wp.launch(k.cube, 2, [x, z])
        tape.record_func(lambda: None, [x])
    result = gradcheck_tape(tape, show_summary=False)
    assert [p.launch for p in result.pairs] == [4]
    assert str(result.coverage) == (
        "1 of 6 launches checked one by one: 1 input-output pairs, 4 of 4 entries\n"
        "  - not checked: launch 2: a copy, not a kernel\n"
        "  - not checked: launch 5: a function that was recorded with record_func, not a kernel\n"
        "  - not checked: launch 0 (square): y has requires_grad=False\n"
        "  - not checked: launch 1 (counting): x holds int32, which has no derivatives; "
        "y holds int32, which has no derivatives\n"
        "  - not checked: launch 3 (no_adjoint): it has no adjoint: enable_backward=False"
    ), str(result.coverage)


def test_a_tape_on_which_nothing_can_be_checked_is_not_agreement() -> None:
    tape = record((k.square, [k.vector([1.0], grad=False), k.vector([1.0])]))
    result = gradcheck_tape(tape, **QUIET)
    assert (result.verdict, bool(result)) == ("UNDECIDABLE", False)
    with pytest.raises(GradcheckFailure) as caught:
        gradcheck_tape(tape, show_summary=False)
    assert caught.value.message == (
        "Gradient check for tape of 1 launch failed: UNDECIDABLE: nothing was checked: the launch does not "
        "have an input and an output with requires_grad=True"
    )
    assert gradcheck_tape(wp.Tape(), **QUIET).verdict == "UNDECIDABLE"


def test_arrays_that_a_kernel_takes_and_does_not_touch() -> None:
    x, unused, y, loss = k.vector([1.0, 2.0]), k.vector([5.0, 6.0]), k.vector([0.0, 0.0]), k.vector([0.0])
    tape = wp.Tape()
    with tape:
        wp.launch(k.ignoring, 2, [x, unused, y])
        wp.launch(k.total, 2, [y, loss])
    result = gradcheck_tape(tape, **QUIET)
    assert [(p.input, p.output, p.verdict) for p in result.pairs] == [
        ("x", "y", "AGREE"),
        ("unused", "y", "AGREE"),
        ("x", "loss", "AGREE"),
    ]
    assert end_to_end(tape, loss)
    assert tape.replay(dtype=wp.float64).values(unused).tolist() == [5.0, 6.0]


def test_reproduce_shows_the_values_of_the_launch() -> None:
    x, y = k.vector([-1.0, 4.0]), k.vector([0.0, 0.0])
    tape = record((k.square, [x, y]), (k.cube, [y, x]))
    x.assign([7.0, 7.0])
    script = gradcheck_tape(tape, **QUIET).reproduce()
    assert "x = wp.array([-1.0, 4.0], dtype=wp.float32, shape=(2,), requires_grad=True)" in script
    assert "def square(" in script


def test_views_and_slices_of_one_buffer() -> None:
    whole = k.vector([1.0, 2.0, 3.0, 4.0])
    tape = record((k.square, [whole[0:2], whole[2:4]]), (k.cube, [whole[2:4], whole[0:2]]))
    result = gradcheck_tape(tape, **QUIET)
    assert [p.verdict for p in result.pairs] == ["AGREE", "AGREE"]
    np.testing.assert_allclose(result.pairs[1].worst.fd, 3 * result.pairs[1].worst.ad / 3)


# ------------------------------------------------------------------ check_pairs


def entry(launch: int | None, source: str, target: str) -> dict:
    return {"launch": launch, "input": source, "output": target}


def test_chosen_pairs_in_the_order_of_the_mask() -> None:
    tape, x, y, z = chain()
    labels = {x: "x0", y: "middle", z: "result"}
    results = check_pairs(
        tape,
        [entry(None, "x0", "result"), entry(1, "x", "y"), entry(0, "x", "y"), entry(1, "x", "y")],
        labels=labels,
    )
    assert [(r.launch, r.input, r.output, r.verdict) for r in results] == [
        (None, "x0", "result", "AGREE"),
        (1, "x", "y", "AGREE"),
        (0, "x", "y", "AGREE"),
    ]
    for result in results:
        found = json.loads(json.dumps(result.to_dict(), allow_nan=False))
        assert list(found) == [
            "launch", "input", "output", "verdict", "max_abs_error", "max_rel_error", "message", "seconds",
        ]  # fmt: skip
        assert found["max_rel_error"] < 1e-5


def test_chosen_pairs_find_what_is_wrong() -> None:
    tape, x, _, z = chain(second=k.with_adjoint_of(k.cube, k.square))
    mask = [entry(0, "x", "y"), entry(1, "x", "y"), entry(None, "x", "z")]
    results = check_pairs(tape, mask, labels={x: "x", z: "z"})
    assert [r.verdict for r in results] == ["AGREE", "WRONG", "WRONG"]
    assert "the adjoint disagrees with differences of the loss" in results[2].message


def test_wrong_entries_outside_of_the_sample_are_found_by_random_combinations() -> None:
    n = 400
    x, y = k.vector(np.linspace(0.5, 1.5, n)), k.vector(np.zeros(n))

    def break_one(seeds: np.ndarray) -> None:
        seeds[171] = 0

    broken = k.with_seeds(k.square, break_one, n)
    single = gradcheck_tape(record((broken, [x, y])), max_outputs_per_var=48, max_inputs_per_var=48, **QUIET)
    assert single.pairs[0].evaluated < single.pairs[0].entries
    [result] = check_pairs(record((broken, [x, y])), [entry(0, "x", "y")])
    assert result.verdict == "WRONG"
    [result] = check_pairs(record((k.square, [x, y])), [entry(0, "x", "y")])
    assert result.verdict == "AGREE"


def test_pairs_without_a_derivative_say_why() -> None:
    tape, *_ = chain()
    results = check_pairs(tape, [entry(0, "y", "y"), entry(0, "x", "x")])
    assert [(r.verdict, r.message) for r in results] == [
        ("UNDECIDABLE", "not checked: the kernel does not read y"),
        ("UNDECIDABLE", "not checked: the kernel does not write x"),
    ]
    assert results[0].to_dict()["max_abs_error"] is None


def test_progress_without_a_count_of_the_steps_does_not_stand_still() -> None:
    seen: list[float] = []
    progress = pair_check._Progress(2, seen.append, None)
    progress.begin(1, 10)
    for _ in range(12):
        progress.checkpoint()
    assert seen[4] == 0.25
    assert seen[-2:] == [0.475, 0.475]
    progress.finish()
    progress.begin(1, 10, is_counted=False)
    seen.clear()
    for _ in range(200):
        progress.checkpoint()
    assert seen == sorted(set(seen))
    assert (seen[9], seen[-1]) == (0.75, pytest.approx(0.5 + 0.5 * 200 / 210))


def test_progress_goes_from_0_to_1() -> None:
    tape, *_ = chain()
    seen: list[float] = []
    check_pairs(tape, [entry(0, "x", "y"), entry(1, "x", "y")], progress=seen.append)
    assert (seen[0], seen[-1], seen == sorted(seen)) == (0.0, 1.0, True)
    assert len(set(seen)) > 4


def test_a_cancelled_check_returns_what_it_has() -> None:
    tape, *_ = chain()
    mask = [entry(0, "x", "y"), entry(1, "x", "y")]
    seen: list[float] = []
    results = check_pairs(tape, mask, progress=seen.append, cancelled=lambda: bool(seen) and seen[-1] >= 0.5)
    assert [r.launch for r in results] == [0]
    assert check_pairs(tape, mask, cancelled=lambda: True) == []


def test_results_are_told_one_by_one_also_of_a_check_that_is_cancelled() -> None:
    x, y, z = (k.vector([0.5, -2.0, 3.0]) for _ in range(3))
    loss = k.vector([0.0])
    tape = record((k.square, [x, y]), (k.cube, [x, z]), (k.total, [y, loss]), (k.total, [z, loss]))
    labels = {x: "x", y: "y", z: "z", loss: "loss"}
    messages: list[Any] = []
    mask = [entry(0, "x", "y"), entry(1, "x", "y"), entry(None, "x", "loss")]
    results = check_pairs(tape, mask, labels=labels, each=messages.append)
    assert [(r.launch, r.input) for r in messages][:3] == [(0, "x"), (1, "x"), (None, "x")]
    assert messages[-1] == results[-1]
    messages.clear()
    results = check_pairs(
        tape, mask, labels=labels, each=messages.append, cancelled=lambda: len(messages) >= 2
    )
    assert [r.launch for r in results] == [0, 1]


@pytest.mark.parametrize(
    "wrong, message",
    [
        (entry(2, "x", "y"), "check_pairs: there is no launch 2; the tape has launches 0 to 1"),
        (entry(0, "z", "y"), "check_pairs: launch 0 (square) has no array 'z'; it has x, y"),
        (entry(None, "x", "nothing"), "check_pairs: the tape has no array 'nothing'; it has x, y, y#2"),
    ],
)
def test_masks_that_name_what_there_is_not(wrong: dict, message: str) -> None:
    tape, *_ = chain()
    with pytest.raises(wp.GradcheckError) as caught:
        check_pairs(tape, [wrong])
    assert caught.value.message == message
