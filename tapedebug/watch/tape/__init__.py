"""Tapes of NVIDIA Warp: the recording, and a module for each capability that is more than a few lines."""

from tapedebug.watch.tape.tape_recording import Computed as Computed
from tapedebug.watch.tape.watched_tape import WatchedTape as WatchedTape
