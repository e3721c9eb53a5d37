"""The rules of the kernel language on NumPy scalars: what generated code calls, evaluated in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapedebug.contract import CannotFollow
from tapedebug.lang.lowering import in_python

_CODE: dict[str, Any] = {}


def evaluate(text: str, operands: Sequence[Any]) -> Any:
    """Return the value of a rule's text on NumPy scalars."""
    code = _CODE.get(text)
    if code is None:
        names = [f"x{i}" for i in range(9)]
        code = _CODE[text] = compile(text.format(*names), "<rule>", "eval")
    numbers = {f"x{i}": item for i, item in enumerate(operands)}
    try:
        with np.errstate(all="ignore"):
            return eval(code, {"__builtins__": {}, **in_python(), **numbers})
    except (AttributeError, KeyError, NameError, OverflowError, TypeError, ValueError) as error:
        # or it is not for this type
        raise CannotFollow(f"the operation {text} is not known here ({error})") from None
