"""Memory that is cleared late holds zeros for everybody who looks; who overwrites all of it need not wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.runtime.memory import block_allocator, lazy_zero
from tapedebug.runtime.memory.block_allocator import KEPT, BlockAllocator

N = 30_000
Floats = wp.array(dtype=float)


@pytest.fixture(autouse=True)
def used(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """There is memory for some arrays, and in it what others have left."""
    monkeypatch.setattr(block_allocator, "kept", BlockAllocator(KEPT))
    others = [wp.full(N, 9.0) for _ in range(12)]
    del others
    yield


@pytest.fixture
def cleared(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return for each buffer that gets its memory late whether it is cleared."""
    found: list[bool] = []
    plain = lazy_zero.place_memory

    def place_memory(buffer: Any, *, clear: bool = True) -> None:
        if buffer.deferred_zero is not None:
            found.append(clear)
        plain(buffer, clear=clear)

    for module in (lazy_zero, wp.runtime.memory.buffer):
        monkeypatch.setattr(module, "place_memory", place_memory)
    return found


@wp.kernel
def written(x: Floats, y: Floats):
    i = wp.tid()
    y[i] = x[i] + 1.0


@wp.kernel
def in_part(x: Floats, y: Floats):
    i = wp.tid()
    if x[i] > 0.5:
        y[i] = x[i]


@wp.kernel
def added(x: Floats, y: Floats):
    i = wp.tid()
    y[i] = y[i] + x[i]


@wp.kernel
def backwards(x: Floats, y: Floats, n: int):
    i = wp.tid()
    y[n - 1 - i] = x[i]


