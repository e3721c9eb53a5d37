"""The built front end, which every report contains."""

from __future__ import annotations

from pathlib import Path

from tapedebug._csp import source_hash
from tapedebug._dataclass import dataclass
from tapedebug._errors import TapedebugError

STATIC = Path(__file__).parent.parent / "static"


class BundleError(TapedebugError, RuntimeError):
    """The front end of this installation has not been built, or is incomplete."""


@dataclass(frozen=True, slots=True)
class Assets:
    """The script and the style of a report, with their hashes for its content security policy."""

    script: str
    style: str

    @property
    def policy(self) -> str:
        """The content security policy, which allows this script and this style only."""
        return "; ".join(
            (
                "default-src 'none'",
                f"script-src {source_hash(self.script)}",
                f"style-src {source_hash(self.style)}",
                "base-uri 'none'",
                "form-action 'none'",
            )
        )


def load_assets(folder: Path | None = None) -> Assets:
    """Return the built front end.

    Raises:
        BundleError: A file is missing, or contains the end tag of its element.
    """
    folder = STATIC if folder is None else folder
    parts = {}
    for name, element in (("report.js", "script"), ("report.css", "style")):
        path = folder / name
        try:
            text = path.read_text("utf-8")
        except FileNotFoundError:
            raise BundleError(
                f"the front end is not built: {path} is missing",
                hint="in the repository, run `make setup` (or `cd js && npm ci && npm run build:static`); "
                "an installed tapedebug carries it, so reinstall the wheel",
            ) from None
        if f"</{element}" in text.lower() or "<!--" in text:
            raise BundleError(f"{path} cannot be put into a page: it contains </{element} or <!--")
        parts[element] = text
    return Assets(script=parts["script"], style=parts["style"])
