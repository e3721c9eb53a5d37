"""Records the traces that the front end's tests read: `python -m tests.trace.make_fixtures` writes them anew.

The demo problem runs with a scope for each step, under a path that is nobody's.
"""

from __future__ import annotations

import json
import linecache
from pathlib import Path
from types import ModuleType
from typing import Any

import tapedebug as wp
from tapedebug.trace import pack, seal, trace_from_json

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "js" / "tests" / "fixtures"
SHOWN = "/home/ada/net/net.py"
PACKED = ("net", "recorded-preserve")
CASES = {"recorded-ignore": (12, "ignore"), "recorded-preserve": (40, "preserve")}


def _program() -> ModuleType:
    """`notebooks/net.py`, with scopes, as if it lay in `SHOWN`."""
    text = (ROOT / "notebooks" / "net.py").read_text(encoding="utf-8")
    begin, end = "    for _ in range(steps):\n", "        v, v_next = v_next, v\n"
    assert begin in text
    assert end in text
    text = text.replace(begin, begin + "        tape.record_scope_begin(f'step {_}')\n", 1)
    text = text.replace(end, end + "        tape.record_scope_end()\n", 1)
    text = text.replace("def simulate(net: Net, ", "def simulate(tape: Any, net: Net, ", 1)
    linecache.cache[SHOWN] = (len(text), None, text.splitlines(keepends=True), SHOWN)
    module = ModuleType("net")
    exec(compile(text, SHOWN, "exec"), module.__dict__)
    return module


def record(name: str) -> dict[str, Any]:
    """The trace of one case, with all that `diagnose` says about it."""
    steps, mode = CASES[name]
    net = _program()
    fabric = net.make_net()
    throw = wp.array([net.FIRST_THROW], dtype=wp.vec3, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape(on_overwrite=mode)
    with tape:
        net.simulate(tape, fabric, throw, loss, steps=steps)
    tape.backward(loss)
    trace = wp.diagnose(tape).trace
    trace.name = name
    trace.tape.id = 3
    _rebase(trace)
    trace.environment = {
        "tapedebug": "0.1.0",
        "python": "3.11.7",
        "numpy": "2.4.0",
        "platform": "Linux-x86_64",
    }
    data: dict[str, Any] = trace.to_json()
    return data


def packed(name: str) -> dict[str, Any]:
    """The trace of one case, as it was saved, in the packed form."""
    saved = json.loads((FOLDER / f"{name}.trace.json").read_text(encoding="utf-8"))
    return seal(pack(trace_from_json(saved)))


def _rebase(trace: Any) -> None:
    """The clock goes on for the whole process; here the tape is the first."""
    start = trace.tape.began - 1
    trace.tape.began, trace.tape.ended = 1, trace.tape.ended - start
    for event in trace.events:
        event.clock -= start
        event.tape = event.tape and trace.tape.id
        if event.call_site is not None:  # no path of the machine that recorded it
            event.call_site.file = SHOWN


def main() -> None:
    """Write all cases."""
    for name in CASES:
        path = FOLDER / f"{name}.trace.json"
        indent = None
        path.write_text(json.dumps(record(name), indent=indent, allow_nan=False) + "\n", encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")
    for name in PACKED:
        path = FOLDER / f"{name}.packed.json"
        path.write_text(json.dumps(packed(name), allow_nan=False) + "\n", encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
