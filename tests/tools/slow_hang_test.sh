#!/usr/bin/env bash
# A rank that hangs outside Lua code ends the run within 15 s; one that waits for a program goes on.
source "$(dirname "${BASH_SOURCE[0]}")/launch_fixture.sh"

# os.tmpname() calls mkstemp, which then waits for a signal that does not come.
cat >hang.c <<'C'
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int mkstemp64(char* name) {
  while (strncmp(name, "/tmp/lua_", 9) == 0) pause();
  return mkostemp(name, 0);
}
int mkstemp(char* name) { return mkstemp64(name); }
C
cc -D_GNU_SOURCE -shared -fPIC -o hang.so hang.c

# CALL NAME: the recipe with a call of rank 1 before its loop.
recipe_with() {
  sed "s/for step, batch in/if os.getenv(\"RANK\") == \"1\" then $1 end\nfor step, batch in/" \
    "$root/recipes/dpo.lua" >"$2.lua"
}
# NAME COMMAND...: starts it on two ranks.
start_on_two() {
  "${@:2}" "$xrun" launch -n 2 "$1.lua" --set model=tiny --set answers=0 --run "$1" --set steps=2 \
    --set batch.pairs=2 --set data.1.path="$root/tests/data/pairs.jsonl" >out.txt 2>&1 </dev/null &
  launcher=$!
}

recipe_with 'print("here")\nio.stderr:write("hangs now\\n")\nos.tmpname()' hangs
start_on_two hangs env LD_PRELOAD="$work/hang.so"
for tries in $(seq 600); do
  ! grep -q 'hangs now' out.txt || break
  sleep 0.1
done
begin=$EPOCHREALTIME
ends_with 1 17
awk -v from="$begin" -v to="$EPOCHREALTIME" 'BEGIN { print "a deadlock ended after", to - from, "s" }'
report='rank 1 of 2: before step 0: no progress for 1[0-9] s and no processor time in the recipe.s Lua'
grep -q "$report code, and others wait for it in \".*\" (collective [0-9]*, " out.txt ||
  { cat out.txt; fail "the deadlock was not found"; }
grep -q "  rank 0: before step 0, waiting in .*hangs.lua:[0-9]" out.txt ||
  { cat out.txt; fail "no line of the recipe"; }
no_ranks_left

recipe_with 'os.execute("sleep 16")' waits
start_on_two waits env
ends_with 0 60
grep -q "rank 1 of 2 shows no progress in the recipe's Lua code, which waits for a file or program" \
  out.txt || { cat out.txt; fail "no notice"; }
no_ranks_left
