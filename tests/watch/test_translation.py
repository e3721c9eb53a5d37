"""The table of translated kernels has the stored counts, and nine kernels in ten are translated."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.watch import translation


def test_the_page_has_the_stored_counts() -> None:
    page = translation.PAGE.read_text(encoding="utf-8")
    assert f"{translation.BEGIN}{translation.table(translation.load())}{translation.END}" in page


def test_nine_kernels_in_ten_that_need_nothing_of_warp_are_translated() -> None:
    for package, found in translation.load().items():
        others = found["kernels"] - found["native_kernels"]
        assert others == found["translated"] + len(found["refused"]), package
        assert found["translated"] >= 0.9 * others, package


@pytest.mark.peer
def test_kernels_of_examples_are_counted_by_what_they_use() -> None:
    pytest.importorskip("warp").config.quiet = True

    def kernels(module: str) -> dict[str, Any]:
        found = importlib.import_module(f"warp.examples.{module}")
        return {name: kernel for name, kernel in vars(found).items() if type(kernel).__name__ == "Kernel"}

    fluid, dem = kernels("core.example_fluid"), kernels("core.example_dem")
    assert {name: translation.native_objects(kernel) for name, kernel in fluid.items()} == {
        name: set() for name in fluid
    }
    assert translation.refusal(fluid["init"]) is None
    assert translation.native_objects(dem["apply_forces"]) == {"hash grids"}
    reason = translation.refusal(dem["apply_forces"])
    assert reason is not None
    assert "hash_grid" in reason
