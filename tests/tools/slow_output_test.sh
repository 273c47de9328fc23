#!/usr/bin/env bash
# Commands that cannot finish: an interrupted download, output that cannot be written.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"

# A signal ends the download of a model and leaves no files.
mkdir bin
printf '#!/bin/sh\necho $$ >%s/child\nexec sleep 60\n' "$work" >bin/python3
chmod +x bin/python3
PATH=$work/bin:$PATH "$xrun" models get smollm2-135m-instruct 2>get.txt &
pid=$! status=0
for _ in $(seq 200); do [ ! -s child ] || break; sleep 0.05; done
kill -INT $pid
wait $pid || status=$?
[ $status = 130 ] || fail "an interrupted fetch ends with $status: $(cat get.txt)"
! kill -0 "$(cat child)" 2>/dev/null || fail "the download continues"
[ ! -e "$XRUN_CACHE"/models/*.work ] || fail "an interrupted fetch leaves its folder"

# Output that cannot be written is an error of any command.
dpo --run piped --steps 2 2>err | true
[ ! -s err ] || fail "a closed reader gets a message: $(cat err)"
grep -q step_0000002 piped/checkpoints/latest || fail "a closed reader stops the run"
if [ -c /dev/full ]; then
  for command in help --version models 'explain optim.lr' 'help tokenize'; do
    status=0
    # shellcheck disable=SC2086
    "$xrun" $command >/dev/full 2>err || status=$?
    [ $status = 1 ] || fail "$command to a full disk ends with $status"
    grep -q 'standard output cannot be written: No space left' err ||
      fail "$command says: $(cat err)"
  done
fi
