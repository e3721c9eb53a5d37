"""A tape with a wrong gradient."""

import pytest

from tests.wrong_tape import wrong_tape


@pytest.fixture
def wrong():
    return wrong_tape()
