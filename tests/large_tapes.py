"""Large tapes and traces: recorded ones, and made-up ones where recording would take too long.

Both look like a simulation of many bodies: each step is a scope, in it a launch for each body that reads the
state of this step and its neighbour's, and writes the next.
"""

from __future__ import annotations

import tapedebug as wp
from tapedebug.trace import (
    Argument,
    ArrayInfo,
    Backward,
    Launch,
    Location,
    Scope,
    Sequence,
    Summary,
    TapeInfo,
    Trace,
    Version,
)


@wp.kernel
def advance(x: wp.array(dtype=float), beside: wp.array(dtype=float), dt: float, out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = x[i] + dt * wp.sin(beside[i] - x[i])


@wp.kernel
def squared(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * x[i])


def record_large(launches: int, arrays: int, *, size: int = 4) -> tuple[wp.Tape, wp.array]:
    """Return a tape of so many launches on so many arrays, and its loss; the last two add up the loss."""
    bodies = max(1, (arrays - 1) // 2)
    states = [
        [
            wp.array([0.1 * (b + k) for k in range(size)], dtype=float, requires_grad=True)
            for b in range(bodies)
        ]
        for _ in range(2)
    ]
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    left, step = launches - 2, 0
    with tape:
        while left > 0:
            now, then = states[step % 2], states[(step + 1) % 2]
            tape.record_scope_begin(f"step {step}")
            for body in range(min(bodies, left)):
                inputs = [now[body], now[(body + 1) % bodies], 0.01]
                wp.launch(advance, dim=size, inputs=inputs, outputs=[then[body]])
            tape.record_scope_end()
            left, step = left - bodies, step + 1
        for body in range(2):
            wp.launch(squared, dim=size, inputs=[states[step % 2][body % bodies]], outputs=[loss])
    return tape, loss


def make_large(launches: int, arrays: int, *, summaries: bool = True) -> Trace:
    """Return a trace like that of `record_large`, without a tape: a million launches in seconds."""
    bodies = max(1, arrays // 2)
    site = Location(file="/home/ada/bodies.py", line=40, column=8, function="simulate")
    trace = Trace(
        name="bodies", tape=TapeInfo(id=1, on_overwrite="preserve", launches=launches, backward_runs=1)
    )
    trace.arrays = [_array(a, bodies) for a in range(2 * bodies)]
    current = [_version(a, 0, None, summaries) for a in range(2 * bodies)]
    trace.versions.extend(current)
    steps = -(-launches // bodies)
    for index in range(launches):
        step, body = divmod(index, bodies)
        now, then = (0, bodies) if step % 2 == 0 else (bodies, 0)
        args = []
        for name, source in (("x", now + body), ("beside", now + (body + 1) % bodies)):
            seen = current[source]
            if not seen.reads or seen.reads[-1] != index:
                seen.reads.append(index)
                seen.needed_by.append(index)
            args.append(Argument(name=name, array=source, reads=True, read_version=seen.version, needed=True))
        old = current[then + body]
        new = current[then + body] = _version(then + body, old.version + 1, index, summaries)
        old.overwritten_by = index
        old.status = "preserved" if old.needed_by else "harmless"
        old.preserved = bool(old.needed_by)
        trace.versions.append(new)
        args += [
            Argument(name="dt", value=0.01),
            Argument(name="out", array=then + body, writes=True, write_version=new.version),
        ]
        trace.launches.append(
            Launch(
                index=index,
                kind="kernel",
                kernel=None,
                name="advance",
                dim=[1024],
                args=args,
                scope=step,
                seconds=1e-5 + 1e-8 * (index * 7919 % 1000),
                backward_seconds=2e-5 + 1e-8 * (index * 104729 % 1000),
                call_site=site,
            )
        )
    trace.scopes = [
        Scope(id=s, name=f"step {s}", parent=None, first=s * bodies, last=min(launches, (s + 1) * bodies) - 1)
        for s in range(steps)
    ]
    count = launches // (2 * bodies)
    if count > 1:
        trace.sequences = [Sequence(first=0, length=2 * bodies, count=count)]
    trace.versions.sort(key=lambda version: (version.array, version.version))
    trace.backward = Backward(ran=True, loss=None, order=list(range(launches - 1, -1, -1)))
    return trace


def _array(number: int, bodies: int) -> ArrayInfo:
    which, body = divmod(number, bodies)
    return ArrayInfo(
        id=number,
        label=f"{'x' if which == 0 else 'x_next'}[{body}]",
        dtype="float32",
        shape=[1024],
        requires_grad=True,
        buffer=number,
        start=0,
        stop=4096,
        role="input" if which == 0 else "intermediate",
    )


def _version(array: int, number: int, writer: int | None, summaries: bool) -> Version:
    version = Version(array=array, version=number, written_by=writer)
    if summaries:
        noise = (number * 7919 + array * 104729) % 99991 / 99991
        version.value = Summary(count=1024, min=-1 - noise, max=1 + noise, mean=0.1 * noise, norm=30 + noise)
        version.adjoint = Summary(count=1024, min=-noise, max=noise, mean=1e-3 * noise, norm=0.3 + noise)
    return version
