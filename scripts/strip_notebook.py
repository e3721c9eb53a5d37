"""Strip outputs and run numbers from notebooks, in place, so that git holds only what was written by hand.

`python scripts/strip_notebook.py [--check] NOTEBOOK…` exits 1 if something was changed, or with `--check`
would be.
"""

import json
import sys
from pathlib import Path


def stripped(text: str) -> str:
    """The notebook `text` without outputs, run numbers and widget state, in Jupyter's own formatting."""
    book = json.loads(text)
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = []
            cell["execution_count"] = None
        cell["metadata"] = {k: v for k, v in cell["metadata"].items() if k in {"tags"}}
    book["metadata"] = {k: v for k, v in book["metadata"].items() if k in {"kernelspec", "tapedebug"}}
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    """Strip every notebook named in `arguments`; return the exit status."""
    check = "--check" in arguments
    status = 0
    for path in (Path(a) for a in arguments if a != "--check"):
        before = path.read_text(encoding="utf-8")
        after = stripped(before)
        if before != after:
            status = 1
            print(f"{path}: {'holds outputs' if check else 'stripped'}")
            if not check:
                path.write_text(after, encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
