"""Sphinx configuration. Warnings are errors (`make docs`), and nothing is fetched from the network."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts import architecture, release_notes  # noqa: E402

project = "tapedebug"
author = "the tapedebug developers"
copyright = author
release = json.loads((ROOT / "js" / "package.json").read_text())["version"]
version = release

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
root_doc = "index"
default_role = "code"  # docstrings write `names` in single backticks
templates_path = ["_templates"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# `make docs` runs the notebooks first; where they did not run they are shown without outputs
nb_execution_mode = "off"
nb_merge_streams = True
nb_ipywidgets_js = {}  # a panel is shown as its static summary: the live one needs a kernel
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]
suppress_warnings = ["mystnb.unknown_mime_type"]  # the trace that a panel keeps beside its summary
SHOWN = ROOT / "docs" / "notebooks"
for book in (ROOT / "notebooks").glob("*.ipynb"):
    shown = SHOWN / book.name
    if not shown.exists() or shown.stat().st_mtime < book.stat().st_mtime:
        shutil.copy(book, shown)

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"tapedebug {release}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
copybutton_prompt_text = r"\$ |>>> |\.\.\. |In \[\d+\]: "
copybutton_prompt_is_regexp = True


def rewrite(app: Any, page: str, source: list[str]) -> None:
    """Fill in what stands outside `docs/`: links of notebooks, the changelog's fragments, the map."""
    if page.startswith("notebooks/"):
        source[0] = source[0].replace("](../docs/", "](../").replace("](net.py)", "](../../notebooks/net.py)")
    elif page == "map":
        source[0] += architecture.file_map()
    elif page == "changelog":
        fragments = [f for f in (ROOT / "changelog.d").glob("*.md") if f.name != "README.md"]
        changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
        unreleased = "\n".join(release_notes.bullets(fragments))
        lines = changelog.replace(release_notes.UNRELEASED, unreleased).splitlines(keepends=True)
        source[0] = "".join(line for line in lines if "(changelog.d/" not in line).replace("](docs/", "](")


def setup(app: Any) -> None:
    """Register the above with Sphinx."""
    app.connect("source-read", rewrite)
