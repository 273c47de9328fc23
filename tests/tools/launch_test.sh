#!/usr/bin/env bash
# xrun launch: usage, environment, output, exit statuses, a killed rank. slow_launch_signals_test.sh has
# signals and hosts, slow_launch_test.sh has ranks that stop or hang.
source "$(dirname "${BASH_SOURCE[0]}")/launch_fixture.sh"

# Usage is checked before anything starts.
wants 2 "xrun launch -n 4 RECIPE.lua" "$xrun" launch -n 2
wants 2 "needs a number of processes" "$xrun" launch recipe.lua
wants 2 "-n: got 0, wanted a whole number" "$xrun" launch -n 0 recipe.lua
wants 2 "--ranks: got two, wanted a whole number" "$xrun" launch --ranks two recipe.lua
printf 'alpha slots=2\nbeta slots=x\n' >hosts
wants 2 'hosts:2: got "beta slots=x", wanted HOST or HOST slots=N' "$xrun" launch --hosts hosts recipe.lua
printf 'alpha slots=9223372036854775807\n' >many
wants 2 'many:1: got "alpha slots=9223372036854775807", wanted HOST or HOST slots=N with at most 1024' \
  "$xrun" launch --hosts many recipe.lua
printf 'alpha slots=2 # the first\n\nbeta\n' >hosts
wants 2 "-n 4 is more than the 3 slots in hosts" "$xrun" launch -n 4 --hosts hosts recipe.lua
RANK=0 wants 2 "RANK is set but WORLD_SIZE is not" "$xrun" recipe.lua

wants 0 "Usage: xrun launch [OPTIONS] RECIPE.lua" "$xrun" launch --help
is "$(grep -ci usage: out.txt)" 1

# Each rank has torchrun's variables; lines of all but rank 0 have their number.
"$xrun" launch -n 3 environment.lua >out.txt 2>&1
is "$(sort out.txt | tr '\n' ';')" \
  "0 3 0 3 127.0.0.1;[1] 1 3 1 3 127.0.0.1;[2] 2 3 2 3 127.0.0.1;"

# An error on one rank alone is printed once and ends all ranks.
wants 1 "rank 1 of 2: before step 0: fails.lua:1: no luck" "$xrun" launch -n 2 fails.lua
is "$(grep -c 'xrun: error' out.txt)" 1
no_ranks_left

# So does a rank whose recipe ends its process, with that status.
cat >exits.lua <<'LUA'
if os.getenv("RANK") == "1" then os.exit(7) end
os.execute("sleep 1")
LUA
wants 7 "rank 1 of 2: before step 0: the recipe ended its process with status 7" "$xrun" launch -n 2 exits.lua
no_ranks_left

# One rank alone has the same last line.
echo 'error("no luck")' >alone.lua
wants 1 "rank 0 of 1: before step 0: alone.lua:1: no luck" "$xrun" launch -n 1 alone.lua
is "$(grep -c 'xrun: error' out.txt)" 1

# A killed rank is named, with the last act of each rank, and all ranks end.
start_endless
kill -9 "$(rank_pid 1)"
ends_with 1 15
grep -q 'rank 1 of 2: step [0-9]*: killed by signal 9' out.txt || { cat out.txt; fail "no signal"; }
grep -q '^ *rank 0: step [0-9]*, .*collective [0-9]*' out.txt || { cat out.txt; fail "no last act"; }
no_ranks_left
