"""Notes for the coverage of a trace: facts that an engine does not provide about its tapes."""

from __future__ import annotations

from tapedebug.contract import History, KernelSource, RecordedTape, RecordingGaps, Retention

LACKS_OF_TAPES = {
    History: "does not tell when gradients are read, written or zeroed",
    Retention: "keeps no copies of overwritten values",
}


def missing_capabilities(tape: RecordedTape) -> list[str]:
    """Return one sentence for each capability that a tape lacks and that traces would show."""
    name = tape.engine.name
    found = [f"{name} {lack}" for kind, lack in LACKS_OF_TAPES.items() if tape.capability(kind) is None]
    launches = [operation for operation in tape.operations if operation.kind == "kernel"]
    without = sum(operation.capability(KernelSource) is None for operation in launches)
    if without:
        found.append(f"{name} does not give the source of {without:,} of {len(launches):,} launches")
    elif launches and not any(_accesses(operation.capability(KernelSource)) for operation in launches):
        found.append(f"{name} does not tell which lines read and write arrays")
    gaps = tape.capability(RecordingGaps)
    return found if gaps is None else [*found, *gaps.notes()]


def _accesses(source: KernelSource | None) -> bool:
    return source is not None and bool(source.accesses)
