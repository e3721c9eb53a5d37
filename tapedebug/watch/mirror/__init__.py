"""The mirror: kernels of NVIDIA Warp whose Python functions this engine compiles.

Launches of a mirrored kernel have everything that launches of this engine have: float64, exact adjoints,
accesses by source line, threads that can be followed. No module here imports Warp.
"""

from tapedebug.watch.mirror.comparison import Difference as Difference
from tapedebug.watch.mirror.element_tracking import MirroredElementTracking as MirroredElementTracking
from tapedebug.watch.mirror.errors import MirrorError as MirrorError
from tapedebug.watch.mirror.mirrored_kernel import MirroredKernel as MirroredKernel
from tapedebug.watch.mirror.mirrored_kernel import ParameterAccess as ParameterAccess
from tapedebug.watch.mirror.mirrored_kernel import mirror_kernel as mirror_kernel
from tapedebug.watch.mirror.mirrored_launch import MirroredLaunch as MirroredLaunch
from tapedebug.watch.mirror.thread_scheduling import MirroredThreadScheduling as MirroredThreadScheduling
from tapedebug.watch.mirror.verification import AdjointComparison as AdjointComparison
from tapedebug.watch.mirror.verification import verify_mirrors as verify_mirrors
