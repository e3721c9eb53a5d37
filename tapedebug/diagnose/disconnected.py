"""Rule `disconnected`."""
from tapedebug.trace import Finding, Trace
def find(trace, experiment): return []
