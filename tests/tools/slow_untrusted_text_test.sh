#!/usr/bin/env bash
# No command prints an escape sequence that a file, a name or a row contains.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"
export XRUN_CACHE=$PWD/store
escape=$'\e'
data="pairs${escape}[31m.jsonl" run="run${escape}[2J"
head -n 40 "$root/tests/data/pairs.jsonl" >"$data"
printf '%s\n' '{"prompt": "\u001b[2Jclear", "chosen": "\u001b]0;title\u0007", "rejected": "b"}' \
  '{"prompt": "\u001b[2Jclear", "chosen": "a", "rejected": 7}' \
  "{\"prompt\": \"$escape[1m\", \"chosen\"" >>"$data"
# STATUS COMMAND...: checks the exit status and that no escape is printed.
clean() {
  local status=0
  "${@:2}" >out.txt 2>&1 <<<"${typed:-}" || status=$?
  [ "$status" = "$1" ] || { cat -v out.txt; fail "status $status, wanted $1: ${*:2}"; }
  ! grep -q "$escape" out.txt || { cat -v out.txt; fail "an escape sequence from: ${*:2}"; }
}
settings=(--set model=tiny --set data.1.path="$data" --set steps=4 --set batch.pairs=2
  --set valid.every=1)
recipe=$root/recipes/dpo.lua
clean 0 "$xrun" check "$recipe" "${settings[@]}"
clean 0 "$xrun" cache "$recipe" "${settings[@]}" --json
for command in ls verify; do clean 0 "$xrun" cache $command; done
clean 0 "$xrun" inspect "$recipe" "${settings[@]}" --color never
clean 0 "$xrun" "$recipe" "${settings[@]}" --set answers=2 --run "$run" --steps 2
grep -q 'run<1B>\[2J' out.txt || fail "the run's folder is not reported: $(cat out.txt)"
clean 0 "$xrun" "$recipe" "${settings[@]}" --set answers=2 --run "$run" --resume
clean 0 "$xrun" "$recipe" "${settings[@]}" --set answers=2 --run "$run" --resume # finished
clean 0 "$xrun" diff "$run" "$run"
clean 0 "$xrun" report "$run" --output page.html
clean 2 "$xrun" "$recipe" "${settings[@]}" --run "$run" # used already
typed=':info' clean 1 "$xrun" repl "$recipe" "${settings[@]}"
typed=$'step()\nbatch' clean 0 "$xrun" repl "$recipe" "${settings[@]}"
key=$(basename store/data/*)
printf '{"\e[31m' >"store/data/$key/manifest.json"
clean 0 "$xrun" cache ls
clean 1 "$xrun" cache verify
