"""Verdicts of Warp's and torch's checks on the pictures; `peers.json` keeps them."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
from typing import Any

from tests.gallery.entry import HERE, Picture, pictures

FILE = HERE / "peers.json"
COLUMNS = {"warp": "Warp", "torch32": "torch, float32", "torch64": "torch, float64"}
Answers = dict[str, bool | str | None]


def kept() -> dict[str, Any]:
    """Return the stored verdicts: the versions, and for each column the answers by picture."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def versions() -> dict[str, str]:
    """Return the peers that are installed here."""
    return {name: importlib.import_module(name).__version__.partition("+")[0] for name in ("warp", "torch")}


def asked() -> dict[str, Any]:
    """The answers of what is installed here."""
    import torch

    from tests.gallery import in_torch

    wrong, right = pictures()
    every = (wrong | right).values()
    return {
        "versions": versions(),
        "warp": of_warp(),
        "warp_defaults": of_warp(defaults=True),
        "torch32": {picture.name: in_torch.says(picture, torch.float32) for picture in every},
        "torch64": {picture.name: in_torch.says(picture, torch.float64) for picture in every},
    }


def of_warp(*, defaults: bool = False) -> Answers:
    """Return the result of Warp's `gradcheck`, or an error's name; optionally at its own tolerances."""
    import warp
    import warp.autograd

    warp.config.quiet = True
    wrong, right = pictures("warp")
    return {name: _of_warp(warp, picture, defaults) for name, picture in (wrong | right).items()}


def _of_warp(warp: Any, picture: Picture, defaults: bool) -> bool | str:
    tolerances = {} if defaults else picture.tolerances
    options = {**tolerances, **picture.options, "raise_exception": False, "show_summary": False}
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return bool(warp.autograd.gradcheck(picture.kernel, **picture.arguments(warp), **options))
    except Exception as error:  # whatever it says, it is neither of the two
        return type(error).__name__


def keep(answers: dict[str, Any]) -> None:
    """Write `peers.json`."""
    FILE.write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
