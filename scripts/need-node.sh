#!/usr/bin/env bash
# Say in one sentence what is missing, if Node.js 20 or newer is not here.
set -euo pipefail
major=$(node -p 'process.versions.node.split(".")[0]' 2>/dev/null || echo 0)
if [ "$major" -lt 20 ] || ! command -v npm >/dev/null; then
  found=$(node -v 2>/dev/null || echo none)
  echo "tapedebug builds its panel with Node.js 20 or newer and npm (found: $found): install them, then run make again." >&2
  exit 1
fi
