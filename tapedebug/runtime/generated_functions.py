"""Functions made from text, for the code that runs before every launch: the only such code of the runtime.

A loop over the arguments of a launch, with tests of what each one is, takes longer than the work itself.
Therefore each kernel gets functions whose text has one expression for each argument, as `dataclasses` writes
an `__init__`.

Measured against closures that loop (CPU time of a launch in µs, minima of 60 interleaved rounds in one
process, Python 3.11):

| arguments | launch | taped launch | hook alone, taped | packing alone, taped |
| --- | --- | --- | --- | --- |
| 3 | 3.0 → 3.6, ×1.20 | 5.1 → 8.2, ×1.6 | ×1.41 to 1.56 | ×1.16 to 1.42 |
| 8 | 3.5 → 4.4, ×1.25 | 9.0 → 14.5, ×1.6 | ×1.33 to 1.37 | ×1.13 to 1.17 |

Keys of plans (`launch.kinds_of`) are not generated: that would save ×1.1 of launches whose kinds alternate.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping
from functools import cache
from types import CodeType
from typing import Any


def function_from_text(name: str, text: str, values: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function that a text defines; tracebacks and debuggers show its lines.

    Args:
        name: The name of the function.
        text: A `def` statement.
        values: Its global names.
    """
    names = {"__name__": __name__, **values}  # frames of this package are never call sites
    exec(_compiled(name, text), names)
    made: Callable[..., Any] = names[name]
    return made


@cache
def _compiled(name: str, text: str) -> CodeType:
    file = f"{__file__} ({name} {_compiled.cache_info().currsize})"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return compile(text, file, "exec", dont_inherit=True)
