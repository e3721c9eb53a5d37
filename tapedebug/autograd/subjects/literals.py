"""Write values as Python source: numbers, vectors, arrays, structs."""

from __future__ import annotations

import base64
import textwrap
import zlib
from collections.abc import Mapping

import numpy as np

from tapedebug._float_types import is_float
from tapedebug.autograd.array_types import Values, ValueType
from tapedebug.lang.types import Compound, canonical, numpy_dtype
from tapedebug.lang.types import expression as written

INLINE = 64  # numbers that are written out; longer arrays are packed
MARK = "@@{}@@"  # stands for a packed array until it is known where it goes

UNPACK = '''
def unpacked(dtype, shape, text):
    """Numbers that were too many to be written out: zlib, base64."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=dtype).reshape(shape)
'''


class Packed:
    """The arrays of a script that are too long to be written out."""

    def __init__(self) -> None:
        self.arrays: dict[str, Values] = {}

    def literal(self, values: Values, dtype: ValueType, name: str) -> str:
        """Return an array's numbers as an expression, or a placeholder for it.

        Args:
            values: (…, components), as returned by `array.numpy()`.
            dtype: The array's element type.
            name: The array's name.
        """
        flat = np.ascontiguousarray(values, dtype=numpy_dtype(dtype))
        if flat.size <= INLINE and np.isfinite(flat.astype(np.float64)).all():
            # str() gives the shortest number that is this float32.
            short = [float(str(v)) if is_float(flat.dtype) else v.item() for v in flat.ravel()]
            return repr(np.array(short, dtype=object).reshape(flat.shape).tolist())
        key = name.replace(".", "_")
        while key in self.arrays:
            key += "_"
        self.arrays[key] = flat
        return MARK.format(key)


def inlined(text: str, arrays: Mapping[str, Values]) -> str:
    """Return a script that contains its packed arrays."""
    for name, values in arrays.items():
        data = base64.b64encode(zlib.compress(values.tobytes(), 6)).decode()
        lines = "\n".join(f'    "{line}"' for line in textwrap.wrap(data, 96)) or '    ""'
        call = f"unpacked(np.{values.dtype.name}, {values.shape!r}, (\n{lines}\n))"
        text = text.replace(MARK.format(name), call)
    if not arrays:
        return text
    text = text.replace("import numpy as np\n", "import base64\nimport zlib\n\nimport numpy as np\n", 1)
    return text.replace("\nimport tapedebug as wp\n", f"\nimport tapedebug as wp\n\n{UNPACK}", 1)


def beside(text: str, arrays: Mapping[str, Values]) -> str:
    """Return a script that reads its packed arrays from an `.npz` file of the same name beside it."""
    for name in arrays:
        text = text.replace(MARK.format(name), f'DATA["{name}"]')
    loaded = '\nimport tapedebug as wp\n\nDATA = np.load(Path(__file__).with_suffix(".npz"))\n'
    text = text.replace("\nimport tapedebug as wp\n", loaded, 1)
    return text.replace("import numpy as np\n", "from pathlib import Path\n\nimport numpy as np\n", 1)


def scalar(value: object) -> str:
    """Return a number, vector, matrix, quaternion, string or None as an expression."""
    if isinstance(value, np.generic):
        return repr(value.item())
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return repr(value)
    if isinstance(value, int):
        return repr(int(value))  # members of an IntEnum, too
    if isinstance(value, float):
        number = float(value)
        return repr(number) if np.isfinite(number) else f'float("{number}")'
    if isinstance(value, tuple | list):
        parts = ", ".join(scalar(part) for part in value)
        return f"[{parts}]" if isinstance(value, list) else f"({parts}{',' * (len(value) == 1)})"
    if isinstance(value, Compound):
        return f"{written(canonical(type(value)))}({', '.join(scalar(part) for part in value)})"
    return repr(value)
