"""Optimisers for arrays: `SGD` and `Adam`, with the arguments and the steps that programs know."""

from tapedebug.optim._optimizers import SGD as SGD
from tapedebug.optim._optimizers import Adam as Adam
