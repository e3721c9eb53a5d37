"""Generated source text, with the user's line for each of its lines."""

from __future__ import annotations

from tapedebug._dataclass import dataclass
from tapedebug._source import Span
from tapedebug.compiler.diagnostics import Diagnostic


@dataclass(frozen=True, slots=True)
class Line:
    """One line of generated code and the user's place it came from."""

    text: str
    span: Span | None


@dataclass(frozen=True, slots=True)
class NameFacts:
    """Facts of the IR about names of a generated function whose threads run in lockstep, sorted by name.

    Attributes:
        varying: The names that differ between the threads of a block.
        invariant: Places of elements that are the same for all threads.
        sizes: Places that are numbered components of elements, each with the number of components.
        indices: Values read from memory that are indices of additions.
    """

    varying: tuple[str, ...]
    invariant: tuple[str, ...]
    sizes: tuple[tuple[str, int], ...]
    indices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SimdLoop:
    """A loop over threads that can run in lockstep, each thread in a lane of a vector.

    Attributes:
        loop: The variable of the innermost loop over threads.
        bits: How wide the processor's vectors are; a lane has 32.
        math: Whether vector functions of the C library are called, which err by up to 4 units in the last
            place where the others err by 1.
        facts: What the IR knows of the names in it.
        streams: Whether stores bypass the caches.
    """

    loop: str
    bits: int
    math: bool
    facts: NameFacts
    streams: bool = False


@dataclass(frozen=True)
class GeneratedSource:
    """A generated function: `entry(lo, hi, args)` runs the threads lo … hi-1.

    Attributes:
        lines: Its lines.
        diagnostics: What it may say, by number.
        facts: What the IR knows of its names, if that was asked for.
        lanes: Set where it is compiled in lanes.
    """

    lines: tuple[Line, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    facts: NameFacts | None = None
    lanes: SimdLoop | None = None

    @property
    def code(self) -> str:
        """The Python text; free of line numbers and paths, so that it can be a cache's key."""
        return "".join(line.text + "\n" for line in self.lines)

    def annotated(self) -> str:
        """The text with the user's line beside each line that came from one."""
        width = min(88, max((len(line.text) for line in self.lines), default=0))
        shown = []
        for line in self.lines:
            note = f"  # {line.span.line}: {line.span.text.strip()}" if line.span else ""
            shown.append(f"{line.text:<{width}}{note}".rstrip())
        return "\n".join(shown)
