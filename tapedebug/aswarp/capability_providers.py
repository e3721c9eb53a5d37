"""Import the modules that implement capabilities of tapes for programs that were written for Warp."""

from tapedebug.aswarp import struct_replay as struct_replay
from tapedebug.aswarp import warp_reverse as warp_reverse
