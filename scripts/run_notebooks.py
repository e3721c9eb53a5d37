"""Run notebooks and write them with their outputs: `python scripts/run_notebooks.py FOLDER NOTEBOOK…`.

The documentation shows the notebooks with outputs, which git does not hold. Two run at a time.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient

WORKERS = 2


def run(path: Path, folder: Path) -> None:
    """Run a notebook where it stands, and write the result to `folder`."""
    book = nbformat.read(path, as_version=4)
    NotebookClient(book, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
    nbformat.write(book, folder / path.name)


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
