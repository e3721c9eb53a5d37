"""Loads the modules that implement capabilities: each registers its own in `capabilities`."""

from tapedebug.runtime.launch import python_text as python_text
from tapedebug.runtime.replay import replay_capabilities as replay_capabilities
from tapedebug.runtime.tape import event_history as event_history
