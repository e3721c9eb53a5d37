"""Damaged trace files load or are refused, soon, in little memory, and nothing is written.

`make fuzz` tries ten thousand of them.
"""

from __future__ import annotations

import pytest

from tests.sweeps import cases
from tests.trace.fuzz_files import damaged, fuzz, limited

COUNT = cases(full=2500, sample=100)


@pytest.mark.parametrize("first", range(0, 10_000, 2500))
def test_damaged_files_are_read_or_refused(first: int) -> None:
    outcomes = fuzz(first, COUNT)
    assert outcomes["refused"] > COUNT // 2
    assert outcomes["read"] > COUNT // 10, "files that are refused at the door say little"


def test_a_seed_is_one_file() -> None:
    assert [damaged(seed) for seed in range(40)] == [damaged(seed) for seed in range(40)]


def test_the_fuzzer_finds_what_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tapedebug.trace.json_codec.validate", lambda trace: None)
    with pytest.raises(AssertionError, match=r"^seed \d+: (IndexError|KeyError|ValueError|TypeError): "):
        fuzz(0, 1000)


def test_the_fuzzer_finds_what_takes_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tapedebug.trace._file.RATIO", 1 << 20)
    with pytest.raises(AssertionError, match=r"^seed \d+: (MemoryError|AssertionError: \d)"):
        fuzz(0, 1000, memory=1 << 28)  # what sound files take is less


def test_the_limits_limit() -> None:
    with pytest.raises(MemoryError), limited(memory=1 << 26):
        bytes(1 << 28)
    with pytest.raises(TimeoutError), limited(seconds=0.05):
        while True:
            pass
