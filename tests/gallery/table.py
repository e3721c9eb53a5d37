"""The page of the documentation that shows the gallery: `python -m tests.gallery.table [--peers]` writes it.

With `--peers`, Warp and torch are asked again, which takes a minute; else what they said is kept.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import tapedebug as wp
from tapedebug.autograd import GradcheckResult, gradcheck
from tests.gallery import peers
from tests.gallery.entry import HERE, Picture, pictures
from tests.gallery.injection import FLAT, SMOOTH, TOLERANCES, places
from tests.processes import ROOT

PAGE = ROOT / "docs" / "gallery.md"
TEXT = HERE / "page.md"


def says(picture: Picture) -> GradcheckResult:
    """The result of our check, with default options."""
    options: dict[str, Any] = {**picture.tolerances, **picture.options}
    return gradcheck(
        picture.kernel, **picture.arguments(wp), **options, show_summary=False, raise_exception=False
    )


def page() -> str:
    """The page, with our verdicts of now and what the others said when they were asked."""
    answers = peers.kept()
    wrong, right = pictures()
    results = {name: says(picture) for name, picture in (wrong | right).items()}
    smooth = sorted({subject.name for subject in SMOOTH})
    flat = sorted({subject.name for subject in FLAT} - set(smooth))
    adjoints = sum(len(places(subject)) for subject in SMOOTH)
    tangents = sum(len(places(subject)) for subject in SMOOTH if subject.is_rule)
    return TEXT.read_text(encoding="utf-8").format(
        wrong=len(wrong), right=len(right), **answers["versions"],
        counts="\n".join(counts(results, answers)),
        wrong_table=table(wrong.values(), results, answers),
        right_table=table(right.values(), results, answers),
        injected=adjoints + tangents, adjoints=adjoints, tangents=tangents, **TOLERANCES,
        smooth=len(smooth), flat=", ".join(f"`{name}`" for name in flat),
    )  # fmt: skip


def counts(results: dict[str, GradcheckResult], answers: dict[str, Any]) -> list[str]:
    """A line for each checker: false passes and false failures, of how many."""
    wrong, right = pictures()
    smooth = {name for name, picture in right.items() if picture.verdict == "AGREE"}
    lines = []
    ours: peers.Answers = {name: bool(result) for name, result in results.items()}
    for title, said in [("tapedebug", ours), *((t, answers[c]) for c, t in peers.COLUMNS.items())]:
        passed = [said[name] is True for name in wrong if said[name] is not None]
        failed = [said[name] is not True for name in smooth if said[name] is not None]
        lines.append(f"| {title} | {sum(passed)} of {len(passed)} | {sum(failed)} of {len(failed)} |")
    lenient = [answers["warp_defaults"][name] is not True for name in smooth]
    lines.append(f"| Warp, at its default tolerances | | {sum(lenient)} of {len(lenient)} |")
    return lines


def table(shown: Iterable[Picture], results: dict[str, GradcheckResult], answers: dict[str, Any]) -> str:
    """The pictures of one kind."""
    lines = [
        f"| | atol, rtol | tapedebug | {' | '.join(peers.COLUMNS.values())} |",
        "|---|---|---|" + "---|" * len(peers.COLUMNS),
    ]
    for picture in shown:
        cells = [verdict(results[picture.name])]
        cells += [cell(picture, answers[column][picture.name]) for column in peers.COLUMNS]
        name = picture.name.replace("|", "\\|")
        lines.append(f"| {name} | {picture.atol:g}, {picture.rtol:g} | {' | '.join(cells)} |")
    return "\n".join(lines)


def verdict(result: GradcheckResult) -> str:
    """Ours, with the signature."""
    failing = result.failing
    signature = None if failing is None else failing.signature
    return result.verdict if signature is None else f"{result.verdict} ({signature.name})"


def cell(picture: Picture, said: bool | str | None) -> str:
    """Return the answer of another checker, in bold if it is false."""
    if said is None:
        return "–"
    word = said if isinstance(said, str) else "passes" if said else "fails"
    false = said is True if picture.verdict == "WRONG" else picture.verdict == "AGREE" and said is not True
    return f"**{word}**" if false else word


def main(arguments: list[str]) -> None:
    """Write the page."""
    if "--peers" in arguments:
        peers.keep(peers.asked())
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} is written")


if __name__ == "__main__":
    main(sys.argv[1:])
