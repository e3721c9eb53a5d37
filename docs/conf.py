"""Sphinx configuration. Warnings are errors (`make docs`), and nothing is fetched from the network."""

import json
from pathlib import Path
from typing import Any

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


LANGUAGE = """# The kernel language

Kernels are typed: parameters by their annotations, the rest by inference. `float` is float32, `int` is
int32, and nothing mixes silently: `x * 2` with a float `x` is an error that says to write `2.0`. There are
assignments, `if`, `for … in range(…)`, `while`, `break`, `continue`, early `return`, arithmetic and
comparison, array elements, vector components, and calls of other `@func` functions. Loops are reversed with
the values that they had. `//` and `%` on integers, casts, and `min` and `max` with NaN follow C.

Types: {types}.

Numbers: {constants}.

| function | | differentiable |
| --- | --- | --- |
"""


def write_language_page(_: Any) -> None:
    """The table of functions, from the rule table that the compiler uses."""
    from tapedebug.lang.builtins import BUILTINS, CONSTANTS
    from tapedebug.lang.rules import RULES

    scalars = ["bool", "int32", "int64", "float32", "float64"]
    vectors = [f"vec{n}{kind}" for n in (2, 3, 4) for kind in ("", "d", "i")]
    text = LANGUAGE.format(
        types=", ".join(f"`{name}`" for name in scalars + vectors),
        constants=", ".join(f"`{name}`" for name in CONSTANTS),
    )
    for name, builtin in sorted(BUILTINS.items()):
        flat = name == "tid" or (name in RULES and not RULES[name].differentiable)
        doc = (builtin.__doc__ or "").replace("|", "\\|")
        text += f"| `{name}` | {doc} | {'' if flat else 'yes'} |\n"
    page = Path(__file__).parent / "api" / "generated" / "language.md"
    page.parent.mkdir(exist_ok=True)
    if not page.exists() or page.read_text(encoding="utf-8") != text:
        page.write_text(text, encoding="utf-8")


def setup(app: Any) -> None:
    app.connect("config-inited", lambda app, _: write_language_page(app))
