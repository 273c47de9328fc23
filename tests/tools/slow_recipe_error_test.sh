#!/usr/bin/env bash
# Errors of recipes: the line, the values, the saved state; interruption anywhere.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"

# NAME LOSS-LINE: writes the shipped recipe with another first line of its objective's return.
variant() {
  sed "s|^  return -margin:log_sigmoid(), {|  $2\n  return -margin:log_sigmoid(), {|" \
    "$root/recipes/dpo.lua" >"$1"
}
run() { # RECIPE ARGUMENT...
  "$xrun" "$1" --set model=tiny --set answers=0 --set valid.every=100 --set steps=66 \
    --set data.1.path="$root/tests/data/pairs.jsonl" --set batch.pairs=2 "${@:2}"
}

# A misspelt key in the file: both lines and the key that was meant, before anything loads.
sed 's/^  beta    = /  betta   = /' "$root/recipes/dpo.lua" >betta.lua
wants 2 'betta' run betta.lua
wants 2 'beta' run betta.lua

# A wrong-length loss names the expected length.
variant long.lua 'do return margin:repeat_interleave(2) end'
wants 1 'one per pair' run long.lua --run long

# A method that views alone have: the expression that does the same over a batch.
sed 's/^  run:log(adamw:step(batch, dpo))/  local x = batch:spread(batch.length)\n&/' \
  "$root/recipes/dpo.lua" >spread.lua
wants 1 'write x:repeat_interleave(batch.length)' run spread.lua --run spread

# A Lua error in the body of step 40 (call 41: step 0 evaluates first): the state before that step's
# update is saved, and a resume continues from it.
run "$root/recipes/dpo.lua" --run whole >/dev/null
variant at40.lua 'if calls == 41 then local x = nil; x.y = 1 end; calls = calls + 1'
sed -i '1i local calls = 0' at40.lua
wants 1 'at40.lua:' run at40.lua --run at40
grep -q 'step_0000040' at40/checkpoints/latest ||
  fail "saved $(cat at40/checkpoints/latest), wanted step 40"
sed 's/calls == 41/calls == -1/' at40.lua >fixed.lua && mv fixed.lua at40.lua
wants 1 'recipe.lua:27' run at40.lua --run at40 --resume
run at40.lua --run at40 --resume --force >/dev/null
same_run whole at40

# A loss that is not finite stops the run, saves the batch and names its rows.
variant nan.lua 'margin = margin / 0 * 0'
wants 1 'failed_batch.json' run nan.lua --run nan
grep -q '"tokens"' nan/failed_batch.json || fail "the batch is not saved"
wants 1 'pairs.jsonl:' run nan.lua --run nan2

# A sidecar of reference values that cannot be written: one error with the file, the step saved, and
# the run continues to the same bits once there is room.
mkdir -p cache && rm -rf cache/columns && touch cache/columns
wants 1 'cache/columns/' run "$root/recipes/dpo.lua" --run column
grep -q 'step_0000001' column/checkpoints/latest || fail "the step before the column is lost"
wants 1 'cache/columns/' run "$root/recipes/dpo.lua" --run column --resume
rm cache/columns
run "$root/recipes/dpo.lua" --run column --resume >/dev/null
same_run whole column

# Ctrl-C and SIGTERM: saved, resumed, the same bits; also in a Lua loop that never ends.
interrupt() { # SIGNAL STATUS RECIPE RUN LINES: sent once metrics.jsonl has so many lines
  local status=0 lines=0
  run "$3" --run "$4" >"$4.txt" 2>&1 &
  local pid=$!
  for _ in $(seq 600); do
    lines=$(cat "$4/metrics.jsonl" 2>/dev/null | wc -l || true)
    [ "$lines" -lt "$5" ] || break
    sleep 0.05
  done
  kill -"$1" "$(pgrep -P $pid || echo $pid)" || fail "$3 ended before $1"
  wait $pid || status=$?
  [ $status = "$2" ] || { cat "$4.txt"; fail "$1 ended with $status, wanted $2"; }
}
variant loop.lua 'if calls == 8 then while true do end end; calls = calls + 1'
sed -i '1i local calls = 0' loop.lua
interrupt INT 130 loop.lua loop 7
grep -q 'step_0000007' loop/checkpoints/latest ||
  fail "the loop saved $(cat loop/checkpoints/latest)"
sed 's/calls == 8/calls == -1/' loop.lua >ended.lua && mv ended.lua loop.lua
run loop.lua --run loop --resume --force >/dev/null
same_run whole loop

# SIGTERM between steps: the step is saved, the status is the signal's.
cp "$root/recipes/dpo.lua" term.lua
interrupt TERM 143 term.lua term 5
[ -e term/checkpoints/latest ] || fail "SIGTERM saved nothing"
[ "$(cat term/checkpoints/latest)" != step_0000066 ] || fail "SIGTERM came after the end"
run term.lua --run term --resume >/dev/null
same_run whole term
