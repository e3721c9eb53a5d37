"""The inputs of a tape that operations in float32 may use."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tapedebug.autograd.subjects.rounded_inputs import MOST_RANGES, rounded_inputs


def span(region: str, start: int = 0, stop: int = 8) -> Any:
    return SimpleNamespace(region=region, start=start, stop=stop)


def operations(*described: tuple[list[Any], list[Any]]) -> list[Any]:
    """Return operations that read and write ranges."""
    return [
        SimpleNamespace(
            index=index,
            accesses=[SimpleNamespace(array=a, reads=True, writes=False) for a in reads]
            + [SimpleNamespace(array=a, reads=False, writes=True) for a in writes],
        )
        for index, (reads, writes) in enumerate(described)
    ]


def test_an_input_is_followed_through_operations():
    chain = operations(([span("x")], [span("y")]), ([span("y"), span("w")], [span("z")]))
    inputs = [span("x"), span("w"), span("other")]
    assert rounded_inputs(chain, {1}, inputs) == {0, 1}
    assert rounded_inputs(chain, {0}, inputs) == {0}


def test_what_is_computed_from_the_result_of_an_operation_in_float32_does_not_count():
    chain = operations(([span("w")], [span("y")]), ([span("y"), span("x")], [span("z")]))
    assert rounded_inputs(chain, {0}, [span("w"), span("x")]) == {0}


def test_later_results_reach_an_operation_that_runs_again():
    chain = operations(([span("y")], [span("z")]), ([span("x")], [span("y")]), ([span("y")], [span("z")]))
    assert rounded_inputs(chain, {0}, [span("x")]) == set()
    assert rounded_inputs(chain, {0, 2}, [span("x")]) == {0}


def test_ranges_of_a_region_are_told_apart():
    chain = operations(([span("r", 0, 8)], [span("y")]))
    assert rounded_inputs(chain, {0}, [span("r", 8, 16), span("r", 4, 12)]) == {1}


def test_an_array_that_is_only_written_counts():
    assert rounded_inputs(operations(([], [span("y")])), {0}, [span("y")]) == {0}


def test_of_many_ranges_nothing_is_lost():
    many = 2 * MOST_RANGES
    chain = operations(
        *(([span("x", 8 * n, 8 * n + 8)], [span("y", 8 * n, 8 * n + 8)]) for n in range(many)),
        ([span("y", 0, 8)], [span("z")]),
    )
    inputs = [span("x", 8 * n, 8 * n + 8) for n in range(many)]
    assert 0 in rounded_inputs(chain, {many}, inputs)