LOOKS: dict[str, Callable[[Any], Any]] = {
    "numpy": lambda a: a.numpy(),
    "list": lambda a: a.list(),
    "view": lambda a: a[5:].numpy(),
    "reshaped": lambda a: a.reshape((N // 2, 2)).numpy(),
    "clone": lambda a: wp.clone(a).numpy(),
    "copy": lambda a: copied(a).numpy(),
    "array interface": lambda a: np.asarray(a),
    "buffer": lambda a: a.buffer.data.view(np.float32),
    "pointer": lambda a: wp.array(ptr=a.ptr, dtype=float, shape=(N,)).numpy(),
    "dlpack": lambda a: np.from_dlpack(a),
}


def copied(a: Any) -> Any:
    other = wp.full(N, 3.0)
    wp.copy(other, a)
    return other


@pytest.mark.parametrize("look", LOOKS)
def test_whoever_looks_sees_zeros(look: str) -> None:
    a = wp.zeros(N)
    assert a.buffer.deferred_zero is not None, "else this tests nothing"
    assert not np.any(LOOKS[look](a))
    assert a.buffer.deferred_zero is None


def test_some_zeros_are_overwritten_and_others_seen() -> None:
    a = wp.zeros(N)
    a[7:9].fill_(2.0)
    assert a.numpy().sum() == 4.0


@pytest.mark.parametrize("taped", [True, False])
@pytest.mark.parametrize("record", [True, False])
def test_a_launch_that_writes_all_of_it_takes_it_as_it_is(
    taped: bool, record: bool, cleared: list[bool]
) -> None:
    x, y = wp.ones(N, requires_grad=True), wp.zeros(N, requires_grad=True)
    wp.launch(written, N, [x, wp.ones(N, requires_grad=True)])  # the first one of a kernel looks closely
    tape = wp.Tape()
    if taped:
        tape.__enter__()
    try:
        wp.launch(written, N, [x], [y], record_tape=record)
    finally:
        if taped:
            tape.__exit__(None, None, None)
    assert cleared == [False]
    assert (y.numpy() == 2.0).all()
    assert len(tape.records) == (taped and record)


@pytest.mark.parametrize("taped", [True, False])
@pytest.mark.parametrize(("kernel", "more"), [(in_part, ()), (added, ()), (backwards, (N,))])
def test_other_launches_find_zeros(kernel: Any, more: tuple[int, ...], taped: bool) -> None:
    values = np.linspace(0.0, 1.0, N).astype(np.float32)
    x, y = wp.array(values, dtype=float), wp.zeros(N)
    if taped:
        with wp.Tape():
            wp.launch(kernel, N, [x, y, *more])
    else:
        wp.launch(kernel, N, [x, y, *more])
    expected = {in_part: np.where(values > 0.5, values, 0.0), added: values, backwards: values[::-1]}[kernel]
    np.testing.assert_array_equal(y.numpy(), expected)


def test_a_launch_over_fewer_threads_finds_zeros() -> None:
    x, y = wp.ones(N), wp.zeros(N)
    wp.launch(written, N - 1, [x, y])
    assert y.numpy()[-1] == 0.0


def test_the_same_array_twice_holds_zeros() -> None:
    y = wp.zeros(N)
    wp.launch(written, N, [y, y])
    assert (y.numpy() == 1.0).all()


def test_what_is_read_first_holds_zeros() -> None:
    x, y = wp.zeros(N), wp.zeros(N)
    wp.launch(written, N, [x, y])
    assert (y.numpy() == 1.0).all()
    assert not x.numpy().any()


def test_a_launch_that_is_refused_leaves_zeros() -> None:
    x, y = wp.ones(N, requires_grad=True), wp.zeros(N, requires_grad=True)

    @wp.kernel
    def squared(x: Floats, y: Floats, z: Floats):
        i = wp.tid()
        y[i] = x[i] * x[i]
        z[i] = 1.0

    @wp.kernel
    def overwritten(x: Floats, y: Floats):
        i = wp.tid()
        x[i] = 2.0
        y[i] = 1.0

    with wp.Tape(on_overwrite="error"):
        wp.launch(squared, N, [x, wp.zeros(N, requires_grad=True), wp.zeros(N)])
        with pytest.raises(wp.OverwriteError):
            wp.launch(overwritten, N, [x, y])
    assert not y.numpy().any()
    z = wp.zeros(N)
    with pytest.raises(wp.LaunchError):
        wp.launch(scaled, N, [x, z, "two"])
    assert not z.numpy().any()


@wp.kernel
def scaled(x: Floats, y: Floats, s: float):
    i = wp.tid()
    y[i] = s * x[i]


@pytest.mark.parametrize("options", [{}, {"track": "elements"}, {"memory_budget": 300_000}])
def test_tapes_and_replays_are_as_with_memory_that_was_cleared(options: dict[str, Any]) -> None:
    x = wp.array(np.linspace(0.1, 1.0, N), dtype=float, requires_grad=True)
    found = []
    for late in (True, False):
        arrays = [wp.zeros(N, requires_grad=True) for _ in range(4)]
        for a in arrays if not late else ():
            a.numpy()
        with wp.Tape(**options) as tape:
            wp.launch(scaled, N, [x, arrays[0], 2.0])
            wp.launch(added, N, [arrays[0], arrays[1]])
            wp.launch(in_part, N, [arrays[1], arrays[2]])
            wp.launch(scaled, N, [arrays[2], arrays[3], 3.0])
        tape.backward(grads={arrays[3]: wp.ones(N)})
        again = tape.replay()
        found.append(
            [x.grad.numpy().copy(), *(a.numpy().copy() for a in arrays), again.values(arrays[3]).copy()]
        )
        tape.zero()
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


def test_arrays_that_nobody_uses_are_never_cleared(cleared: list[bool]) -> None:
    before = lazy_zero.waiting.blocks
    arrays = [wp.zeros(N) for _ in range(5)]
    assert lazy_zero.waiting.blocks == before + 5
    del arrays
    assert lazy_zero.waiting.blocks == before
    assert cleared == []


def test_arrays_are_of_the_class_that_they_seem_to_be_of() -> None:
    a = wp.zeros(N)
    assert isinstance(a, wp.array)
    assert type(a).__name__ == "array"
    assert a.ptr == a.buffer.address
    assert type(a) is wp.array
    b = wp.zeros(N)
    assert not b.buffer.data.any()
    assert type(b.buffer).__name__ == "Buffer"
    wp.launch(written, N, [a, b])
    assert type(b) is wp.array


def test_unknown_attributes_are_what_they_are_elsewhere() -> None:
    a = wp.zeros(N)
    with pytest.raises(AttributeError, match="^'array' object has no attribute 'pointer'$"):
        _ = a.pointer
    with pytest.raises(AttributeError, match="^'Buffer' object has no attribute 'pointer'$"):
        _ = a.buffer.pointer
    assert a.buffer.deferred_zero is not None
