"""Rule `not-reversed`: only the last of several tapes was reversed."""

import linecache

import pytest

import tapedebug as wp
from tapedebug.diagnose import Diagnosis

pytestmark = pytest.mark.unoptimized


@wp.kernel
def grow(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i] + 0.3


@wp.kernel
def add(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, y[wp.tid()] * y[wp.tid()])


@wp.kernel
def scaled(y: wp.array(dtype=float), x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, y[wp.tid()] * x[wp.tid()])


def vector(*values: float) -> wp.array:
    return wp.array(values, dtype=float, requires_grad=True)


class Program:
    """Two tapes, of which the second is reversed."""

    def __init__(self, *, copied: bool = False, shared: bool = False) -> None:
        x, y, cost = vector(1.0, 2.0), vector(0.0, 0.0), vector(0.0)
        with wp.Tape() as first:
            wp.launch(grow, 2, [x], [y])
        z = wp.clone(y) if copied else y
        with wp.Tape() as second:
            if shared:
                wp.launch(scaled, 2, [z, x], [cost])
            else:
                wp.launch(add, 2, [z], [cost])
        second.backward(cost)
        self.first, self.second, self.x, self.y, self.z = first, second, x, y, z

    def diagnosed(self) -> Diagnosis:
        first, second = self.first, self.second
        return wp.diagnose([first, second])


def messages(found: Diagnosis) -> list[tuple[str, str]]:
    return [(item.severity, item.rule) for item in found.findings]


def test_an_earlier_tape_that_was_not_reversed_is_found_with_the_slopes():
    found = Program().diagnosed()
    assert (found.verdict, messages(found)) == ("AGREE", [("warning", "not-reversed")])
    (finding,) = found.findings
    assert finding.message == (
        "Launch 0 (add) of second reads the y that launch 0 (grow) of first wrote, and second was reversed, "
        "but first was not: the gradient ends in that of y, and x gets nothing. The slope of the loss along "
        "the gradient over all tapes is 34.8 by it, 0 by what was left, and 34.8 by differences in float64."
    )
    assert finding.fix == (
        "reverse first after second, by backward(), which begins with the gradient of y, or record all of it "
        "on one tape; where the gradient ends there on purpose, give y none (requires_grad=False)"
    )
    assert finding.location is not None
    line = linecache.getline(finding.location.file, finding.location.line)
    assert line.strip() == "y[i] = x[i] * x[i] + 0.3"


def test_a_gradient_that_was_read_since_is_an_error_and_the_verdict_is_wrong():
    program = Program()
    program.x.assign(program.x.numpy() - 0.1 * program.x.grad.numpy())
    found = program.diagnosed()
    assert (found.verdict, messages(found)[0]) == ("WRONG", ("error", "not-reversed"))


def test_a_state_that_is_handed_on_in_a_copy_is_followed():
    (finding,) = Program(copied=True).diagnosed().findings
    assert "reverse first after second, by backward(grads={y: z.grad}), or" in finding.fix


def test_an_input_with_a_gradient_of_the_later_tape_is_an_info():
    (finding,) = Program(shared=True).diagnosed().findings
    assert (finding.rule, finding.severity) == ("not-reversed", "info")
    assert "and x gets none of it" in finding.message


def test_reversing_the_earlier_tape_removes_it():
    program = Program()
    program.first.backward()
    assert messages(program.diagnosed()) == []


def test_a_state_whose_gradient_alone_was_zeroed_is_cut_on_purpose():
    program = Program()
    program.y.grad.zero_()
    assert messages(program.diagnosed()) == []


def test_windows_that_are_recorded_again_to_be_reversed_are_no_finding():
    program = Program(copied=True, shared=True)
    y = vector(0.0, 0.0)
    with wp.Tape() as again:
        wp.launch(grow, 2, [program.x], [y])
    again.backward(grads={y: program.z.grad})
    assert messages(wp.diagnose([program.first, program.second, again])) == []
