"""`watch_warp` where there is no Warp that can be watched: one message with a hint."""

from __future__ import annotations

import pytest

import tapedebug as td
from tapedebug.watch import hooks, session


def test_without_warp_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setattr(hooks, "installed_warp", lambda: None)
    with pytest.raises(td.TapedebugError) as raised, td.watch_warp():
        raise AssertionError("nothing is watched")
    assert str(raised.value) == ("watch_warp: NVIDIA Warp is not installed\n  = hint: pip install warp-lang")
    assert session._active is None


@pytest.mark.peer
def test_a_release_that_lacks_functions_is_refused(monkeypatch):
    wp = pytest.importorskip("warp")
    monkeypatch.setattr(hooks, "missing", lambda: ["warp._src.context:launch"])
    with pytest.raises(td.TapedebugError) as raised, td.watch_warp():
        raise AssertionError("nothing is watched")
    assert str(raised.value) == (
        f"watch_warp: NVIDIA Warp {wp.config.version} lacks warp._src.context:launch\n"
        "  = hint: install a release from 1.10 to 1.19"
    )
