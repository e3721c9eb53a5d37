"""The recorder of a watched program: what each intercepted call of a function of Warp adds to tapes."""

from tapedebug.watch.recorder.handlers import handlers as handlers
from tapedebug.watch.recorder.not_covered import NotCovered as NotCovered
from tapedebug.watch.recorder.recording import Recording as Recording
