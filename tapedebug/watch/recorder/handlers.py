"""The handlers of all functions of Warp that are intercepted."""

from __future__ import annotations

from tapedebug._interception import Handler
from tapedebug.watch.recorder.creation_calls import CreationCalls
from tapedebug.watch.recorder.earlier_sources import EarlierSources
from tapedebug.watch.recorder.launch_calls import LaunchCalls
from tapedebug.watch.recorder.launch_forms import LaunchForms
from tapedebug.watch.recorder.recording import Recording
from tapedebug.watch.recorder.tape_calls import TapeCalls
from tapedebug.watch.recorder.transfer_calls import TransferCalls
from tapedebug.watch.recorder.write_calls import WriteCalls


def handlers(recording: Recording) -> dict[str, Handler]:
    """Return the handler of each intercepted function, by the keys of `hooks.INTERCEPTED`."""
    forms = LaunchForms(recording)
    launches = LaunchCalls(recording, forms)
    transfers = TransferCalls(recording)
    writes = WriteCalls(recording, transfers)
    creation = CreationCalls(recording)
    tapes = TapeCalls(recording, EarlierSources(recording, forms))
    return {
        "launch": launches.launch,
        "command": launches.command,
        "capture_launch": launches.capture_launch,
        "copy": writes.copy,
        "fill": writes.fill,
        "zero": writes.zero,
        "fill_indexed": writes.fill_indexed,
        "array_sum": writes.reduced,
        "array_inner": writes.reduced,
        "empty": creation.empty,
        "empty_like": creation.empty,
        "array": creation.new_array,
        "from_torch": creation.from_torch,
        "gradient": creation.gradient,
        "requires_grad": creation.requires_grad,
        "mesh": creation.made,
        "bvh": creation.made,
        "grid": creation.made,
        "grid_build": creation.grid_build,
        "array_interface": transfers.array_interface,
        "read_numpy": transfers.read_numpy,
        "read_list": transfers.read_list,
        "read_torch": transfers.read_torch,
        "tape_enter": tapes.enter,
        "tape_exit": tapes.exit,
        "tape_backward": tapes.backward,
        "tape_zero": tapes.zero,
        "tape_reset": tapes.reset,
        "tape_function": tapes.function,
        "scope_begin": tapes.scope_begin,
        "scope_end": tapes.scope_end,
    }
