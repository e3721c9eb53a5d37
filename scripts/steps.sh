#!/usr/bin/env bash
# Run targets of make one after the other. Say which one runs, and at the end how long each took.
set -uo pipefail
times=()
status=0
for number in $(seq $#); do
  target=${!number}
  echo "==== step $number of $#: $target"
  begun=$SECONDS
  "${MAKE:-make}" --no-print-directory "$target" || status=$?
  taken=$((SECONDS - begun))
  times+=("$(printf '%-16s %3d min %02d s' "$target" $((taken / 60)) $((taken % 60)))")
  [ "$status" = 0 ] || break
done
echo "==== time of each step"
printf '  %s\n' "${times[@]}"
[ "$status" = 0 ] || echo "==== step $number of $#, $target, failed"
exit "$status"
