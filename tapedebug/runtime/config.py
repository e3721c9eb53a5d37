"""The settings of the process."""

from tapedebug._config import MODES as MODES
from tapedebug._config import TRACKS as TRACKS
from tapedebug._config import Config as Config
from tapedebug._config import config as config
