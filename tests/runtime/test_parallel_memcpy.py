"""Copies and zeros of large stretches of memory, made by several threads."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.runtime.parallel import parallel_memcpy, thread_pool
from tests.compiler import parallel_comparison

PART = 1 << 12


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Several threads work at small stretches, too; how many parts each job had."""
    seen: list[int] = []
    run = thread_pool.ThreadPool.run

    def counted(self: thread_pool.ThreadPool, job: int, args: int, count: int, threads: int) -> bool:
        seen.append(count)
        return run(self, job, args, count, threads)

    monkeypatch.setattr(parallel_memcpy, "LARGE", 4 * PART)
    monkeypatch.setattr(parallel_memcpy, "PART", PART)
    monkeypatch.setattr(parallel_memcpy, "_paces", {})
    monkeypatch.setattr(thread_pool.ThreadPool, "run", counted)
    monkeypatch.setattr(wp.config, "num_threads", 2)
    return seen


@pytest.fixture(autouse=True)
def _settings() -> object:
    with parallel_comparison.always_cut():
        yield


@pytest.mark.parametrize("nbytes", [4 * PART, 4 * PART + 1, 7 * PART + 63, 300 * PART - 1])
def test_every_byte_is_copied_and_zeroed_and_no_other(jobs: list[int], nbytes: int) -> None:
    rng = np.random.default_rng(0)
    source = rng.integers(1, 255, nbytes + 10, np.uint8)
    into = np.full(nbytes + 10, 255, np.uint8)
    for _ in range(3):  # the first ones are timed alone
        into[5:-5] = 255
        parallel_memcpy.copy(into[5:-5], source[3:-7])
        assert np.array_equal(into[5:-5], source[3:-7])
    for _ in range(3):
        into[5:-5] = 255
        parallel_memcpy.clear(into[5:-5])
        assert not into[5:-5].any()
    assert set(into[:5]) == set(into[-5:]) == {255}
    assert set(jobs) == {min(parallel_memcpy.MOST, nbytes // PART)}


def test_what_is_no_plain_stretch_is_left_to_numpy(jobs: list[int]) -> None:
    n = 8 * PART
    values = np.arange(n, dtype=np.float32)
    for into, given in (
        (np.zeros(n, np.float64), values),
        (np.zeros(2 * n, np.float32)[::2], values),
        (np.zeros((n // 8, 8), np.float32).T, values.reshape(n // 8, 8).T),
        (np.zeros((3, n), np.float32), values),
    ):
        for _ in range(3):
            parallel_memcpy.copy(into, given)
            assert np.array_equal(into, np.broadcast_to(given, into.shape))
            parallel_memcpy.clear(into[::2])
            assert not into[::2].any()
    shifted = values.copy()
    parallel_memcpy.copy(shifted[1:], shifted[:-1])
    assert np.array_equal(shifted[1:], values[:-1])
    assert jobs == []


def test_arrays_are_copied_and_zeroed_so(jobs: list[int]) -> None:
    n = 8 * PART
    a = wp.array(np.arange(n, dtype=np.float32), dtype=float, requires_grad=True)
    b = wp.zeros(n, dtype=float, requires_grad=True)
    for _ in range(3):
        b.fill_(1.0)
        wp.copy(b, a)
        assert np.array_equal(b.numpy(), np.arange(n))
        b.zero_()
        assert not b.numpy().any()
        b.fill_(0.0)
        a.grad.fill_(2.0)
        a.grad.zero_()
        assert not a.grad.numpy().any()
    assert len(jobs) >= 6
