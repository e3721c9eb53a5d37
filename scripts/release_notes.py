"""Gather the fragments of `changelog.d/` into `CHANGELOG.md`: `python scripts/release_notes.py VERSION`."""

import datetime
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("added", "changed", "fixed", "removed")
UNRELEASED = "See [`changelog.d/`](changelog.d/).\n"


def section(version: str, fragments: list[Path], day: datetime.date) -> str:
    """The changelog's section for `version`, one bullet a fragment, grouped by kind."""
    return "\n".join([f"## {version} ({day.isoformat()})", "", *bullets(fragments)])


def bullets(fragments: list[Path]) -> list[str]:
    """The lines of a section: one bullet a fragment, grouped by kind."""
    lines = []
    for kind in KINDS:
        own = sorted(f for f in fragments if f.suffixes[-2:] == [f".{kind}", ".md"])
        if own:
            lines += [f"### {kind.capitalize()}", ""]
            lines += ["- " + " ".join(f.read_text(encoding="utf-8").split()) for f in own]
            lines.append("")
    return lines


def main(arguments: list[str]) -> int:
    """Write the changelog and delete the fragments; return the exit status."""
    if len(arguments) != 1:
        print("usage: python scripts/release_notes.py VERSION", file=sys.stderr)
        return 2
    fragments = [f for f in (ROOT / "changelog.d").glob("*.md") if f.name != "README.md"]
    strangers = [f.name for f in fragments if not any(f.name.endswith(f".{kind}.md") for kind in KINDS)]
    if strangers or not fragments:
        what = f"no kind in {', '.join(strangers)}" if strangers else "no fragment"
        print(f"changelog.d: {what}", file=sys.stderr)
        return 1
    changelog = ROOT / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8")
    new = section(arguments[0], fragments, datetime.datetime.now(datetime.UTC).date())
    changelog.write_text(text.replace(UNRELEASED, UNRELEASED + "\n" + new, 1), encoding="utf-8")
    for fragment in fragments:
        fragment.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
