#!/usr/bin/env bash
# xrun report and xrun diff on folders of runs: complete, torn, of a newer format, and missing.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
xrun=${XRUN_BUILD:-$root/build}/bin/xrun
source "$root/tests/tools/checks.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# NAME BETA LAST: a run of three steps whose last loss is LAST.
make_run() {
  mkdir -p "$1"
  echo '{"format":1,"recipe":"dpo","finished":true,"stopped":"","steps":3,"binary":{"engine":"e"}}' >"$1/run.json"
  echo "{\"config\":{\"beta\":$2},\"origins\":{\"beta\":\"dpo.lua:9\"}}" >"$1/config.json"
  echo 'return 1' >"$1/recipe.lua"
  echo '{"sources":[]}' >"$1/ledger.json"
  printf '{"step":0,"train/loss":0.6931}\n{"step":1,"train/loss":0.5}\n{"step":2,"train/loss":%s}\n' "$3" >"$1/metrics.jsonl"
}
make_run a 0.1 0.25
make_run b 0.2 0.125

# One page, by default report.html, without references to other files.
"$xrun" report a >out 2>err
[ ! -s err ] || fail "a whole run has notices: $(cat err)"
grep -q '^report.html (' out || fail "got $(cat out)"
"$xrun" report a b -o both.html >/dev/null
grep -q 'data-group="run-1"' both.html || fail "the second run is not in the page"
! grep -qE 'https?:|src=|@import' both.html || fail "the page loads something external"
"$xrun" report a -o - >page
cmp page report.html

# diff: the exit status of diff(1).
status=0; "$xrun" diff a b >out || status=$?
is $status 1
grep -qF 'beta  0.1 (dpo.lua:9)  0.2 (dpo.lua:9)' out || fail "got $(cat out)"
grep -q 'the first difference is at step 2: train/loss' out || fail "got $(cat out)"
"$xrun" diff a a >out
grep -q 'the same in all 3 lines of metrics, bit for bit' out || fail "got $(cat out)"
status=0; "$xrun" diff a b --json >out || status=$?
is $status 1
grep -q '"same":false' out && grep -q '"first_apart":2' out || fail "got $(cat out)"

# A line torn by a kill is skipped and reported; the rest is shown.
cp -r a torn
printf '{"step":3,"train/lo' >>torn/metrics.jsonl
"$xrun" report torn 2>err >/dev/null
grep -q 'torn: metrics.jsonl:4: ends in the middle of a line' err || fail "got $(cat err)"
grep -q 'ends in the middle of a line' report.html || fail "the page does not report it"
"$xrun" diff a torn >/dev/null 2>&1

# Missing files and garbage are named, and their control characters are never printed.
cp -r a bare
rm bare/config.json bare/recipe.lua bare/ledger.json bare/metrics.jsonl
"$xrun" report bare 2>err >/dev/null
is "$(grep -c 'is missing' err)" 4
cp -r a garbage
head -c 3000 /dev/urandom >garbage/metrics.jsonl
printf '\033[2J</script>\n' >garbage/recipe.lua
"$xrun" report garbage >/dev/null 2>err
! grep -q $'\033' err report.html || fail "an escape sequence was printed"

# Refusals.
cp -r a newer
echo '{"format":99}' >newer/run.json
refuses 2 'is a run of format 99, this xrun reads formats up to 1' "$xrun" report newer
refuses 2 'is a run of format 99' "$xrun" diff a newer
refuses 2 'is not a run: it has no run.json; these below it are runs: ' "$xrun" report .
refuses 2 'this folder does not exist' "$xrun" report gone
refuses 2 'RUN' "$xrun" report
refuses 2 'B' "$xrun" diff a
echo '{"format":' >newer/run.json
refuses 1 'is not valid JSON' "$xrun" report newer
refuses 2 'is not valid JSON' "$xrun" diff a newer
refuses 1 'no/such/page.html' "$xrun" report a -o no/such/page.html
