"""Samples of long sweeps: each value of each parameter keeps a case, and named cases run."""

from collections import Counter
from collections.abc import Hashable
from itertools import product
from pathlib import Path

import pytest

from tests import sweeps
from tests.sweeps import covering, sample_of


def test_each_value_of_each_parameter_keeps_a_case() -> None:
    every = [frozenset({("a", a), ("b", b), ("c", c)}) for a, b, c in product(range(3), range(10), range(2))]
    kept = covering(every)
    assert len(kept) == 10
    assert frozenset().union(*(every[number] for number in kept)) == frozenset().union(*every)
    for value in (("a", 0), ("a", 1), ("a", 2), ("c", 0), ("c", 1)):
        assert 3 <= sum(value in every[number] for number in kept) <= 7


def test_tests_with_few_cases_have_all_values_together() -> None:
    every = [frozenset({("width", a), ("pattern", b)}) for a, b in product(range(3), range(10))]
    used = Counter[Hashable]()
    tests = [covering(every, 2, used) for _ in range(10)]
    assert {len(kept) for kept in tests} == {2}
    assert all(used["pattern", pattern] == 2 for pattern in range(10))
    assert all(6 <= used["width", width] <= 7 for width in range(3))


def test_one_parameter_keeps_all_its_values() -> None:
    assert covering([frozenset({("seed", seed)}) for seed in range(7)]) == list(range(7))


def test_a_list_is_thinned_but_in_a_full_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sample_of("abcdefg", first=1, step=3) == "be"
    monkeypatch.setattr(sweeps, "FULL", True)
    assert sample_of("abcdefg", first=1, step=3) == "abcdefg"


@pytest.mark.parametrize(
    ("arguments", "full", "kept"), [("", "", 3), ("", "full", 6), ("::test_marked[1-1]", "", 1)]
)
def test_marked_tests_are_sampled(
    arguments: str, full: str, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.conftest import pytest_collection_modifyitems

    class Config:
        args = [f"{Path(__file__).name}{arguments}"]
        hook = type("Hook", (), {"pytest_deselected": staticmethod(lambda items: None)})

    monkeypatch.setattr(sweeps, "FULL", bool(full))

    class Item:
        def __init__(self, first: int, second: int) -> None:
            self.nodeid = f"test_sweeps.py::test_marked[{first}-{second}]"
            self.callspec = type("CallSpec", (), {"params": {"first": first, "second": second}})

        def get_closest_marker(self, name: str) -> pytest.Mark | None:
            return pytest.mark.sweep.mark if name == "sweep" else None

    chosen = [(1, 1)] if arguments else product(range(2), range(3))
    items = [Item(*case) for case in chosen]
    pytest_collection_modifyitems(Config(), items)  # type: ignore[arg-type]
    assert len(items) == kept
