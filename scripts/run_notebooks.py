"""Run notebooks and write them with their outputs: `python scripts/run_notebooks.py FOLDER NOTEBOOK…`.

The documentation shows the notebooks with outputs, which git does not hold. Two run at a time. A notebook
that needs a module that is not installed (`tapedebug.requires` in its metadata) is not run.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

WORKERS = 2


def run(path: Path, folder: Path) -> None:
    """Run a notebook where it stands, and write the result to `folder`."""
    book = nbformat.read(path, as_version=4)
    packages = missing_packages(book)
    if packages:
        print(f"{path.name}: not run, without {', '.join(packages)}", file=sys.stderr)
        book.cells.insert(1, nbformat.v4.new_markdown_cell(note(packages)))
    else:
        NotebookClient(book, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
    nbformat.write(book, folder / path.name)


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
