"""Cases of the rule table's checker: spelling, value in NumPy and domain of each operation.

A rule or composite that is not listed here, or not for a kind of operands that it takes, fails
`test_rules.py`: who adds one says what it is.
"""

from __future__ import annotations

from tests.lang.cases import matrices, noise, quaternions, scalars, vectors
from tests.lang.cases.base import FAMILY as FAMILY
from tests.lang.cases.base import KINDS as KINDS
from tests.lang.cases.base import Case as Case
from tests.lang.cases.scalars import BITS as BITS
from tests.lang.cases.scalars import INTEGER_ONLY as INTEGER_ONLY

TABLES: dict[str, list[Case]] = {
    "rules": scalars.RULES,
    "arithmetic": vectors.ARITHMETIC,
    "choices": vectors.TESTS + vectors.CHOICES + vectors.RAMPS,
    "norms": vectors.NORMS,
    "matrices": matrices.MATRICES,
    "decompositions": matrices.DECOMPOSITIONS,
    "quaternions": quaternions.QUATERNIONS,
    "transforms": quaternions.TRANSFORMS,
    "noise": noise.NOISE,
}
HEADERS = {"decompositions": matrices.HEADER}
"""Functions that the spellings of a table call."""
ROUNDED = {"to_f32"}
"""Operations that the float64 twin, too, computes with constants or values of float32."""
INTERNAL = {"stop_gradient", "differentiated_as"}
"""Rules that no program names: `test_decompositions.py` sees what they do."""
