# Shared by the tests of `xrun launch`: a run on two ranks that does not end by itself. Sourced.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"

# Prints torchrun's variables of each rank.
cat >environment.lua <<'LUA'
local names = { "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR" }
for i, name in ipairs(names) do names[i] = os.getenv(name) end
io.stderr:write(table.concat(names, " ") .. "\n") -- one call, so that no other rank's comes between
LUA
# Fails on rank 1 alone.
cat >fails.lua <<'LUA'
if os.getenv("RANK") == "1" then error("no luck") end
os.execute("sleep 1") -- or rank 0 may have ended before
LUA

# OPTION...: starts the shipped recipe on two ranks; returns after some steps.
start_endless() {
  rm -f out.txt  # that of an earlier run has steps already
  local run=(--run "endless_$RANDOM$RANDOM")
  [[ " $* " != *" --run "* ]] || run=()
  "$xrun" launch -n 2 "$root/recipes/dpo.lua" --set model=tiny --set answers=0 \
    --set steps=100000 --set batch.pairs=2 --set data.1.path="$root/tests/data/pairs.jsonl" \
    "${run[@]}" "$@" >out.txt 2>&1 </dev/null &
  launcher=$!
  local tries
  for tries in $(seq 600); do
    ! grep -qs '^ *step 1' out.txt || return 0
    kill -0 "$launcher" 2>/dev/null || { cat out.txt; fail "the run ended by itself"; }
    sleep 0.1
  done
  cat out.txt
  fail "no step within a minute"
}
# RANK: prints the process of the rank.
rank_pid() {
  local pid
  for pid in $(cat "/proc/$launcher/task/$launcher/children"); do
    ! tr '\0' '\n' <"/proc/$pid/environ" | grep -qx "RANK=$1" || { echo "$pid"; return; }
  done
  fail "rank $1 is not running"
}
# STATUS SECONDS: checks that the launcher ends with the status within the time.
ends_with() {
  local status=0 begin=$SECONDS
  wait "$launcher" || status=$?
  [ "$status" = "$1" ] || { cat out.txt; fail "status $status, wanted $1"; }
  [ $((SECONDS - begin)) -le "$2" ] || fail "ended after $((SECONDS - begin)) s, wanted $2"
}
# Checks that no process of this test's folder is left.
no_ranks_left() {
  local tries pid left
  for tries in $(seq 50); do
    left=
    for pid in /proc/[0-9]*; do
      if [ "$(readlink "$pid/cwd" 2>/dev/null)" = "$work" ] &&
        [ "$(readlink "$pid/exe" 2>/dev/null)" = "$xrun" ]; then left="$left ${pid#/proc/}"; fi
    done
    [ -n "$left" ] || return 0
    sleep 0.1
  done
  fail "processes are left:$left"
}
