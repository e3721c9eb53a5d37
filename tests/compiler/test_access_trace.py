"""Traced variants: what they tell, and what they leave out."""
# mypy: disable-error-code="valid-type, no-untyped-def, no-untyped-call, untyped-decorator"

import ctypes
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler.access_trace import SLOTS, THREAD_BITS, TracedSite, TraceInfo
from tapedebug.compiler.kernel_queries import traced
from tapedebug.compiler.variant import Variant


@wp.kernel
def neighbours(x: wp.array(dtype=float), index: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    s = wp.exp(x[i]) * 3.0
    if index[i] > 0:
        s += x[index[i]]
    y[i] = s


@wp.kernel
def summed(x: wp.array(dtype=wp.vec2), count: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    s = float(0.0)
    for j in range(count[i]):
        s += x[j][1]
    y[i] = s
    y[i + 1] = x[i][0]


@wp.kernel
def counted(counter: wp.array(dtype=int), x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[wp.atomic_add(counter, 0, 1)] = x[i]


def text(kernel: Any, *active: int, stores: bool = False) -> str:
    writes = kernel.analysis.writes if stores else frozenset()
    return str(kernel._text(Variant("traced", frozenset(active), writes, guarded=True)).code)


def run(kernel: Any, threads: int, arrays: list[np.ndarray], *, room: int = 0) -> tuple[Any, Any, int]:
    """The table, the log and how much of it was needed."""
    active = frozenset(p.index for p in kernel.params if p.type.dtype is not wp.int32)
    info = kernel.trace_info(active)
    table = np.zeros((threads, max(1, len(info.columns))), np.int64)
    log = np.zeros((max(1, room), 2), np.int64)
    slots: list[int] = [threads, 1, 1, 1]
    for a in arrays:
        step = a.shape[1] if a.ndim > 1 else 1
        slots += [a.ctypes.data, a.shape[0], step]
    slots += [0] * len(arrays)
    tail = [table.ctypes.data, log.ctypes.data, room, 0]
    memory = (ctypes.c_int64 * (len(slots) + SLOTS))(*slots, *tail)
    traced(kernel, active, stores=False)(0, threads, ctypes.addressof(memory))
    return table, log, memory[len(slots) + SLOTS - 1]


def test_what_is_told() -> None:
    assert neighbours.trace_info(frozenset({0, 2})) == TraceInfo(
        (
            TracedSite("read", 0, 0, True),
            TracedSite("read", 0, 0, True),
            TracedSite("write", 2, 0, True, (0, 1)),
        ),
        frozenset({1}),
    )
    assert summed.trace_info(frozenset({0, 2})) == TraceInfo(
        (
            TracedSite("read", 0, 1, False),
            TracedSite("write", 2, 0, True, (0,)),
            TracedSite("read", 0, 0, True),
            TracedSite("write", 2, 0, True, (2,)),
        ),
        frozenset({1}),
    )
    assert counted.trace_info(frozenset({1, 2})).deciding == frozenset({0})


def test_no_arithmetic_and_no_stores_are_left() -> None:
    assert text(neighbours, 0, 2) == (
        "def entry(lo, hi, args):\n"
        "    x_n0 = args[5]\n"
        "    index_v = ptr_i32(args, 7)\n"
        "    table = ptr_i64(args, 16)\n"
        "    log = ptr_i64(args, 17)\n"
        "    room = args[18]\n"
        "    traced = 0\n"
        "    for t in range(lo, hi):\n"
        "        v_1 = t\n"
        "        table[t * 3] = v_1 + 1\n"
        "        v_2 = t\n"
        "        v_3 = index_v[v_2]\n"
        "        v_4 = v_3 > i32(0)\n"
        "        if v_4:\n"
        "            v_5 = to_i64(v_3)\n"
        "            v_6 = select(v_5 < 0, v_5 + x_n0, v_5)\n"
        "            v_7 = inside(v_6, x_n0)\n"
        "            table[t * 3 + 1] = v_7 + 1\n"
        "        v_8 = t\n"
        "        table[t * 3 + 2] = v_8 + 1\n"
        "    args[19] = traced\n"
    )


def test_stores_stay_where_they_decide() -> None:
    assert "] = i32(" not in text(counted, 1, 2)
    assert "counter_v[v_3] = i32(v_4 + i32(1))" in text(counted, 1, 2, stores=True)


def test_places_of_threads() -> None:
    x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)
    table, _, needed = run(neighbours, 4, [x, np.array([3, 0, 1, 2], np.int32), y])
    assert table.tolist() == [[1, 4, 1], [2, 0, 2], [3, 2, 3], [4, 3, 4]]
    assert needed == 0
    assert not y.any()


@pytest.mark.parametrize("room", [0, 2, 8])
def test_loops_are_logged_as_far_as_there_is_room(room: int) -> None:
    x, y = np.zeros((4, 2), np.float32), np.zeros(4, np.float32)
    table, log, needed = run(summed, 3, [x, np.array([2, 0, 3], np.int32), y], room=room)
    assert table.tolist() == [[1, 1, 2], [2, 3, 3], [3, 5, 4]]
    assert needed == 5
    threads, places = log[:, 0] & ((1 << THREAD_BITS) - 1), log[:, 1]
    assert threads.tolist()[: min(room, 5)] == [0, 0, 2, 2, 2][:room]
    assert places.tolist()[: min(room, 5)] == [1, 3, 1, 3, 5][:room]
