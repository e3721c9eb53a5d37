"""Optimisers for arrays: `SGD` and `Adam`, with the arguments of Warp's."""

from tapedebug.optim._optimizers import SGD as SGD
from tapedebug.optim._optimizers import Adam as Adam
