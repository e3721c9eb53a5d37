"""The lines of a custom gradient that change adjoints."""

from __future__ import annotations

from tapedebug.contract import CustomFunction
from tapedebug.diagnose.experiments.places import location_at
from tapedebug.trace import Location


def own_name(function: CustomFunction, gradient: CustomFunction, name: str) -> str:
    """Return the name in a custom gradient of a parameter of its function."""
    plain = name.partition("[")[0]
    names, own = function.parameters, gradient.parameters
    return own[names.index(plain)] if plain in names and names.index(plain) < len(own) else plain


def adjoint_line(gradient: CustomFunction, own: str | None = None, *, assigned: bool = False) -> Location:
    """Return the first line of a custom gradient that changes a parameter's adjoint, or its definition.

    Args:
        gradient: The custom gradient.
        own: The parameter's name in it; None for any parameter.
        assigned: Prefer an assignment to an addition.
    """
    found = [write for write in gradient.adjoint_writes if not own or own in write.params]
    if assigned:
        found = [write for write in found if write.assigned] or found
    return location_at(found[0].place if found else gradient.place)
