"""The version of this package."""

from __future__ import annotations

import json
from pathlib import Path

PACKAGE = Path(__file__).parent


def installed_version(package: Path = PACKAGE) -> str:
    """Return the version of the package in a folder, from the files beside it.

    They are the manifest of the front end in a source tree, whose version both have, and the folder
    `tapedebug-VERSION.dist-info` of an installed package. Parsing the metadata in that folder, as
    `importlib.metadata` does, takes 15 ms, and every trace names the version.

    Raises:
        importlib.metadata.PackageNotFoundError: The package is not installed.
    """
    manifest = package.parent / "js" / "package.json"
    if manifest.is_file():
        found = json.loads(manifest.read_text(encoding="utf-8"))
        if found.get("name") == package.name:
            return str(found["version"])
    folders = [path.name for path in package.parent.glob(f"{package.name}-*.dist-info")]
    if len(folders) == 1:
        return folders[0].removeprefix(f"{package.name}-").removesuffix(".dist-info")
    from importlib import metadata

    return metadata.version(package.name)
