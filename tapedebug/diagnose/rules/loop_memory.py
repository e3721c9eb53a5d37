"""Rule `loop-memory`: adjoints that store many values of their loops.

The reverse of a loop needs the values of its variables in each iteration, which are stored while one thread
is reversed. That is no mistake, but it explains the memory use.
"""

from __future__ import annotations

from collections.abc import Iterator

from tapedebug.autograd.thresholds import LOOP_MEMORY_IGNORED, LOOP_MEMORY_RATIO, LOOP_MEMORY_REPORTED
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.places import location_at
from tapedebug.diagnose.rule import RuleFinding, TapeRule
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.timings import READS_TRACE, Cost
from tapedebug.trace import Finding, Launch


class LoopMemory(TapeRule):
    """Adjoints that store many values of their loops."""

    code = "loop-memory"
    title = "The adjoint of a loop stores many values"
    severity = "info"

    def cost(self, context: RuleContext) -> Cost:
        """Estimate a look at the trace."""
        return READS_TRACE

    def check(self, context: RuleContext) -> Iterator[Finding]:
        """Yield a note for each kernel whose adjoint stores many loop values."""
        largest: dict[int | None, tuple[int, int]] = {}
        count: dict[int | None, list[int]] = {}
        kept = context.experiment.stored_loops()
        for index, loops in kept.items():
            launch = context.trace.launches[index]
            size = sum(loop.bytes for loop in loops)
            much = LOOP_MEMORY_RATIO * _arrays(context, launch)
            if size >= LOOP_MEMORY_REPORTED or size >= max(LOOP_MEMORY_IGNORED, much):
                count.setdefault(launch.kernel, []).append(index)
                if size > largest.get(launch.kernel, (0, 0))[0]:
                    largest[launch.kernel] = (size, index)
        for kernel, (_, index) in largest.items():
            yield _finding(context, index, count[kernel])


def _arrays(context: RuleContext, launch: Launch) -> int:
    ids = {arg.array for arg in launch.args if arg.array is not None}
    return sum(context.trace.arrays[number].stop - context.trace.arrays[number].start for number in ids)


def _finding(context: RuleContext, index: int, launches: list[int]) -> Finding:
    launch, loops = context.trace.launches[index], context.experiment.stored_loops()[index]
    size, first = sum(loop.bytes for loop in loops), max(loops, key=lambda loop: loop.bytes)
    location = location_at(first.span)
    arrays = _arrays(context, launch)
    more = f" Loops beside it and inside it bring that to {words.size(size)}." if len(loops) > 1 else ""
    others = f" {len(launches) - 1} more launches like it." if len(launches) > 1 else ""
    return RuleFinding(
        rule=LoopMemory.code,
        severity="info",
        message=(
            f"the adjoint of {words.launch_words(launch)} keeps {words.plural(first.values, 'value')} of "
            f"each of {first.iterations:,} iterations of the loop at {words.place(location)}: "
            f"{words.size(first.bytes)} while one thread is reversed, where the arrays of the launch take "
            f"{words.size(arrays)}.{more}{others}"
        ),
        launches=[index, *(other for other in launches if other != index)],
        arrays=[],
        location=location,
        call_site=launch.call_site,
        harmless=True,
        evidence={
            "bytes": size,
            "array_bytes": arrays,
            "loops": [
                {"line": loop.span.line, "iterations": loop.iterations, "values": loop.values}
                for loop in loops
            ],
        },
        fix=(
            "nothing has to change; to save the memory, launch the loop in parts: a kernel that runs "
            f"{round(first.iterations**0.5):,} iterations, launched {round(first.iterations**0.5):,} times, "
            "with what it carries in arrays"
        ),
    )
