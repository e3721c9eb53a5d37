"""A trace of the net, as the front end's tests have it."""

import json
from pathlib import Path

FIXTURE = Path(__file__).parents[2] / "js" / "tests" / "fixtures" / "net.trace.json"


def net_trace():
    return json.loads(FIXTURE.read_text())
