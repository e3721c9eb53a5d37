"""Import the modules that implement capabilities: each registers its own in `capabilities`."""

from tapedebug.runtime.launch import python_text as python_text
from tapedebug.runtime.replay import confinement as confinement
from tapedebug.runtime.replay import custom_gradients as custom_gradients
from tapedebug.runtime.replay import followed_thread as followed_thread
from tapedebug.runtime.replay import loop_values as loop_values
from tapedebug.runtime.replay import number_arguments as number_arguments
from tapedebug.runtime.replay import replay_capabilities as replay_capabilities
from tapedebug.runtime.replay import resequenced as resequenced
from tapedebug.runtime.replay import single_replay as single_replay
from tapedebug.runtime.replay import stale_reads as stale_reads
from tapedebug.runtime.replay import thread_scheduling as thread_scheduling
from tapedebug.runtime.replay import tracked_elements as tracked_elements
from tapedebug.runtime.tape import array_origins as array_origins
from tapedebug.runtime.tape import arrivals as arrivals
from tapedebug.runtime.tape import earlier_recordings as earlier_recordings
from tapedebug.runtime.tape import event_history as event_history
from tapedebug.runtime.tape import outside_reads as outside_reads
from tapedebug.runtime.tape import overwritten_outside as overwritten_outside
from tapedebug.runtime.tape import rerecord as rerecord
