"""Make the pictures of the documentation anew: `python scripts/pictures.py`, with codes of rules only theirs.

Programs of `docs/findings/` and of `docs/start/` run, Chromium opens their reports, JupyterLab runs the first
bug (`scripts/pictures.mjs`), and the pictures become WebP files that the pages show.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts import finding_pages  # noqa: E402

DOCS = ROOT / "docs"
WIDTH = 1000
"""Pixels of a picture: as wide as two columns of the page on most screens."""
CHECK = """
import numpy as np
import tapedebug as wp

@wp.func
def cubed(x: float):
    return x * x * x

@wp.func_grad(cubed)
def adj_cubed(x: float, adj_ret: float):
    wp.adjoint[x] += 3.0 * x * adj_ret

@wp.kernel
def cube(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = cubed(x[i])

x = wp.array(np.linspace(0.5, 2.0, 6), dtype=float, requires_grad=True)
result = wp.autograd.gradcheck(
    cube, dim=6, inputs=[x], outputs=[wp.zeros_like(x)], raise_exception=False, show_summary=False
)
result.to_html("check.html")
"""


def write_reports(folder: Path, rules: list[str]) -> None:
    """Write the reports that Chromium opens: of each program, of the net, and of a check that fails.

    Args:
        folder: Where to.
        rules: Codes of rules whose pages are wanted alone; empty for everything.
    """
    python = [sys.executable]
    run = [*python, "-m", "tapedebug", "run"]
    for page in wanted(rules):
        parts = finding_pages.parts_of(finding_pages.text_of(page))
        *flags, name = parts["arguments"].split()
        (folder / name).write_text(parts["program"], encoding="utf-8")
        _in(folder, [*run, *flags, "--report", f"{page.stem}.html", name])
    if rules:
        return
    shutil.copy(ROOT / "notebooks" / "net.py", folder)
    _in(folder, [*run, "--on-overwrite", "ignore", "--report", "net.html", "net.py"])
    (folder / "check.py").write_text(CHECK, encoding="utf-8")
    _in(folder, [*python, "check.py"])
    check = folder / "check.html"
    check.write_text(check.read_text(encoding="utf-8").replace(f"{folder}/", ""), encoding="utf-8")


def wanted(rules: list[str]) -> list[Path]:
    """Return the pages of some rules; all pages if none is named."""
    pages = finding_pages.pages()
    return [page for page in pages if page.stem in rules] if rules else pages


def _in(folder: Path, command: list[str]) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHON": sys.executable}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode > 1 or done.stderr.strip():  # 1: a gradient is wrong
        raise RuntimeError(f"{command}: {done.stdout}{done.stderr}")


def small(path: Path) -> Image.Image:
    """A screenshot at the width of a page."""
    image = Image.open(path).convert("RGB")
    return image.resize((WIDTH, round(image.height * WIDTH / image.width)), Image.Resampling.LANCZOS)


def convert(folder: Path, rules: list[str]) -> None:
    """Write the pictures of the pages."""
    (DOCS / "findings" / "pictures").mkdir(exist_ok=True)
    for page in wanted(rules):
        start = page == finding_pages.FIRST
        target = DOCS / "start" if start else DOCS / "findings" / "pictures"
        small(folder / f"{page.stem}.png").save(target / f"{page.stem}.webp", quality=82, method=6)
    if rules:
        return
    for name in ("panel", "check"):
        small(folder / f"{name}.png").save(DOCS / "start" / f"{name}.webp", quality=82, method=6)
    frames = sorted(folder.glob("bug-*.png"))
    first, *others = map(small, frames)
    first.save(
        DOCS / "start" / "find-a-bug.webp",
        save_all=True,
        append_images=others,
        duration=[int(re.findall(r"\d+", frame.stem)[1]) for frame in frames],
        loop=0,
        quality=72,
        method=6,
    )
    for name, source in (("panel", "net"), ("panel-dark", "net-dark")):
        image = Image.open(folder / f"{source}.png").convert("RGB")
        image = image.resize((1400, 860), Image.Resampling.LANCZOS)
        image.quantize(192).save(DOCS / "_static" / f"{name}.png", optimize=True)


def main() -> int:
    """Make the pictures; return the exit status."""
    rules = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_reports(folder, rules)
        _in(ROOT, ["node", "scripts/pictures.mjs", str(folder), *(["reports"] if rules else [])])
        convert(folder, rules)
    return 0


if __name__ == "__main__":
    sys.exit(main())
