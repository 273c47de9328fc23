#!/usr/bin/env bash
# Messages of a run that is stopped: by a signal before and after its first update, by a lost
# terminal, by a full disk during a checkpoint.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"

forever='print("endless") while true do end' # of which stop() waits for the print
# NAME STEP: writes the shipped recipe with a body that never ends at the step.
endless() {
  sed "s|^  if step == 0 then run:log.*|  if step == $2 then $forever end|" \
    "$root/recipes/dpo.lua" >"$1"
}
# SIGNAL STATUS RECIPE RUN TEXT...: sends the signal when the run has reached its endless loop.
stop() {
  local status=0
  "$xrun" "$3" --set model=tiny --set answers=0 --set steps=9 --set batch.pairs=2 \
    --set data.1.path="$root/tests/data/pairs.jsonl" --run "$4" >"$4.txt" 2>&1 </dev/null &
  local pid=$!
  for _ in $(seq 600); do grep -q endless "$4.txt" 2>/dev/null && break; sleep 0.1; done
  kill -"$1" $pid
  wait $pid || status=$?
  [ $status = "$2" ] || { cat "$4.txt"; fail "$1 ended with $status, wanted $2"; }
  for text in "${@:5}"; do
    grep -qF -- "$text" "$4.txt" || { cat "$4.txt"; fail "$1 of $3 does not say '$text'"; }
  done
}

endless first.lua 0
stop INT 130 first.lua first "stopping after this step" \
  "stopped at first.lua:36 before the first update; there was nothing to save"
endless third.lua 2
stop HUP 129 third.lua hup "stopped at third.lua:36; saved in hup/checkpoints/step_0000002"
stop TERM 143 third.lua term "saved in term/checkpoints/step_0000002" \
  "to continue: $xrun third.lua --run term --resume"
# After the first update of the first body nobody knows whether another one follows.
sed "s|^  run:log(adamw:step(batch, dpo))|&\n  if step == 0 then $forever end|" \
  "$root/recipes/dpo.lua" >half.lua
stop INT 130 half.lua half "in step 0, the first one; only whole steps are saved, so nothing is saved yet"

# A full disk at a checkpoint is reported once, with the lost steps. Finds the write to fail by search.
full() { # FAULT
  XRUN_FILE_FAULT=$1 "$xrun" "$root/recipes/dpo.lua" --set model=tiny --set answers=0 \
    --set steps=9 --set batch.pairs=2 --set valid.every=9 --set save.every=3 --run "full$1" \
    --set data.1.path="$root/tests/data/pairs.jsonl" >"full.txt" 2>&1 </dev/null
}
for write in $(seq 20 2 80); do
  full "write:$write" && fail "the run ended before the disk was full"
  grep -q "No space left" full.txt || { cat full.txt; fail "the error does not name the disk"; }
  grep -qF "step_0000003 are not saved; --resume repeats them" full.txt && break
done
grep -qF "step_0000003 are not saved" full.txt || fail "no fault hit the second checkpoint"
[ "$(grep -c "No space left" full.txt)" = 1 ] || { cat full.txt; fail "the full disk is reported twice"; }
