"""Data flow through Python code, from a call that reads a value to a call that takes one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tapedebug.diagnose.trace_analysis.python_flow import argument_text, elements_of_launch, flows
from tapedebug.diagnose.trace_analysis.value_flow import NOTHING, SURE, UNSURE
from tapedebug.runtime.tape.record import Stack, call_stack

LEFT: list[Stack] = []
BACK: list[Stack] = []
MATRIX = np.ones((1, 1))


def read(*_: Any) -> float:
    LEFT.append(call_stack(2))
    return 1.5


def take(*_: Any, **__: Any) -> float:
    BACK.append(call_stack(2))
    return 1.0


def hand_on(value: Any) -> Any:
    return take(value)


def hand_on_second(_: Any, value: Any) -> Any:
    return take(value)


def show() -> None:
    print(read())


def give() -> float:
    return read()


def first(a: Any, b: Any = 0) -> Any:
    print(b)
    return a


class Holder:
    """Two attributes, of which one holds what was read."""

    def __init__(self) -> None:
        self.read: Any = 0
        self.other = 1

    def take_it(self) -> None:
        self.read = read()
        take(self.read)

    def take_other(self) -> None:
        self.read = read()
        take(self.other)


# ------------------------------------------------------------------------------ it goes in


def in_one_expression():
    take(read() * 3)


def by_names():
    value = read()
    other = abs(value) + 1
    take(other)


def into_a_helper():
    hand_on(read())


def out_of_a_helper():
    take(give())


def through_a_function_of_the_file():
    take(first(read(), 3))


def through_a_keyword():
    take(first(b=3, a=read()))


def by_append():
    values = []
    for _ in range(3):
        values.append(read())  # noqa: PERF401
    take(sum(values))


def by_comprehension():
    values = [read() for _ in range(2)]
    take(values)


def by_key():
    log = {}
    log["read"] = read()
    take(log["read"])


def by_the_whole_dictionary():
    log = {"other": 1}
    log["read"] = read()
    take(**log)


def out_of_blocks():
    for _ in range(2):
        value = read()
        with open(__file__):
            other = value * 2
    take(other)


def by_unpacking():
    value, _ = read(), 3
    take(value)


def by_attribute():
    Holder().take_it()


def by_library():
    values = np.array([read()])
    take(np.sin(values.mean(axis=0).reshape(1)))


def by_matrix():
    values = np.array([[read()]])
    take(MATRIX @ values.T[0])


def into_one_element():
    values = np.zeros(3)
    for i in range(3):
        values[i] = read()
    values[0] = 0.0
    take(values)


def into_an_inner_function():
    value = read()

    def inner(given):
        return take(given)

    inner(value)


def from_the_round_before():
    value = 0.0
    for _ in range(2):
        take(value)
        value = read()
    take(value)


def in_one_branch():
    value = read() if MATRIX.size else 2.0
    if MATRIX.size > 1:
        value = 3.0
    take(value)


# ----------------------------------------------------------------------- it does not go in


def a_name_used_again():
    value = read()
    print(value)
    value = 2.0
    take(value)


def beside_it():
    hand_on_second(read(), 3)


def only_shown():
    show()
    take(3)


def into_another_list():
    values, other = [], [1.0, 2.0]
    values.append(read())
    take(other)


def a_comparison():
    take([read() > 0])


def a_condition():
    value = read()
    other = 3 if value > 2 else 1
    take(other)


def another_key():
    log = {}
    log["read"] = read()
    log["other"] = 3
    take(log["other"])


def another_name():
    _, other = read(), 3
    take(other)


def another_attribute():
    Holder().take_other()


def its_size():
    values = np.array([read()])
    take(np.zeros(len(values)), values.shape, np.ones_like(values))


def an_argument_that_is_only_printed():
    take(first(5, read()))


# ------------------------------------------------------------------------------ who knows


def through_a_variable():
    function = abs if MATRIX.size else max
    take(function(read()))


def through_an_object():
    take(MATRIX.dot(read()))


SURELY = [
    in_one_expression,
    by_names,
    into_a_helper,
    out_of_a_helper,
    through_a_function_of_the_file,
    through_a_keyword,
    by_append,
    by_comprehension,
    by_key,
    by_the_whole_dictionary,
    out_of_blocks,
    by_unpacking,
    by_attribute,
    by_library,
    by_matrix,
    into_one_element,
    into_an_inner_function,
    from_the_round_before,
    in_one_branch,
]
NOT = [
    a_name_used_again,
    beside_it,
    only_shown,
    into_another_list,
    a_comparison,
    a_condition,
    another_key,
    another_name,
    another_attribute,
    its_size,
    an_argument_that_is_only_printed,
]
PERHAPS = [through_a_variable, through_an_object]


@pytest.mark.parametrize(
    ("program", "level"),
    [(p, SURE) for p in SURELY] + [(p, NOTHING) for p in NOT] + [(p, UNSURE) for p in PERHAPS],
    ids=lambda item: getattr(item, "__name__", str(item)),
)
def test_whether_a_value_goes_into_a_call(program: Any, level: int) -> None:
    LEFT.clear()
    BACK.clear()
    program()
    assert flows(LEFT[-1], BACK[-1]) == level


def test_what_cannot_be_told() -> None:
    """No source, and two functions that have nothing to do with each other."""
    LEFT.clear()
    BACK.clear()
    exec("take(read())", {"take": take, "read": read})
    assert flows(LEFT[-1][:1], BACK[-1][:1]) is None
    in_one_expression()
    by_names()
    assert flows(LEFT[0][:1], BACK[-1][:1]) is None


def launching() -> Any:
    launch = take
    return launch(None, 3, inputs=[1, read(), 2], outputs=[4])


def test_what_the_source_says_of_a_call() -> None:
    LEFT.clear()
    BACK.clear()
    launching()
    assert argument_text(BACK[-1]) == "None"
    listed = elements_of_launch(BACK[-1])
    assert listed is not None
    assert len(listed) == 4
