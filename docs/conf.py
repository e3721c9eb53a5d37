"""Sphinx configuration. Warnings are errors (`make docs`), and nothing is fetched from the network."""

import json
from pathlib import Path

project = "tapedebug"
author = "the tapedebug developers"
copyright = author
release = json.loads((Path(__file__).parents[1] / "js" / "package.json").read_text())["version"]
version = release

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
source_suffix = {".md": "markdown"}
root_doc = "index"
default_role = "code"  # docstrings write `names` in single backticks
templates_path = ["_templates"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"tapedebug {release}"
html_static_path = ["_static"]
copybutton_prompt_text = r"\$ |>>> |\.\.\. |In \[\d+\]: "
copybutton_prompt_is_regexp = True
