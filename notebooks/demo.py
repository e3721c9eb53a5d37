"""The demo: gradient descent that follows a wrong gradient, the line that makes it wrong, and the fixed run.

The problem is that of `net.py`: a net is thrown at a target. Nothing is preserved while it is recorded
(`on_overwrite="ignore"`), which is how Warp records: then the two position buffers that take turns make the
gradient silently wrong. By default tapedebug preserves what they overwrite, and both versions are right.

    python notebooks/demo.py --report report.html
"""

import argparse
import os
import textwrap
from typing import Any

import net
import numpy as np

import tapedebug as wp

THROWS = 8


def show(text: str, indent: str = "   ") -> None:
    """Print a paragraph."""
    print(textwrap.fill(text, 100, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False))


def length(metres: float) -> str:
    """A distance for a person: 0.0026 is 2.6 mm."""
    unit, scale = ("mm", 1e3) if metres < 1 else ("m", 1.0) if metres < 1000 else ("km", 1e-3)
    return f"{metres * scale:.3g} {unit}"


def attempt(fabric: net.Net, buffers: str) -> tuple[wp.Tape, float]:
    """Record the first throw with its gradient, then descend; returns the tape, and the last miss (m)."""
    first, hand = (wp.array([net.FIRST_THROW], dtype=wp.vec3, requires_grad=True) for _ in range(2))
    tape, loss = net.record(fabric, first, buffers)
    tape.backward(loss)
    misses = [squared**0.5 for squared in net.descend(fabric, hand, THROWS, buffers=buffers)]
    print(f"   gradient of the first throw:  {np.array2string(first.grad.numpy()[0], precision=3)}")
    print(f"   each throw misses by (m):     {'  '.join(f'{miss:.3f}' for miss in misses)}")
    return tape, misses[-1]


def explain(diagnosis: Any) -> None:
    """Print the verdict and the worst finding: what happened, where, and what to change."""
    show(f"gradient {diagnosis.verdict}: {diagnosis.coverage.summary}")
    worst, *others = (finding for finding in diagnosis.findings if finding.severity == "error")
    print()
    show(f"✕ {worst.rule} · {', '.join(worst.arrays)}")
    show(worst.message, "     ")
    for what, place in (("kernel", worst.location), ("launched", worst.call_site)):
        print(f"     {what} at {os.path.relpath(place.file)}:{place.line}, in {place.function}")
    show(f"fix: {worst.fix}", "     ")
    if others:
        show(f"and {len(others)} more on the same line")


def main() -> None:
    """Descend, find the bug, fix it, descend again, and write both tapes side by side."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", metavar="FILE.html", help="write before and after as one HTML file")
    options = parser.parse_args()
    wp.config.on_overwrite = "ignore"
    fabric = net.make_net()

    print(f"A net is thrown at a target {THROWS} times; gradient descent improves each throw by the last.\n")
    print("1. As first written: two buffers of positions take turns (notebooks/net.py)")
    before, miss = attempt(fabric, "pingpong")
    show(f"Descent follows a wrong gradient: the last throw misses the target by {length(miss)}.")

    print("\n2. What diagnose(tape) says")
    explain(wp.diagnose(before))

    print("\n3. With the fix: an array of its own for each step (net.py --buffers distinct)")
    after, miss = attempt(fabric, "distinct")
    show(f"The last throw hits the target: it is {length(miss)} off.")

    print("\n4. What diff(before, after) says")
    compared = wp.diff(before, after)
    print(textwrap.indent(str(compared), "   "))
    if options.report:
        path = compared.save(options.report)
        print(f"\nBoth side by side: {os.path.relpath(path)} (open it in a browser; it needs no network)")


if __name__ == "__main__":
    main()
