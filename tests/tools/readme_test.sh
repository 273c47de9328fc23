#!/usr/bin/env bash
# README.md, docs/numbers.md and recipes/README.md have the same figures of the first run. With XRUN_DEMO=1
# and the model in the cache that run is made (two minutes), and it must print the README's lines; xdistill.lua
# runs too, and its held-out distance to the teacher must fall below 0.65 of its start.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
source "$root/tests/tools/checks.sh"
page=$root/README.md

# The lines that the page tells a reader to expect.
lines=$(sed -n '/among its last lines are$/,/^Step 0/s/^    //p' "$page")
figure() { sed -n "s/^$1\$/\1/p" <<<"$lines"; }
valid=$(figure 'valid  *loss \([0-9.]*\), accuracy 1.0000')
[ -n "$valid" ] || fail "README.md shows no validation loss"
is "$(figure 'step 16  valid  loss \([0-9.]*\)  accuracy 1.00')" "$valid"
tokens=$(figure ' *30 greedy answers at step 16: \([0-9.]*\) tokens on average, score 1.000')
grep -q "mean answer 80.8 to $tokens tokens, right answers 30 of 30" "$root/docs/numbers.md" ||
  fail "docs/numbers.md has another length of an answer than $tokens"
row=$(grep '^| \[dpo.lua\]' "$root/recipes/README.md")
[[ $row == *"validation loss 0.693 to $(LC_ALL=C printf %.3f "$valid"), mean answer 80.8 to $tokens tokens"* ]] ||
  fail "recipes/README.md has other figures than $valid and $tokens"

[ "${XRUN_DEMO:-0}" = 1 ] || exit 0
[ -d "${XRUN_CACHE:-$HOME/.cache/xrun}/models/smollm2-135m-instruct" ] || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
ln -s "$root/recipes" recipes
"${XRUN_BUILD:-$root/build}/bin/xrun" recipes/dpo.lua --run demo >out
while IFS= read -r line; do
  line=${line%...} # an answer that is cut
  grep -qF -- "$line" out || { cat out; fail "the run does not print \"$line\""; }
done <<<"$lines"

"${XRUN_BUILD:-$root/build}/bin/xrun" recipes/xdistill.lua --threads 2 --run xdistill >out
python3 - xdistill/metrics.jsonl <<'EOF'
import json, sys
kd = [row["valid/kd"] for row in map(json.loads, open(sys.argv[1])) if "valid/kd" in row]
assert kd[-1] < 0.65 * kd[0], kd
EOF
