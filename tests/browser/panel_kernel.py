"""A kernel for a panel in a plain page: records a tape, then answers questions, one JSON line each."""

import base64
import json
import sys

import numpy as np

import tapedebug as wp
from tapedebug.panel.check_runner import describe
from tapedebug.panel.panel_source import default_mask, subject_of
from tapedebug.panel.queries import answer


@wp.struct
class State:
    q: wp.array(dtype=wp.vec2)
    mass: wp.array(dtype=float)


@wp.func
def pull(q: wp.vec2, stiffness: float):
    return q * (-stiffness * wp.length(q))


@wp.kernel
def spring(state: State, force: wp.array(dtype=wp.vec2), stiffness: float):
    i = wp.tid()
    # a comment long enough to need a scroll bar: what is said of a line must not lie on top of its code
    force[i] = pull(state.q[i], stiffness) * state.mass[i]


@wp.kernel
def integrate(state: State, force: wp.array(dtype=wp.vec2), dt: float):
    i = wp.tid()
    state.q[i] = state.q[i] + force[i] * (dt * dt / state.mass[i])


@wp.kernel
def diffuse(heat: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    out[i, j] = 0.5 * heat[i, j] + 0.25 * (heat[wp.max(i - 1, 0), j] + heat[i, wp.max(j - 1, 0)])


@wp.kernel
def roots(big: wp.array(dtype=float), root: wp.array(dtype=float)):
    i = wp.tid()
    root[i] = wp.sqrt(big[i])


@wp.kernel
def measure(
    q: wp.array(dtype=wp.vec2),
    heat: wp.array2d(dtype=float),
    root: wp.array(dtype=float),
    loss: wp.array(dtype=float),
):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.length(q[i]) + heat[i, i] + root[i])


def record() -> tuple[wp.Tape, wp.array]:
    """A simulation whose state is overwritten while adjoints need it, a NaN in the last launch but one."""
    rng = np.random.default_rng(3)
    state = State()
    state.q = wp.array(rng.standard_normal((24, 2)), dtype=wp.vec2, requires_grad=True)
    state.mass = wp.array(1.0 + rng.random(24), dtype=float, requires_grad=True)
    force = wp.zeros(24, dtype=wp.vec2, requires_grad=True)
    heat = wp.array(rng.random((32, 48)), dtype=float, requires_grad=True)
    out = wp.zeros((32, 48), dtype=float, requires_grad=True)
    big = wp.array(np.where(np.arange(9000) == 5, -1.0, np.arange(9000)), dtype=float, requires_grad=True)
    root = wp.zeros(9000, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape(on_overwrite="ignore") as tape:
        for step in range(6):
            with wp.ScopedTimer(f"step {step}", active=False):
                wp.launch(spring, dim=24, inputs=[state, force, 2.5])
                wp.launch(integrate, dim=24, inputs=[state, force, 0.1])
        wp.launch(diffuse, dim=(32, 48), inputs=[heat, out])
        wp.launch(diffuse, dim=(32, 48), inputs=[out, heat])
        wp.launch(roots, dim=9000, inputs=[big, root])
        wp.launch(measure, dim=24, inputs=[state.q, heat, root, loss])
    tape.backward(loss)
    return tape, loss


def main() -> None:
    """Say the trace, then answer."""
    tape, loss = record()
    diagnosis = wp.diagnose(tape, progress=False)
    subject = subject_of(diagnosis)
    packed = {name: text_of(column) for name, column in subject.packed.columns.items()}
    say({"head": subject.head, "packed": packed, "mask": default_mask(subject.head)})
    for line in sys.stdin:
        try:
            question = json.loads(line)
            if question["type"] == "backward":
                tape.zero()
                tape.backward(grads={loss: wp.array([question["seed"]], dtype=float)})
                say({})
                continue
            given = answer(subject, question)
            say({"data": given.data, "buffers": [text_of(buffer) for buffer in given.buffers]})
        except Exception as error:
            say({"refused": describe(error)})


def text_of(data: bytes) -> str:
    """Return bytes as they travel in JSON."""
    return base64.b64encode(data).decode()


def say(message: dict) -> None:
    """Print one line."""
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()
