"""Responses of the loss to displaced inputs: what counts as rounding."""

from types import SimpleNamespace

from tapedebug.diagnose.rules._zero_gradient import respond


def response(*changes: float, size: float):
    """Return the response to changes of the loss, those for displacements up and down being equal."""
    pairs = [change for change in changes for _ in range(2)]
    experiment = SimpleNamespace(loss_changes=lambda leaves, scales: [*pairs, size])
    return respond(SimpleNamespace(experiment=experiment), [0])


def test_a_loss_that_overflows_hides_no_slope():
    assert response(1e-5, 1e-4, 1e-3, 1e-2, 2.5e30, size=1.0).kind == "slope"


def test_rounding_is_no_slope():
    assert response(1e-18, 2e-18, 1e-18, 0.5, 1.0, size=0.0).kind == "flat"
    assert response(1e-18, 2e-18, 1e-18, 2e-18, 3e-18, size=1.0).kind == "none"
