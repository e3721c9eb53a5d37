"""Loads the modules that implement capabilities: each registers its own in `capabilities`."""

from tapedebug.runtime.replay import replay_capabilities as replay_capabilities
