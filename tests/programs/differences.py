"""Results of both engines in watched programs: `python -m tests.programs.differences [NAME …]`.

Each program that is named runs watched, in a process of its own. Of each kernel that a tape of the program
launched, the results of the first launches are compared with those of the mirror, and Warp's adjoint kernel with
the exact adjoint, as the diagnosis does it: with the values and the adjoints of the program. Where the
program never calls `backward`, the adjoint of the last float array that was written is random.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from tests.programs.catalog import BY_NAME, PROGRAMS, Program
from tests.programs.process import result_of, store, stored

RESULTS = Path(__file__).parent / "differences.json"
KINDS = {
    "loop": "values of a loop",
    "while": "values of a `while` loop",
    "part": "assigned components",
    "array": "`*=` on an array",
    "counter": "numbers from atomics",
    "function": "functions without an adjoint in Warp",
    "adjoint": "no known construct",
}
"""Warp's limitations by the kinds of `contract.ReverseDivergence`, as the page calls them."""
DIFFER = "its results differ"
"""The beginning of the reason why a mirror is not used whose results are not Warp's."""


def compare(tapes: Iterable[Any]) -> dict[str, Any]:
    """Compare the results and the adjoints of both engines on the tapes of a program.

    Args:
        tapes: The watched tapes.

    Returns:
        By kernel: `launches`, `mirrored`, `reason` (why Warp alone runs it), `forward` (how its results
        differ, or nothing), `compared` (launches whose adjoint was not zero), `adjoint` (the largest relative
        difference of an adjoint that rounding does not explain), `limits` (kind and line of each construct
        that Warp may reverse wrongly).
    """
    from tapedebug.watch.mirror import AdjointComparison

    found: dict[str, Any] = {}
    for tape in tapes:
        tape.verify()
        launches = tape.launches
        comparison = AdjointComparison(tape, launches)
        comparison.measure(tape.seeds or _random_seeds(tape))
        for index, launch in launches.items():
            now = found.setdefault(
                launch.name,
                {
                    "launches": 0,
                    "mirrored": 0,
                    "reason": "",
                    "forward": "",
                    "compared": 0,
                    "adjoint": 0.0,
                    "limits": [],
                },
            )
            now["launches"] += 1
            mirrored = launch.mirrored
            now["mirrored"] += mirrored is not None
            if mirrored is None:
                reason = (launch.obstacle or launch.mirror_obstacle).partition(" (/")[0]
                now["forward" if reason.startswith(DIFFER) else "reason"] = reason
            now["compared"] += index in comparison.given
            for difference in comparison.differences.get(index, ()):
                if difference.relative > now["adjoint"]:
                    now["adjoint"], now["array"] = difference.relative, difference.access.name
                    assert mirrored is not None
                    now["limits"] = [[item.kind, item.span.line] for item in mirrored.divergences()]
    return found


def _random_seeds(tape: Any) -> dict[Any, np.ndarray]:
    """Return a random adjoint of the last array with a gradient that a launch of a tape wrote."""
    rng = np.random.default_rng(0)
    for launch in reversed(list(tape.launches.values())):
        for access in launch.accesses:
            array = access.array
            if access.writes and access.active and array.is_float:
                shape = (
                    array.current_gradient().shape if array.current_gradient() is not None else array.shape
                )
                return {array: rng.normal(size=shape).astype(array.scalar_dtype)}
    return {}


def row(kernels: dict[str, Any]) -> dict[str, Any]:
    """Return what the table needs of the kernels of a program."""
    return {
        "kernels": len(kernels),
        "mirrored": sum(k["mirrored"] > 0 or bool(k["forward"]) for k in kernels.values()),
        "forward": {name: k["forward"] for name, k in kernels.items() if k["forward"]},
        "compared": sum(k["compared"] > 0 for k in kernels.values()),
        "adjoint": {
            name: {
                "relative": float(f"{k['adjoint']:.3g}") if math.isfinite(k["adjoint"]) else None,
                "array": k["array"],
                "limits": k["limits"],
            }
            for name, k in kernels.items()
            if k["adjoint"]
        },
        "native": {name: k["reason"] for name, k in kernels.items() if k["reason"]},
    }


