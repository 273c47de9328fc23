#!/usr/bin/env bash
# Runs the commands of docs/tour.md in order in one folder, as a newcomer types them.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XRUN_CACHE=$work/cache OMP_NUM_THREADS=1
cd "$work"
# The built program under the name that the tour uses.
printf '#!/bin/sh\nexec "%s" "$@"\n' "${XRUN_BUILD:-$root/build}/bin/xrun" >xrun
chmod +x xrun
awk '/^```sh$/ { on = 1; next } /^```$/ { on = 0 } on' "$root/docs/tour.md" >tour.sh
[ "$(grep -c xrun tour.sh)" -ge 15 ] || { echo "the tour lost its commands"; exit 1; }
bash -euo pipefail tour.sh >out 2>&1 || { cat out; echo "FAILED"; exit 1; }
for text in 'dpo.lua would train' 'exit status 2' 'gives the same bits' '"train/loss":0.6931' \
  'agree with finite differences'; do
  grep -qF -- "$text" out || { cat out; echo "FAILED: the tour does not say $text"; exit 1; }
done
[ -s tour/report.html ] || { echo "FAILED: no report"; exit 1; }
echo ok
