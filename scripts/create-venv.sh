#!/usr/bin/env bash
# Make a virtual environment at $1 with $PYTHON (default python3), or say in one sentence what is missing.
set -euo pipefail
venv=$1 python=${PYTHON:-python3}

command -v "$python" >/dev/null || {
  echo "tapedebug needs Python 3.11 or newer, and there is no '$python' here: install it, or say where it is with 'make PYTHON=/path/to/python3 …'." >&2
  exit 1
}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "tapedebug needs Python 3.11 or newer, and '$python' is $("$python" -V 2>&1): say where a newer one is with 'make PYTHON=/path/to/python3 …'." >&2
  exit 1
}
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then # Debian splits venv off
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
  else
    echo "Python's venv module is missing: 'sudo apt-get install python3-venv', then run make again." >&2
    exit 1
  fi
fi
echo "make: creating $venv with $("$python" -V)"
"$python" -m venv "$venv"
