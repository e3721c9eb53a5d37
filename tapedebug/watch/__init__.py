"""Watching programs that NVIDIA Warp runs: its own launches, behind the debugger's contract.

`watch_warp` records what Warp does. A tape of it can be diagnosed, traced and shown like one of this
project's own engine. No line of the program changes, and Warp runs it as always.
"""

from __future__ import annotations

from tapedebug.watch.recorder import NotCovered as NotCovered
from tapedebug.watch.session import Watched as Watched
from tapedebug.watch.session import watch_warp as watch_warp
from tapedebug.watch.tape import WatchedTape as WatchedTape
