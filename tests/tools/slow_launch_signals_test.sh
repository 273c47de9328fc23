#!/usr/bin/env bash
# Ends of a launch: signals, a killed launcher, an error of all ranks, two machines, a failed
# rendezvous.
source "$(dirname "${BASH_SOURCE[0]}")/launch_fixture.sh"

# SIGTERM to the launcher, or to one rank, saves once and ends all with 143.
for who in launcher rank; do
  start_endless --run "$who"
  if [ $who = rank ]; then kill -TERM "$(rank_pid 1)"; else kill -TERM "$launcher"; fi
  ends_with 143 15
  [ -e $who/checkpoints/latest ] || { cat out.txt; fail "$who: nothing was saved"; }
  is "$(grep -c 'saved in' out.txt)" 1
  grep -q '^ranks  *2, [0-9]* threads\{0,1\} each' out.txt || { cat out.txt; fail "ranks are not named"; }
  grep -q "^to continue: .* launch -n 2 $root/recipes/dpo.lua --run $who --resume$" out.txt ||
    { cat out.txt; fail "the command to continue starts no ranks"; }
  no_ranks_left
done

# A rank that prints without end does not keep the launcher from signals, of which the second ends all at once.
cat >floods.lua <<'LUA'
local lines = ("x\n"):rep(30000)
while true do if os.getenv("RANK") == "1" then io.stderr:write(lines) end end
LUA
"$xrun" launch -n 2 floods.lua >out.txt 2>/dev/null </dev/null &
launcher=$!
sleep 3
kill -TERM "$launcher"
sleep 1
kill -TERM "$launcher"
for tries in $(seq 100); do kill -0 "$launcher" 2>/dev/null || break; sleep 0.1; done
! kill -9 "$launcher" 2>/dev/null || fail "the launcher of a rank that floods takes no signal"
wait "$launcher" || true
no_ranks_left

# The ranks of a launcher that is killed end with it.
start_endless --run orphans
kill -9 "$launcher"
wait "$launcher" 2>/dev/null || true
no_ranks_left

# An error that all ranks share is printed once.
wants 2 "--stepz is not an option" "$xrun" launch -n 3 environment.lua --stepz 3
is "$(grep -c stepz out.txt)" 1

# Two machines, which are this one: each has its launcher, reached by a program in place of ssh.
address=$(hostname -I 2>/dev/null | tr ' ' '\n' | grep -m 1 '\.' || true)
if [ -n "$address" ]; then
  printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' >over
  chmod +x over
  printf '%s\n%s\n' "$address" "$address" >hosts
  XRUN_LAUNCH_SSH=$work/over "$xrun" launch --hosts hosts environment.lua >out.txt 2>&1 </dev/null
  is "$(sort out.txt | tr '\n' ';')" "0 2 0 1 $address;[1] 1 2 0 1 $address;"
  XRUN_LAUNCH_SSH=$work/over wants 1 "rank 1 of 2: before step 0: fails.lua:1: no luck" \
    "$xrun" launch --hosts hosts fails.lua
  no_ranks_left
fi

# A port that another process has, and an address that leads nowhere.
python3 -c 'import socket, time
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); print(s.getsockname()[1], flush=True)
time.sleep(60)' >port &
until [ -s port ]; do sleep 0.1; done
RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$(cat port) \
  wants 1 "port $(cat port) is in use by another process" "$xrun" environment.lua
RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=9 XRUN_DIST_JOIN_S=1 \
  wants 1 "rank 1 of 2 cannot find rank 0: 127.0.0.1:9 cannot be reached: Connection refused" \
  "$xrun" environment.lua
