#!/usr/bin/env bash
# Install packages into the environment $1: with uv, which takes seconds where pip takes a minute, or else with pip.
set -euo pipefail
python=$1/bin/python
shift

"$python" -m uv --version >/dev/null 2>&1 || "$python" -m pip install -qq 'uv>=0.5' || true
# uv does not read pip's settings: it takes packages from the index that pip was given, if any
index=$("$python" -m pip config list | sed -n "s/^.*[.]index-url='\(.*\)'\$/\1/p" | tail -1)
[ -z "$index" ] || export UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-$index}
mkdir -p build
"$python" -m uv pip install --quiet --python "$python" "$@" 2>build/uv.log || "$python" -m pip install -qq "$@"
# jsonschema imports it if it is there, to check a format that no notebook has; each process of Jupyter, Sphinx and pytest would
# take 4 seconds of processor time to make its parser
"$python" -m uv pip uninstall --quiet --python "$python" rfc3987-syntax 2>/dev/null || "$python" -m pip uninstall -qqy rfc3987-syntax
