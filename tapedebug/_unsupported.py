"""Names of Warp's API that this version does not have, for error messages, and where programs find them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tapedebug._script import running_command

_NEVER = """
    Stream Event capture_begin capture_end capture_launch capture_if capture_while ScopedCapture ScopedStream
    capture_save capture_load capture_load_from_bytes capture_debug_dot_print BvhQuery HashGridQuery MeshQuery
    MeshQueryAABB MeshQueryPoint MeshQueryRay Allocator ScopedAllocator fabricarray fabricarrayarray
    indexedfabricarray indexedfabricarrayarray fixedarray jax_kernel jax_callable build_experimental
    ScopedMemoryTracker print_memory_report ScopedCudaProfiler cuda_profiler_start cuda_profiler_stop
    timing_begin timing_end timing_print set_cuda_allocator get_device_allocator CudaManagedAllocator
    ModuleBuildOptions get_cpu_kernel_cache_key get_cuda_kernel_properties print_diagnostics
    ScopedMempool ScopedMempoolAccess ScopedPeerAccess Mempool tile tile_load tile_store launch_tiled
    get_stream set_stream wait_stream wait_event record_event get_event_elapsed_time synchronize_event
    synchronize_stream stream_from_torch stream_to_torch from_ipc_handle event_from_ipc_handle
    Mesh Bvh Volume HashGrid MarchingCubes Texture1D Texture2D Texture3D fem sparse render sim
    jax_experimental compile_aot_module load_aot_module get_suggested_block_size
"""
NEVER = frozenset(_NEVER.split())
"""Names in Warp's documentation that this package leaves to Warp."""
_SPATIAL = re.compile(
    r"(Mesh|Bvh|HashGrid|Volume|Texture|MarchingCubes|tile|launch_tiled|fem|sparse|sim)\w*|"
    r"(mesh|bvh|hash_grid|volume|texture)_\w+"
)
"""Names of objects with which only Warp computes."""


ELSEWHERE = {
    "float": "Python's float is wp.float32 in kernels and as dtype",
    "int": "Python's int is wp.int32 in kernels and as dtype",
    "address_of": "variables have no address; annotate the parameter of the @func as wp.ref[float]",
    "spatial_jacobian": "write the loop over the joints in a @func, with spatial_vector values",
    "spatial_mass": "write the loop over the joints in a @func, with spatial_matrix values",
}
"""Names of older or other versions of the language, and their replacements."""


_OF_KERNELS = re.compile(r"(tile|mesh|bvh|hash_grid|volume|texture|simplex|marching_cubes|fem)_\w+")
"""Functions of kernels that Warp has for objects that this engine does not have."""


def watching_command() -> str:
    """Return the command, or the line of a notebook, that watches the running program on NVIDIA Warp."""
    command = running_command()
    return f"tapedebug run {command}" if command else "with tapedebug.watch_warp():"


def run_on_warp() -> str:
    """Return the hint that the running program can run on NVIDIA Warp itself, and how."""
    return f"NVIDIA Warp itself can run the program and be watched: `{watching_command()}`"


def kernel_name_hint(name: str) -> str | None:
    """Return the hint for a function of kernels that only Warp has; None for any other name."""
    return run_on_warp() if _OF_KERNELS.fullmatch(name) else None


def missing(name: str, known: Iterable[str]) -> str:
    """Return the message for a name that `tapedebug` does not have."""
    if name in ELSEWHERE:
        return f"tapedebug has no name {name!r}: {ELSEWHERE[name]}"
    if name in NEVER or _SPATIAL.fullmatch(name):
        why = "recording and debugging gradients does not need it"
        if _SPATIAL.fullmatch(name):
            why = (
                "meshes, BVHs, hash grids, volumes, textures, tiles, sparse matrices and finite elements "
                "are not rebuilt here"
            )
        return (
            f"tapedebug.{name} exists in NVIDIA Warp only: {why}. Keep Warp as the engine of the program "
            f"(`import warp as wp`) and watch it: `{watching_command()}`"
        )
    known = [n for n in known if not n.startswith("_")]
    import difflib

    near = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    if not near:
        return f"tapedebug has no name {name!r}"
    return f"tapedebug has no name {name!r}; did you mean {near[0]!r}?"
