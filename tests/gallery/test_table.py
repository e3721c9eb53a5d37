"""The page of the gallery is what the checks say now; what Warp and torch say of it is kept beside."""

from __future__ import annotations

import re

import pytest

from tests.gallery import peers, table
from tests.gallery.entry import pictures


def test_the_page_is_current() -> None:
    written = table.PAGE.read_text(encoding="utf-8")
    assert written == table.page(), "python -m tests.gallery.table writes it anew"


def test_ours_has_no_false_pass_and_no_false_failure() -> None:
    (line,) = re.findall(
        r"\| tapedebug \| 0 of (\d+) \| 0 of (\d+) \|", table.PAGE.read_text(encoding="utf-8")
    )
    wrong, right = pictures()
    assert line == (str(len(wrong)), str(sum(picture.verdict == "AGREE" for picture in right.values())))


@pytest.mark.peer
@pytest.mark.slow
def test_what_the_others_say_is_what_was_kept(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("warp")
    pytest.importorskip("torch")
    kept = peers.kept()
    if peers.versions() != kept["versions"]:
        pytest.skip(f"the answers are those of {kept['versions']}")
    found = peers.asked()
    for column in (*peers.COLUMNS, "warp_defaults"):
        differ = {name: said for name, said in found[column].items() if kept[column][name] != said}
        assert differ == {}, column
    with capsys.disabled():
        print("\n" + "\n".join(table.counts({n: table.says(p) for n, p in every().items()}, found)))


def every() -> dict:
    wrong, right = pictures()
    return wrong | right