def measure(program: Program) -> dict[str, Any]:
    """Run a program in a process and a folder of its own; return its row, or the reason for none."""
    found = result_of("tests.programs.differences", ["--one", program.name])
    return found if "failed" in found else row(found)


def name_of(limits: Iterable[tuple[str, int]]) -> str:
    """Return Warp's limitations by name, each with its lines."""
    lines: dict[str, list[Hashable]] = {}
    for kind, line in limits:
        lines.setdefault(kind, []).append(line)
    return "; ".join(
        f"{KINDS[kind]} (line{'s' * (len(where) > 1)} {', '.join(map(str, where))})"
        for kind, where in lines.items()
    )


def section(results: dict[str, Any]) -> list[str]:
    """Return the lines of the page about differences between the engines."""
    rows = [(program.name, results[program.name]) for program in PROGRAMS if program.name in results]
    lines = [
        "",
        "## Results of both engines",
        "",
        "Each kernel that a tape of these programs launches, and that this project's compiler translates, ran both",
        "ways with the values of the program: the first three launches forward, and up to 32 in reverse, with the",
        "adjoint that came in. A difference is one that rounding in float32 does not explain: more than 1e-4 of the",
        "largest value of the array, and more than 8 times what this engine's own float32 result is off from the one in",
        "float64. Kernels whose adjoint was 0 in these runs are not compared in reverse.",
        "",
        "| Program | Kernels | Mirrored | Forward differs | Adjoint compared | Adjoint differs |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, found in rows:
        if "failed" in found:
            lines.append(f"| {name} | | | | | *{found['failed']}* |")
            continue
        lines.append(
            f"| {name} | {found['kernels']} | {found['mirrored']} | {len(found['forward'])} |"
            f" {found['compared']} | {len(found['adjoint'])} |"
        )
    message = [(name, found) for name, found in rows if "failed" not in found]
    total: Counter[str] = Counter()
    for _, found in message:
        total.update(
            kernels=found["kernels"],
            mirrored=found["mirrored"],
            forward=len(found["forward"]),
            compared=found["compared"],
            adjoint=len(found["adjoint"]),
        )
    lines.append(
        f"| all | {total['kernels']} | {total['mirrored']} | {total['forward']} | {total['compared']} |"
        f" {total['adjoint']} |"
    )
    differing = [
        *(
            (name, kernel, "its results", text)
            for name, found in message
            for kernel, text in found["forward"].items()
        ),
        *(
            (
                name,
                kernel,
                f"the adjoint of `{item['array']}`, "
                + (
                    "not finite in one of them"
                    if item["relative"] is None
                    else f"by {100 * item['relative']:.3g} %"
                ),
                name_of(item["limits"]),
            )
            for name, found in message
            for kernel, item in found["adjoint"].items()
        ),
    ]
    if differing:
        lines += [
            "",
            "Each difference, with the constructs of the kernel that Warp may reverse wrongly"
            " ([Warp's adjoints](warp-adjoints.md)):",
            "",
            "| Program | Kernel | Differs | Because of |",
            "| --- | --- | --- | --- |",
            *(
                f"| {name} | `{kernel}` | {what} | {reason} |".replace("<", "&lt;")
                for name, kernel, what, reason in differing
            ),
        ]
    return lines


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        import warp

        import tapedebug
        from tests.programs.one import run

        if hasattr(warp.config, "optimization_level"):
            warp.config.optimization_level = 0  # compiles in less time

        name, result = sys.argv[2:4]
        with tapedebug.watch_warp() as session:
            run(BY_NAME[name])
        Path(result).write_text(json.dumps(compare(session.tapes)), encoding="utf-8")
        return
    for name in sys.argv[1:]:
        results = stored(RESULTS) | {name: measure(BY_NAME[name])}
        store(RESULTS, results)
        print(name, results[name], flush=True)


if __name__ == "__main__":
    main()
