"""A tape knows what arrays were called when its block ended, whatever happens to the variables afterwards."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import tapedebug as wp
from tapedebug import _names
from tapedebug.runtime.memory.array import range_key
from tests.runtime.kernels import square


class Box:
    """Holds things under names."""

    def __init__(self, **things: Any) -> None:
        self.__dict__.update(things)


def vector(*values: float) -> wp.array:
    return wp.array(values, dtype=float, requires_grad=True)


@wp.kernel
def half(x: wp.array(dtype=float), unused: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[wp.tid()] = 0.5 * x[wp.tid()]


def names(tape: wp.Tape, *arrays: Any) -> list[list[str]]:
    return [tape.array_names.get(range_key(a), []) for a in arrays]


def test_names_are_those_at_the_end_of_the_block() -> None:
    x, y, other = vector(1, 2), wp.zeros(2), vector(3)
    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[x, y])
    kept, x = x, other
    many = [y, kept]
    assert names(tape, kept, y, x) == [["x"], ["y"], []]
    assert many is not None


def test_names_of_a_later_block_take_the_place_of_those_before() -> None:
    tape, x, y, z = wp.Tape(), vector(1, 2), wp.zeros(2), wp.zeros(2)

    def first(a: Any, b: Any) -> None:
        with tape:
            wp.launch(square, 2, inputs=[a, b])

    first(x, y)
    assert names(tape, x, y, z) == [["a"], ["b"], []]
    renamed = [y]
    del y
    with tape:
        wp.launch(square, 2, inputs=[renamed[0], z])
    assert names(tape, x, renamed[0], z) == [["x"], ["renamed[0]"], ["z"]]
    tape.reset()
    assert tape.array_names == {}


def test_a_view_of_the_same_memory_names_what_the_tape_used() -> None:
    def launched() -> wp.Tape:
        rows = wp.zeros((2, 2), requires_grad=True)
        box = Box(states=[wp.zeros(4), wp.zeros(4)])
        with wp.Tape() as tape:
            wp.launch(square, 4, inputs=[rows.flatten(), box.states[0]])
            wp.launch(square, 2, inputs=[box.states[1][:2], box.states[1][2:]])
        return tape

    tape = launched()
    first, second = tape.records
    assert names(tape, *first.args, *second.args) == [["rows"], ["box.states[0]"], [], []]


def test_an_array_that_no_thread_accesses_has_a_name_too() -> None:
    x, bystander, y = vector(1, 2), vector(3, 4), wp.zeros(2)
    with wp.Tape() as tape:
        wp.launch(half, 2, inputs=[x, bystander], outputs=[y])
        wp.launch(half, 2, inputs=[x, x], outputs=[y])
    assert names(tape, x, bystander, y) == [["x"], ["bystander"], ["y"]]


def test_all_of_a_long_list_have_names_and_those_of_a_longer_one_have_none() -> None:
    def launched(chain: list[Any], count: int) -> wp.Tape:
        with wp.Tape() as tape:
            for number in range(count):
                wp.launch(square, 1, inputs=[chain[number], chain[number + 1]])
        return tape

    arrays = [vector(1.0) for _ in range(600)]
    short = arrays[:400]
    tape = launched(short, 399)
    for number, own in enumerate(names(tape, *short)):
        assert own[0] == f"chain[{number}]"
    assert list(launched([vector(1.0) for _ in range(600)], 1).array_names) == []


def test_a_list_with_other_arrays_than_those_of_the_tape() -> None:
    mixed = [vector(1.0), wp.zeros(1), vector(2.0), "no array"]
    with wp.Tape() as tape:
        wp.launch(square, 1, inputs=mixed[:2])
    assert names(tape, *mixed[:3]) == [["mixed[0]"], ["mixed[1]"], []]


def test_what_the_tape_did_not_use_is_not_kept_alive() -> None:
    def launched() -> tuple[wp.Tape, weakref.ref[Any], weakref.ref[Any]]:
        x, y, unused = vector(1, 2), wp.zeros(2), vector(3)
        box = Box(arrays=[x, unused], more=[unused, unused])
        with wp.Tape() as tape:
            wp.launch(square, 2, inputs=[x, y])
        return tape, weakref.ref(unused), weakref.ref(box)

    gc.collect()
    gc.disable()
    try:
        tape, unused, box = launched()
        assert unused() is None
        assert box() is None
        assert list(tape.array_names.values()) == [["x", "box.arrays[0]"], ["y"]]
    finally:
        gc.enable()


# A loop, in which names are looked for where they were ------------------------------------------------------


def test_names_of_a_loop_are_those_of_each_step() -> None:
    x, y = vector(1, 2), wp.zeros(2)
    for _ in range(4):
        with wp.Tape() as tape:
            wp.launch(square, 2, inputs=[x, y])
        assert names(tape, x, y) == [["x"], ["y"]]
        x, y = y, x
        assert names(tape, x, y) == [["y"], ["x"]]


@pytest.mark.parametrize(
    ("name", "box", "put"),
    [
        ("box.x", Box(), lambda box, a: setattr(box, "x", a)),
        ("box.of[1]", Box(of=[None, None]), lambda box, a: box.of.__setitem__(1, a)),
        ("box['of'][1]", {"of": [0, None]}, lambda box, a: box["of"].__setitem__(1, a)),
        ("box[7].x", {7: Box()}, lambda box, a: setattr(box[7], "x", a)),
        *[
            (f"box[{key!r}]", {}, lambda box, a, key=key: box.__setitem__(key, a))
            for key in ("a.b", "a[0]", "it's", "[", "]", "", 'say "x"')
        ],
    ],
)
def test_where_arrays_are_in_a_loop(name: str, box: Any, put: Any) -> None:
    """Attributes, indices and keys, whatever they are; each step puts other arrays there."""
    tapes = []
    for step in range(4):
        y, x = wp.zeros(2), vector(1, step)
        put(box, x)
        with wp.Tape() as tape:
            wp.launch(square, 2, inputs=[x, y])
        assert names(tape, x, y) == [["x", name], ["y"]]
        tapes.append((tape, x))
    assert all(names(tape, x) == [["x", name]] for tape, x in tapes)


def test_a_name_that_is_gone_is_looked_for_anew() -> None:
    y, first, second = wp.zeros(2), None, None
    for step in range(6):
        x = vector(1, 2)
        if step < 3:
            first, second = x, None
        else:
            first, second = None, x
        del x
        used = first if second is None else second
        with wp.Tape() as tape:
            wp.launch(square, 2, inputs=[used, y])
        own = "first" if step < 3 else "second"
        assert names(tape, used, y) == [[own, "used"], ["y"]]


def test_another_number_of_arrays_is_looked_for_anew() -> None:
    x, y, z, box = vector(1, 2), wp.zeros(2), wp.zeros(2), Box(z=wp.zeros(2))
    for step in range(6):
        last = z if step % 2 else box.z
        with wp.Tape() as tape:
            wp.launch(square, 2, inputs=[x, y])
            if step % 3:
                wp.launch(square, 2, inputs=[y, last])
        assert names(tape, x, y) == [["x"], ["y"]]
        others = {"z", "last"} if step % 2 else {"last", "box.z"}
        assert set(names(tape, last)[0]) == (others if step % 3 else set())


def test_many_names_of_a_loop() -> None:
    """More than are gone to one by one."""
    layers = [Box(w=vector(1, 2), out=wp.zeros(2)) for _ in range(40)]
    for _ in range(3):
        with wp.Tape() as tape:
            for layer in layers:
                wp.launch(square, 2, inputs=[layer.w, layer.out])
        assert names(tape, layers[39].w, layers[0].out)[0][0] in ("layers[39].w", "layer.w")
        assert names(tape, layers[7].out) == [["layers[7].out"]]


def test_what_was_found_in_a_loop_is_not_kept_alive() -> None:
    def step() -> list[weakref.ref[Any]]:
        box = Box(x=vector(1, 2))
        y = wp.zeros(2)
        with wp.Tape() as tape:
            wp.launch(square, 2, inputs=[box.x, y])
        return [weakref.ref(tape), weakref.ref(box), weakref.ref(box.x), weakref.ref(y)]

    gc.collect()
    gc.disable()
    try:
        assert [each() for _ in range(4) for each in step()] == [None] * 16
    finally:
        gc.enable()


@pytest.mark.parametrize("count", [2, 9, 20, 40])
def test_arrays_in_a_list_are_looked_for_once(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = [vector(1, 2) for _ in range(count)]
    walks: list[Any] = []
    walk = _names._walk
    monkeypatch.setattr(_names, "_walk", lambda items, *rest: walks.append(items[0]) or walk(items, *rest))

    def taped() -> wp.Tape:
        with wp.Tape() as tape:
            for k in range(count - 1):
                wp.launch(square, 2, inputs=arrays[k : k + 2])
        return tape

    first, searched = names(taped(), *arrays), len(walks)
    del walks[:]
    arrays.reverse()  # other arrays in the places of the first search
    again = names(taped(), *arrays)
    assert first == again == [[f"arrays[{k}]"] for k in range(count)]
    assert searched
    assert not walks


def test_a_list_that_has_changed_is_looked_for_anew() -> None:
    arrays = [vector(1, 2) for _ in range(10)]

    def taped(*others: wp.array) -> list[list[str]]:
        held = [*others, *arrays]
        with wp.Tape() as tape:
            for k in range(9):
                wp.launch(square, 2, inputs=[arrays[k], arrays[k + 1]])
        assert held
        return names(tape, *arrays)

    for _ in range(2):
        assert taped() == [[f"held[{k}]", f"arrays[{k}]"] for k in range(10)]
    assert taped(vector(1, 2)) == [[f"held[{k + 1}]", f"arrays[{k}]"] for k in range(10)]
    held = arrays[3]
    arrays[3] = vector(1, 2)
    assert taped() == [[f"held[{k}]", f"arrays[{k}]"] for k in range(10)]
    assert held is not arrays[3]
