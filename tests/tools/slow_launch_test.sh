#!/usr/bin/env bash
# Ranks that stop or hang are reported within 15 s, and all end.
source "$(dirname "${BASH_SOURCE[0]}")/launch_fixture.sh"

# A stopped rank, the first one included.
for rank in 1 0; do
  start_endless
  sleep 0.5  # the others know a rank's step from its last report, four times a second
  kill -STOP "$(rank_pid $rank)"
  ends_with 1 15
  grep -q "rank $rank of 2: step [0-9]*: no answer for" out.txt || { cat out.txt; fail "rank $rank"; }
  no_ranks_left
done

# A loop in Lua code is reported with its line.
sed 's/for step, batch in/if os.getenv("RANK") == "1" then while true do end end\nfor step, batch in/' \
  "$root/recipes/dpo.lua" >loops.lua
line=$(grep -n 'while true' loops.lua | cut -d: -f1)
"$xrun" launch -n 2 loops.lua --set model=tiny --set answers=0 --run loops \
  --set data.1.path="$root/tests/data/pairs.jsonl" >out.txt 2>&1 </dev/null &
launcher=$!
ends_with 1 40
grep -q "rank 1 of 2: before step 0: no progress for 1[0-9] s in the recipe's Lua code" out.txt ||
  { cat out.txt; fail "the loop was not found"; }
grep -q "rank 1: .*loops.lua:$line" out.txt || { cat out.txt; fail "no line of the loop"; }
no_ranks_left

# Stopped together and continued, as by Ctrl-Z and fg, the run goes on.
start_endless
kill -STOP "$(rank_pid 0)" "$(rank_pid 1)"
sleep 10
kill -CONT "$(rank_pid 0)" "$(rank_pid 1)"
sleep 2
kill -0 "$launcher" || { cat out.txt; fail "a run that was paused ended"; }
kill -TERM "$launcher"
ends_with 143 15

# Any rank at any moment, and none hangs.
for turn in $(seq "${XRUN_KILLS:-10}"); do
  start_endless
  sleep 0.$((RANDOM % 10))
  begin=$EPOCHREALTIME
  kill -9 "$(rank_pid $((RANDOM % 2)))"
  ends_with 1 15
  awk -v from="$begin" -v to="$EPOCHREALTIME" 'BEGIN { print "ended after", to - from, "s" }'
  no_ranks_left
done
