"""The memory of arrays that are gone is used again: never while anybody can see it, and not without end."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import pairwise, permutations

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._memory_retention import retention
from tapedebug.runtime.memory import block_allocator
from tapedebug.runtime.memory.block_allocator import ALIGNMENT, KEPT, LEAST, MOST, BlockAllocator, memory


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockAllocator]:
    """Blocks of the test's own."""
    made = BlockAllocator(KEPT)
    monkeypatch.setattr(block_allocator, "kept", made)
    yield made


def address(block: np.ndarray) -> int:
    return int(block.ctypes.data)


@pytest.mark.parametrize("nbytes", [1, 100, LEAST - 1, LEAST, LEAST + 1, 123_457, MOST, MOST + 1])
def test_memory_is_aligned_and_as_long_as_asked_for(nbytes: int) -> None:
    for _ in range(2):
        block = memory(nbytes, zeroed=True)
        assert block.nbytes == nbytes
        assert address(block) % ALIGNMENT == 0
        assert not block.any()
        block.fill(7)


@pytest.mark.parametrize("nbytes", [LEAST, 123_457, 2048 * 2048 * 4, MOST + 1])
def test_blocks_do_not_begin_shortly_after_each_other_in_their_pages(nbytes: int) -> None:
    """A load from one would wait for the last stores to the other, whose addresses end with the same bits."""
    blocks = [memory(nbytes) for _ in range(8)]
    for one, other in permutations(blocks, 2):
        assert 512 <= (address(one) - address(other)) % 4096 <= 4096 - 512


def test_what_is_given_back_is_used_again_and_cleared_where_that_is_asked_for() -> None:
    first = memory(100_000)
    first.fill(9)
    where = address(first)
    del first
    again = memory(100_000)
    assert address(again) == where
    assert (again == 9).all()
    del again
    assert not memory(100_000, zeroed=True).any()


def test_nothing_is_given_back_while_a_view_is_alive() -> None:
    a = wp.zeros(50_000, dtype=float)
    view, where = a.numpy()[100:200], a.ptr
    part = a[10:20]
    del a
    others = [wp.zeros(50_000, dtype=float) for _ in range(3)]
    assert where not in {other.ptr for other in others}
    del part
    assert where not in {wp.zeros(50_000, dtype=float).ptr for _ in range(3)}
    for other in others:
        other.fill_(3.0)
    assert not view.any()
    del view
    assert where in {other.ptr for other in [wp.zeros(50_000, dtype=float) for _ in range(3)]}


def test_new_memory_takes_the_place_of_what_is_kept(kept: BlockAllocator) -> None:
    """Whoever goes from one size to another holds no more memory than before."""
    many = [memory(100_000) for _ in range(8)]
    del many
    assert kept.nbytes == 8 * 25 * 4096
    other = memory(350_000)
    assert kept.nbytes == 4 * 25 * 4096
    again = [memory(100_000) for _ in range(4)]
    assert kept.nbytes == 0
    del again, other
    assert kept.nbytes == 4 * 25 * 4096 + 86 * 4096
    _longest = memory(MOST)
    assert kept.nbytes == 0
    assert kept.blocks == {}


def test_no_more_than_so_much_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    few = BlockAllocator(250_000)
    monkeypatch.setattr(block_allocator, "kept", few)
    many = [memory(100_000) for _ in range(8)]
    del many
    assert few.nbytes == 2 * 25 * 4096


def test_several_threads_at_once() -> None:
    """Each finds in its memory what it wrote there."""
    failed: list[int] = []

    def often(number: int) -> None:
        for k in range(300):
            size = 40_000 + 4096 * (k % 3)
            blocks = [memory(size, zeroed=bool(k % 2)) for _ in range(4)]
            if k % 2 and any(block.any() for block in blocks):
                failed.append(k)
            for block in blocks:
                block.fill(number)
            if not all((block == number).all() for block in blocks):
                failed.append(k)

    threads = [threading.Thread(target=often, args=[number]) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_the_end_of_a_process_is_quiet() -> None:
    code = "import tapedebug as wp; a = wp.zeros(100_000); b = a.numpy(); wp.kept = [a, b]"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stderr == ""


def test_a_recording_that_is_made_again_takes_no_new_memory(kept: BlockAllocator) -> None:
    @wp.kernel
    def doubled(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = 2.0 * x[i] * x[i]

    def once() -> int:
        arrays = [wp.zeros(20_000, dtype=float, requires_grad=True) for _ in range(5)]
        arrays[0].fill_(1.0)
        with wp.Tape() as tape:
            for x, y in pairwise(arrays):
                wp.launch(doubled, 20_000, [x, y])
        tape.backward(grads={arrays[-1]: wp.ones(20_000, dtype=float)})
        assert (arrays[0].grad.numpy() == 2.0**15 * 16).all()
        return kept.nbytes

    once()
    held = kept.nbytes
    assert held >= 10 * 80_000
    assert once() == 0, "all of it is in use again"
    assert kept.nbytes == held


def test_replays_that_follow_each_other_reuse_the_largest_blocks(kept: BlockAllocator) -> None:
    """Elsewhere the system clears them in large pages, and none stays after the diagnosis."""
    with retention:
        first = memory(2 * MOST)
        where = address(first)
        del first
        again = memory(2 * MOST)
        assert address(again) == where and kept.nbytes == 0
        small = memory(100_000)
        del again, small
        assert kept.nbytes > MOST
        late = memory(2 * MOST)
        del late
    kept.trim()
    assert kept.nbytes == 25 * 4096
    outside = memory(2 * MOST)
    del outside
    assert kept.nbytes == 25 * 4096
