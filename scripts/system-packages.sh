#!/usr/bin/env bash
# The programs that tests drive and pip and npm cannot bring: Chromium (or Chrome) and Graphviz's dot.
# Installs what is missing with apt-get where that may be, and says in one sentence how otherwise.
set -euo pipefail

missing=()
command -v "${CHROMIUM:-/usr/bin/chromium}" >/dev/null || missing+=(chromium)
command -v dot >/dev/null || missing+=(graphviz)
[ ${#missing[@]} -eq 0 ] && exit 0

if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
  echo "make: installing ${missing[*]} with apt-get"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  exit 0
fi
echo "The tests need ${missing[*]}, and make may not install it here: run 'sudo apt-get install ${missing[*]}' (or your system's way; CHROMIUM=/path/to/chrome names a browser elsewhere), then 'make test' again." >&2
exit 1
