"""Rules `warp-limitation` and `replayed-counter`: what is said, and what is not said without `as_warp`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.aswarp import warp_reverse
from tapedebug.compiler import kernel_queries, pipeline
from tapedebug.compiler.passes import warp_forward
from tapedebug.trace import Finding

HERE = Path(__file__)


def line_of(text: str) -> int:
    """The first line of this file that holds `text`."""
    lines = HERE.read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


@wp.kernel
def fall(v0: wp.array(dtype=float), drag: wp.array(dtype=float), height: wp.array(dtype=float), n: int):
    i = wp.tid()
    v = v0[i]
    h = float(0.0)
    for _step in range(n):
        h += 0.1 * v
        v = v - drag[0] * v * v
    height[i] = h


@wp.kernel
def mean(v0: wp.array(dtype=float), drag: wp.array(dtype=float), height: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = float(0.0)
    for _term in range(n):
        s += v0[i]
    height[i] = s * s * drag[0]


@wp.kernel
def settle(v0: wp.array(dtype=float), drag: wp.array(dtype=float), height: wp.array(dtype=float), n: int):
    i = wp.tid()
    v = v0[i]
    while v > 0.2:
        v = v * (1.0 - drag[0])
    height[i] = v


@wp.kernel
def damp(v0: wp.array(dtype=float), drag: wp.array(dtype=float), height: wp.array(dtype=float), n: int):
    i = wp.tid()
    height[i] = v0[i]
    height[i] *= drag[0]


@wp.kernel
def tilt(v0: wp.array(dtype=float), drag: wp.array(dtype=float), height: wp.array(dtype=float), n: int):
    i = wp.tid()
    v = wp.vec2(v0[i], 1.0)
    v[0] = v[0] * drag[0]
    height[i] = wp.dot(v, v)


@wp.kernel
def both(v0: wp.array(dtype=float), drag: wp.array(dtype=float), height: wp.array(dtype=float), n: int):
    i = wp.tid()
    v = wp.vec2(v0[i], 1.0)
    v[1] = v[0] * drag[0]
    v[1] = v[1] * 2.0
    s = v[1]
    for _turn in range(n):
        s = s * drag[0]
    height[i] = s


@wp.kernel
def add(v0: wp.array(dtype=float), drag: wp.array(dtype=float), height: wp.array(dtype=float), n: int):
    i = wp.tid()
    v = wp.vec2()
    v[0] = v0[i]
    v[1] += drag[0]
    s = float(0.0)
    for k in range(n):
        s += v[0] * drag[0] * float(k)
    for _few in range(3):
        s *= 0.5 + v[1]
    height[i] += s


@wp.func
def fixed_point(a: float, b: float):
    x = a
    for _round in range(40):
        x = a + b * wp.sin(x)
    return x


@wp.func_grad(fixed_point)
def adj_fixed_point(a: float, b: float, adj_ret: float):
    x = fixed_point(a, b)
    slope = 1.0 / (1.0 - b * wp.cos(x))
    wp.adjoint[a] += slope * adj_ret
    wp.adjoint[b] += wp.sin(x) * slope * adj_ret


@wp.kernel
def solve(v0: wp.array(dtype=float), drag: wp.array(dtype=float), height: wp.array(dtype=float), n: int):
    i = wp.tid()
    height[i] = wp.cos(fixed_point(v0[i], drag[0]))


@wp.kernel
def total(height: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, height[wp.tid()])


def diagnosed(*kernels: Any, as_warp: bool = True, times: int = 1, n: int = 8) -> Any:
    """A diagnosis of some kernels, one after the other, each from the same start."""
    v0 = wp.array(np.array([1.0, 2.0], np.float32), dtype=float, requires_grad=True)
    drag = wp.array(np.array([0.1], np.float32), dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        for kernel in kernels:
            for _ in range(times):
                height = wp.zeros(2, dtype=float, requires_grad=True)
                wp.launch(kernel, dim=2, inputs=[v0, drag], outputs=[height, n])  # launched
                wp.launch(total, dim=2, inputs=[height], outputs=[loss])
    return wp.diagnose(tape, loss=loss, inputs=[v0, drag], as_warp=as_warp)


def only(found: Any) -> Finding:
    """The one finding that is no info."""
    (finding,) = [item for item in found.findings if item.severity != "info"]
    assert isinstance(finding, Finding)
    return finding


def test_a_loop_whose_iterations_are_needed() -> None:
    finding = only(diagnosed(fall))
    assert (finding.rule, finding.severity) == ("warp-limitation", "error")
    here = line_of("for _step in")
    assert finding.message == (
        f"Launch 0 (fall): the loop at {HERE.name}:{here} carries h and v, and its reverse needs what they "
        "held in each iteration. Here that is saved, so the gradient is right. Warp saves nothing and "
        "computes the iterations once more, from what h and v held before the loop: its gradient of drag is "
        "off by 54 %, that of v0 by 30 % (-2.37 in place of -5.14 for drag[0])."
    )
    assert finding.fix == (
        "for Warp, keep h and v of each iteration in an array of their own, or let it be written out: a "
        'constant range of at most 16, or of at most n with wp.set_module_options({"max_unroll": n})'
    )
    assert finding.location is not None and (finding.location.line, finding.location.function) == (
        here,
        "fall",
    )
    assert finding.call_site is not None and finding.call_site.line == line_of("# launched")
    assert (finding.launches, finding.arrays) == ([0], ["v0", "drag"])
    evidence = finding.evidence
    assert evidence["construct"] == "loop" and evidence["variables"] == ["h", "v"]
    assert evidence["constructs"] == [["loop", here]] and evidence["occurrences"] == 1
    assert evidence["relative_error"] == pytest.approx({"v0": 0.30, "drag": 0.54}, abs=0.01)
    drag = evidence["gradients"]["drag"]
    assert drag["element"] == "drag[0]" and drag["norm_wrong"] == abs(drag["wrong"])


def test_a_loop_whose_results_are_needed() -> None:
    finding = only(diagnosed(mean))
    here = line_of("for _term in")
    assert finding.message == (
        f"Launch 0 (mean): the loop at {HERE.name}:{here} leaves s to what follows, whose reverse needs its "
        "value. Here that is known, so the gradient is right. Warp's reverse pass leaves loops out where it "
        "computes values once more, and finds what s held before the loop: its gradient of v0 is off by "
        "100 %, that of drag by 100 % (0 in place of 25.6 for v0[1])."
    )
    assert finding.fix == "for Warp, move the loop into a @wp.func that returns s"


def test_a_while() -> None:
    finding = only(diagnosed(settle))
    assert finding.message.startswith(
        f"Launch 0 (settle): the `while` at {HERE.name}:{line_of('while v > 0.2')} is reversed here from its "
        "last iteration to its first, with the values that each had, so the gradient is right. Warp runs it "
        "forward again, and saves nothing: its gradient of drag is off by "
    )
    assert finding.fix == (
        "for Warp, launch the body once for each iteration, or write the loop out: over a constant range of "
        "at most 16 with an `if` in it"
    )


def test_an_operator_that_changes_an_array() -> None:
    found = diagnosed(damp)
    finding = only(found)
    here = line_of("height[i] *= drag")
    assert finding.message == (
        f"Launch 0 (damp): `height[i] *= drag[0]` at {HERE.name}:{here} changes elements in place, and its "
        "reverse needs what they held. Here that is kept, so the gradient is right. Warp's reverse pass "
        "reads what they hold after it: its gradient of drag is off by 90 % (0.3 in place of 3 for drag[0])."
    )
    assert finding.fix == "for Warp, write the result into an array of its own"
    for item in found.findings:  # what `overwrite` says of the line is a note
        assert item is finding or item.severity == "info"


def test_a_component_that_is_assigned_anew() -> None:
    finding = only(diagnosed(tilt))
    here = line_of("v[0] = v[0] * drag")
    assert finding.message == (
        f"Launch 0 (tilt): `v[0] = v[0] * drag[0]` at {HERE.name}:{here} assigns a part of a variable. Here "
        "that creates a new value, so the gradient is right. Warp changes the variable, whose adjoint goes "
        "to what the part held before, too: its gradient of v0 is off by 1000 % (0.44 in place of 0.04 for "
        "v0[1])."
    )
    assert finding.fix == "for Warp, create a new value from all its components, under a name of its own"


def test_a_loop_and_a_component_are_two_findings() -> None:
    found = [item for item in diagnosed(both).findings if item.severity == "error"]
    assert [item.evidence["construct"] for item in found] == ["loop", "part"]
    part = found[1]
    assert part.location is not None and part.location.line == line_of("v[1] = v[0] * drag")
    assert part.message.endswith(f" The same holds for line {line_of('v[1] = v[1] * 2.0')}.")


def test_many_launches_are_one_finding() -> None:
    finding = _limitation(diagnosed(fall, times=5))
    assert finding.message.startswith("Launch 0 (fall) and 4 more like it: the loop at ")
    assert finding.launches == [0, 2, 4, 6, 8] and finding.evidence["occurrences"] == 5


def test_each_kernel_is_measured_alone() -> None:
    found = [item for item in diagnosed(fall, mean).findings if item.severity == "error"]
    assert [item.launches for item in found] == [[0], [2]]
    alone = only(diagnosed(fall)).evidence["gradients"]["v0"]
    apart = found[0].evidence["gradients"]["v0"]
    assert apart["right"] - apart["wrong"] == pytest.approx(alone["right"] - alone["wrong"], rel=1e-4)


@pytest.mark.parametrize("kernel", [add, total])
def test_what_warp_reverses_rightly_is_nothing(kernel: Any) -> None:
    kernels = [add] if kernel is add else []
    found = diagnosed(*kernels, fall, n=1)  # a single iteration begins with what was before the loop
    assert not [item for item in found.findings if add.key in item.message and item.severity != "info"]


def test_a_loop_in_a_function_whose_gradient_is_given_is_nothing() -> None:
    found = diagnosed(solve)
    assert (found.verdict, found.findings) == ("AGREE", [])


@pytest.mark.parametrize("kernel", [fall, mean, settle, damp, tilt, both, add])
def test_without_as_warp_nothing_is_wrong(kernel: Any) -> None:
    found = diagnosed(kernel, as_warp=False)
    assert found.verdict == "AGREE"
    assert {item.severity for item in found.findings} <= {"info"}
    assert "Warp" not in str(found)


def test_no_array_changes() -> None:
    v0 = wp.array(np.array([1.0, 2.0], np.float32), dtype=float, requires_grad=True)
    drag = wp.array(np.array([0.1], np.float32), dtype=float, requires_grad=True)
    height = wp.zeros(2, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(fall, dim=2, inputs=[v0, drag], outputs=[height, 8])
        wp.launch(total, dim=2, inputs=[height], outputs=[loss])
    tape.backward(loss)
    before = [a.numpy().copy() for a in (v0, drag, height, loss, v0.grad, drag.grad)]
    wp.diagnose(tape, loss=loss, as_warp=True)
    for was, a in zip(before, (v0, drag, height, loss, v0.grad, drag.grad), strict=True):
        np.testing.assert_array_equal(a.numpy(), was)


# ------------------------------------------------------------------ values that later launches write over


@wp.kernel
def bounce(x: wp.array(dtype=float), y: wp.array(dtype=float), gain: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    for _hop in range(n):
        s = s - gain[0] * s * s
    y[i] = s


def ping_pong(rounds: int) -> tuple[Any, Any, Any]:
    """Two buffers that are written in turn."""
    gain = wp.array(np.array([0.05], np.float32), dtype=float, requires_grad=True)
    a = wp.array(np.array([1.0, 2.0], np.float32), dtype=float, requires_grad=True)
    b = wp.zeros(2, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        for _ in range(rounds):
            wp.launch(bounce, dim=2, inputs=[a, b, gain, 3])
            wp.launch(bounce, dim=2, inputs=[b, a, gain, 3])
        wp.launch(total, dim=2, inputs=[a], outputs=[loss])
    return tape, loss, gain


def separate(rounds: int) -> tuple[Any, Any, Any]:
    """The same with a buffer for each step."""
    gain = wp.array(np.array([0.05], np.float32), dtype=float, requires_grad=True)
    states = [wp.array(np.array([1.0, 2.0], np.float32), dtype=float, requires_grad=True)]
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        for _ in range(2 * rounds):
            states.append(wp.zeros(2, dtype=float, requires_grad=True))
            wp.launch(bounce, dim=2, inputs=[states[-2], states[-1], gain, 3])
        wp.launch(total, dim=2, inputs=[states[-1]], outputs=[loss])
    return tape, loss, gain


def _limitation(found: Any) -> Finding:
    (finding,) = [item for item in found.findings if item.rule == "warp-limitation"]
    assert isinstance(finding, Finding)
    return finding


def test_overwrites_are_another_matter() -> None:
    """The loop alone is measured, with the values that each launch saw: as if nothing were written over."""
    tape, loss, gain = ping_pong(3)
    mixed = _limitation(wp.diagnose(tape, loss=loss, inputs=[gain], as_warp=True))
    tape, loss, gain = separate(3)
    clean = _limitation(wp.diagnose(tape, loss=loss, inputs=[gain], as_warp=True))
    assert mixed.evidence["gradients"] == clean.evidence["gradients"]


def test_too_much_memory_is_a_gap_in_the_coverage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warp_reverse, "MOST", 8)
    tape, loss, gain = ping_pong(3)
    found = wp.diagnose(tape, loss=loss, inputs=[gain], as_warp=True)
    assert not [item for item in found.findings if item.rule == "warp-limitation"]
    assert (
        "warp-limitation was not looked for: what Warp would have computed needs more than 0 GB of values at "
        "once" in found.coverage.notes
    )


# ------------------------------------------------------------------ retain_grad


@wp.kernel
def push(k: wp.array(dtype=float), x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] + 0.1 * wp.sin(k[i])  # pushed


def pushed(*, retain: bool, rounds: int = 3) -> Any:
    """Two buffers that are written in turn; one may keep its gradient."""
    k = wp.array(np.array([0.9, 1.7], np.float32), dtype=float, requires_grad=True)
    a = wp.array(np.array([0.3, 0.2], np.float32), dtype=float, requires_grad=True)
    b = wp.zeros(2, dtype=float, requires_grad=True, retain_grad=retain)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        for _ in range(rounds):
            wp.launch(push, dim=2, inputs=[k, a], outputs=[b])
            wp.launch(push, dim=2, inputs=[k, b], outputs=[a])
        wp.launch(total, dim=2, inputs=[a], outputs=[loss])
    return wp.diagnose(tape, loss=loss, as_warp=True)


def test_an_array_that_keeps_too_much() -> None:
    finding = only(pushed(retain=True))
    assert finding.message == (
        "b keeps its gradient (retain_grad=True) and is written by 3 launches, last by launch 4 (push). Here "
        "an element that is overwritten passes its adjoint on once, so the gradient is right. In Warp the "
        "adjoint stays, and what was written before gets it again: its gradient of a is off by 300 %, that "
        "of k by 83 % (4 in place of 1 for a[0])."
    )
    assert (
        finding.fix == "for Warp, create b without retain_grad=True, or give each launch an array of its own"
    )
    assert finding.location is not None and finding.location.line == line_of("# pushed")
    assert finding.arrays == ["b", "k", "a"] and finding.launches == [0, 2, 4]
    assert finding.evidence["construct"] == "retain_grad"


@pytest.mark.parametrize(("retain", "rounds"), [(False, 3), (True, 1)])
def test_an_array_that_keeps_what_is_right(*, retain: bool, rounds: int) -> None:
    found = pushed(retain=retain, rounds=rounds)
    assert not [item for item in found.findings if item.severity != "info"]


# ------------------------------------------------------------------ replayed-counter


@wp.func
def slot_of(counter: wp.array(dtype=int), slots: wp.array(dtype=int), i: int):
    slot = wp.atomic_add(counter, 0, 1)
    slots[i] = slot
    return slot


@wp.func
def kept_slot_of(counter: wp.array(dtype=int), slots: wp.array(dtype=int), i: int):
    slot = wp.atomic_add(counter, 0, 1)
    slots[i] = slot
    return slot


@wp.func_replay(kept_slot_of)
def replayed(counter: wp.array(dtype=int), slots: wp.array(dtype=int), i: int):
    return slots[i]


@wp.kernel
def emit(
    counter: wp.array(dtype=int),
    slots: wp.array(dtype=int),
    x: wp.array(dtype=float),
    y: wp.array(dtype=float),
):
    k = wp.atomic_add(counter, 0, 1)  # counted
    y[k] = x[k] * x[k]


@wp.kernel
def emit_kept(
    counter: wp.array(dtype=int),
    slots: wp.array(dtype=int),
    x: wp.array(dtype=float),
    y: wp.array(dtype=float),
):
    i = wp.tid()
    k = kept_slot_of(counter, slots, i)
    y[k] = x[k] * x[k]


@wp.kernel
def emit_aside(
    counter: wp.array(dtype=int),
    slots: wp.array(dtype=int),
    x: wp.array(dtype=float),
    y: wp.array(dtype=float),
):
    i = wp.tid()
    slots[wp.atomic_add(counter, 0, 1)] = i
    y[i] = x[i] * x[i]


def emitted(kernel: Any, *, as_warp: bool = True) -> Any:
    """A kernel that hands out numbers."""
    x = wp.array(np.array([1.0, 2.0, 3.0], np.float32), dtype=float, requires_grad=True)
    y = wp.zeros(3, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=3, inputs=[wp.zeros(1, dtype=int), wp.zeros(3, dtype=int), x], outputs=[y])
        wp.launch(total, dim=3, inputs=[y], outputs=[loss])
    return wp.diagnose(tape, loss=loss, inputs=[x], as_warp=as_warp)


def test_a_counter_that_warp_does_not_count_again() -> None:
    finding = only(emitted(emit))
    assert (finding.rule, finding.severity) == ("replayed-counter", "error")
    here = line_of("# counted")
    assert finding.message == (
        f"Launch 0 (emit): the atomic at {HERE.name}:{here} hands out numbers that the gradient depends on. "
        "Here each thread finds the number that it had, so the gradient is right. Warp's reverse pass does "
        "not hand them out again, and the variable holds nothing in particular: with 0 its gradient of x is "
        "off by 96 % (0 in place of 6 for x[2])."
    )
    assert finding.fix == (
        "for Warp, move the atomic into a @wp.func that stores the number in an array, and give it a "
        "@wp.func_replay that reads it back"
    )
    assert finding.location is not None and finding.location.line == here


@pytest.mark.parametrize("kernel", [emit_kept, emit_aside])
def test_a_counter_that_is_found_again_or_not_needed(kernel: Any) -> None:
    found = emitted(kernel)
    assert found.verdict == "AGREE"
    assert not [item for item in found.findings if item.severity != "info"]


@pytest.mark.parametrize("kernel", [emit, emit_kept, emit_aside])
def test_without_as_warp_counters_are_saved(kernel: Any) -> None:
    found = emitted(kernel, as_warp=False)
    assert found.verdict == "AGREE"
    assert not [item for item in found.findings if item.severity != "info"]


# ------------------------------------------------------------------ what is not known, and what was asked for


@wp.kernel
def decompose(m: wp.array(dtype=wp.mat33), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    u = wp.mat33()
    s = wp.vec3()
    v = wp.mat33()
    wp.svd3(m[i], u, s, v)
    r = s[0]
    for _turn in range(n):
        r = r * s[1]
    out[i] = r


def test_a_kernel_of_which_nothing_is_known_is_a_gap_in_the_coverage() -> None:
    values = np.random.default_rng(0).random((2, 3, 3)).astype(np.float32)
    m = wp.array(values, dtype=wp.mat33, requires_grad=True)
    out = wp.zeros(2, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(decompose, dim=2, inputs=[m, out, 4])
        wp.launch(total, dim=2, inputs=[out, loss])
    found = wp.diagnose(tape, loss=loss, as_warp=True)
    assert not [item for item in found.findings if item.severity != "info"]
    assert (
        "warp-limitation: what Warp computes for decompose is not known: it calls a function of matrices, or "
        "its branches are nested too deep"
    ) in found.coverage.notes


@wp.kernel
def stairs(v0: wp.array(dtype=float), height: wp.array(dtype=float), n: int):
    i = wp.tid()
    r = v0[i]
    for turn in range(n):
        if r > 4.0:
            height[i] = r
            if r > 5.0:
                height[i] = r * float(turn)
                if r > 6.0:
                    height[i] = r * r
        r = r * 1.5
    height[i] = height[i] + r


@wp.func
def clipped(a: float):
    while a > 9.0:
        if a > 99.0:
            a = a * 0.1
        a = a - 1.0
    return a


@wp.kernel
def stairs_of_calls(v0: wp.array(dtype=float), height: wp.array(dtype=float), n: int):
    i = wp.tid()
    r = clipped(v0[i])
    while r < float(n):
        if r > 4.0:
            r = r + clipped(r * r)
            if r > 5.0:
                for _turn in range(n):
                    r = clipped(r * 1.5)
        r = r + 1.0
    height[i] = r


def test_a_reverse_of_too_many_branches_is_not_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are counted before the reverse is built, which takes seconds for thousands."""
    built = []
    branch = warp_forward.Forward._branch
    monkeypatch.setattr(warp_forward.Forward, "_branch", lambda *args: (built.append(1), branch(*args))[1])
    for kernel in (stairs, stairs_of_calls):
        built.clear()
        pipeline.warp_adjoint(kernel._in_place, frozenset({0, 1}), frozenset())
        assert kernel.emulated_branches == len(built) > 5
        with monkeypatch.context() as patch, pytest.raises(warp_forward.NotEmulated):
            patch.setattr(warp_forward, "MOST_BRANCHES", len(built) - 1)
            kernel_queries.warp_adjoint(kernel, frozenset({0, 1}))
        kernel_queries.warp_adjoint(kernel, frozenset({0, 1}))


def test_a_run_that_consumed_what_warp_computes_is_told_so() -> None:
    v0 = wp.array(np.array([1.0, 2.0], np.float32), dtype=float, requires_grad=True)
    drag = wp.array(np.array([0.1], np.float32), dtype=float, requires_grad=True)
    height = wp.zeros(2, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.as_warp(), wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(fall, dim=2, inputs=[v0, drag], outputs=[height, 8])
        wp.launch(total, dim=2, inputs=[height], outputs=[loss])
    tape.backward(loss)
    finding = _limitation(wp.diagnose(tape, loss=loss, as_warp=True))
    assert drag.grad.numpy()[0] == pytest.approx(finding.evidence["gradients"]["drag"]["wrong"])
    message = finding.message
    assert (
        "Here that is saved, so that by default the gradient is right; with "
        'on_overwrite="ignore" this run consumed Warp\'s. Warp saves nothing' in message
    )
