"""The rule table, grouped by topic."""

from __future__ import annotations

from tapedebug.lang.rules import choice as choice
from tapedebug.lang.rules import componentwise as componentwise
from tapedebug.lang.rules import conversions as conversions
from tapedebug.lang.rules import decompositions as decompositions
from tapedebug.lang.rules import elementary as elementary
from tapedebug.lang.rules import integers as integers
from tapedebug.lang.rules import matrix as matrix
from tapedebug.lang.rules import noise as noise
from tapedebug.lang.rules import operators as operators
from tapedebug.lang.rules import quaternion as quaternion
from tapedebug.lang.rules import ramps as ramps
from tapedebug.lang.rules import random as random
from tapedebug.lang.rules import scalar as scalar
from tapedebug.lang.rules import spatial as spatial
from tapedebug.lang.rules import transform as transform
from tapedebug.lang.rules import vector as vector
from tapedebug.lang.rules.random import DRAWS as DRAWS
from tapedebug.lang.rules.table import COMPOSITES as COMPOSITES
from tapedebug.lang.rules.table import NOT_DIFFERENTIABLE as NOT_DIFFERENTIABLE
from tapedebug.lang.rules.table import RULES as RULES
from tapedebug.lang.rules.table import Composite as Composite
from tapedebug.lang.rules.table import Emitter as Emitter
from tapedebug.lang.rules.table import Expr as Expr
from tapedebug.lang.rules.table import Quantity as Quantity
from tapedebug.lang.rules.table import Rule as Rule
from tapedebug.lang.rules.table import RuleError as RuleError
from tapedebug.lang.rules.table import Select as Select
