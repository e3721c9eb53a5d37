"""The memory of jobs is used again: for other arguments, by several threads at once, not without end."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.runtime.parallel import partition

Floats = wp.array(dtype=float)
N = 40_000


@wp.kernel
def weighed(x: Floats, w: float, s: Floats, t: Floats):
    i = wp.tid()
    wp.atomic_add(s, 0, w * x[i])
    wp.atomic_add(t, i % t.shape[0], x[i])


def launched(x: np.ndarray, w: float, size: int) -> tuple[float, list[float]]:
    s, t = wp.zeros(1), wp.zeros(size)
    wp.launch(weighed, len(x), inputs=[wp.array(x, dtype=float), w, s, t])
    return float(s.numpy()[0]), t.numpy().tolist()


def jobs_of(kernel: Any) -> list[Any]:
    runs = [plan.large for plan in kernel.plans.values() if plan.large.scheduler is not None]
    found = [schedule.jobs for run in runs for schedule in run.scheduler.launches.values()]
    return list({id(each): each for each in found if each is not None}.values())


def jobs() -> list[Any]:
    return jobs_of(weighed)


def spare() -> list[Any]:
    return [made for each in jobs() for made in each.spare]


@pytest.fixture(autouse=True)
def _ordered() -> None:
    launched(np.ones(N, np.float32), 1.0, 8)
    assert any(each.parts for each in jobs()), "these launches are to have private copies"


def test_other_arguments_find_nothing_of_those_before() -> None:
    rows = [np.full(N, value, np.float32) for value in (1.0, 0.5, 1.0)]
    found = [launched(x, w, 8) for x, w in zip(rows, (2.0, 4.0, 2.0), strict=True)]
    assert found[0] == found[2] == (2.0 * N, [N / 8] * 8)
    assert found[1] == (2.0 * N, [N / 16] * 8)
    x, s, t = wp.ones(N), wp.zeros(1), wp.zeros(8)
    for number in range(1, 4):  # the very same arguments
        wp.launch(weighed, N, inputs=[x, 1.0, s, t])
        assert s.numpy().tolist() == [number * N]
    assert len(spare()) >= 1


def test_threads_that_launch_at_once_have_each_their_own() -> None:
    wrong = []

    def work(value: float) -> None:
        x = np.full(N, value, np.float32)
        wrong.extend([found for _ in range(200) if (found := launched(x, 1.0, 8)[0]) != value * N])

    threads = [threading.Thread(target=work, args=(value,)) for value in (1.0, 2.0, 4.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert 1 <= len(spare()) <= 4 * len(jobs())


def test_much_memory_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in jobs():
        each.spare.clear()
    monkeypatch.setattr(partition, "KEPT", 100)
    assert launched(np.ones(N, np.float32), 1.0, 8) == (N, [N / 8] * 8)
    assert spare() == []


@wp.kernel
def contact(x: Floats, force: Floats):
    i = wp.tid()
    s = float(0.0)
    for k in range(20):
        s += wp.sin(x[i] * float(k))
    if s > 1e6:
        wp.atomic_add(force, 0, s)


def test_many_threads_may_add_to_an_array_without_elements() -> None:
    x, force = wp.array(np.ones(200_000), dtype=float), wp.zeros(0)
    for _ in range(2):
        wp.launch(contact, x.size, inputs=[x, force])
    assert [each.size for each in jobs_of(contact)] == [0]
