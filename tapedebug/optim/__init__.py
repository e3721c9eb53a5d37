"""Optimisers for arrays: `SGD` and `Adam`, with the same arguments as in Warp."""

from tapedebug.optim._optimizers import SGD as SGD
from tapedebug.optim._optimizers import Adam as Adam
