"""Run notebooks and write them with their outputs: `python scripts/run_notebooks.py FOLDER NOTEBOOK…`.

The documentation shows the notebooks with outputs, which git does not hold. Two run at a time. A notebook
that needs a module that is not installed (`tapedebug.requires` in its metadata) is not run. Each that ran
holds a digest of what it ran with: if that has not changed, neither this script nor a test runs it again.
"""

import hashlib
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
WORKERS = 2
DIGEST = "ran_with"
"""The key of the digest in a notebook's metadata, below `tapedebug`."""


def run(path: Path, folder: Path) -> None:
    """Run a notebook where it stands, and write the result to `folder`."""
    book = nbformat.read(path, as_version=4)
    packages = missing_packages(book)
    if packages:
        print(f"{path.name}: not run, without {', '.join(packages)}", file=sys.stderr)
        book.cells.insert(1, nbformat.v4.new_markdown_cell(note(packages)))
        nbformat.write(book, folder / path.name)
    else:
        executed(path, folder)


def executed(path: Path, folder: Path) -> Any:
    """Return a notebook with its outputs: that in `folder` if it ran with the same sources, or run it now.

    A notebook that ran is written to `folder`.
    """
    before, wanted = folder / path.name, digest(path)
    if before.exists():
        book = nbformat.read(before, as_version=4)
        if book.metadata.get("tapedebug", {}).get(DIGEST) == wanted:
            return book
    book = nbformat.read(path, as_version=4)
    NotebookClient(book, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
    book.metadata.setdefault("tapedebug", {})[DIGEST] = wanted
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(book, before)
    return book


def digest(path: Path) -> str:
    """Return a digest of what a notebook's outputs depend on: its text, modules beside it, the package."""
    found = hashlib.sha256(sys.version.encode())
    used = [*path.parent.glob("*.py"), *(ROOT / "tapedebug").rglob("*.py"), path]
    for file in sorted(file.absolute() for file in used):  # `make docs` names notebooks by relative paths
        found.update(f"{file.name}\n".encode() + file.read_bytes())
    return found.hexdigest()


def missing_packages(book: Any) -> list[str]:
    """Return the packages that a notebook needs and that are not installed, as pip names them."""
    required: dict[str, str] = book.metadata.get("tapedebug", {}).get("requires", {})
    return [package for module, package in required.items() if find_spec(module) is None]


def note(packages: list[str]) -> str:
    """Return the text that stands in place of the outputs."""
    install = " ".join(packages)
    return (
        f"> This page was made where `{install}` is not installed, so the cells have no outputs here. To run "
        f"them, use `pip install {install}` and open the notebook in JupyterLab."
    )


def main(arguments: list[str]) -> int:
    """Run all notebooks; return the exit status."""
    if len(arguments) < 2:
        print("usage: python scripts/run_notebooks.py FOLDER NOTEBOOK…", file=sys.stderr)
        return 2
    folder, *books = map(Path, arguments)
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(WORKERS) as workers:
        list(workers.map(lambda book: run(book, folder), books))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
