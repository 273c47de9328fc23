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

# An error after updates, of one rank alone or of all, is reported as it is and at once, with all
# sharded or not, and the last update is saved.
cat >alone.lua <<'LUA'
local xrun = require "xrun"
local cfg = xrun.config {
  model = "tiny", steps = 6, data = { { path = "chats.jsonl" } }, max_length = 64, over_length = "cut",
  optim = { lr = 1e-3 }, batch = { sequences = 2 }, where = "", ranks = "one", dist = { level = 1 },
}
local policy = xrun.policy(cfg.model)
local train, valid = xrun.chat(cfg.data, policy):split({ fraction = 0.2 })
local adamw = xrun.adamw(policy, cfg.optim)
local ema = xrun.ema(policy)
local function nll(t) return -policy:token_logprob(t) end
local run = xrun.run(cfg, { policy = policy, adamw = adamw, ema = ema })
for step, batch in run:steps(train, cfg.batch) do
  local function fail_at(where)
    if step == 2 and where == cfg.where and (cfg.ranks == "all" or os.getenv("RANK") == "1") then
      error("my own mistake")
    end
  end
  fail_at("before")
  run:log(adamw:step(batch, nll))
  fail_at("after")
  ema:use(function() fail_at("ema") run:log(run:evaluate(valid, nll)) end)
end
LUA
cp "$root/recipes/data/chats.jsonl" .
for level in 0 1 3; do
  for where in before after ema; do
    begin=$SECONDS
    wants 1 "rank 1 of 2: step 2: alone.lua:15: my own mistake" "$xrun" launch -n 2 alone.lua \
      --set dist.level=$level --set where=$where --run "alone_${level}_$where" --threads 1
    [ $((SECONDS - begin)) -le 20 ] || fail "level $level, $where: $((SECONDS - begin)) s"
    saved=$([ $where = before ] && echo 2 || echo 3)
    grep -q "saved in alone_${level}_$where/checkpoints/step_000000$saved" out.txt ||
      { cat out.txt; fail "level $level, $where: not saved"; }
    no_ranks_left
  done
  wants 1 "alone.lua:15: my own mistake" "$xrun" launch -n 2 alone.lua --set ranks=all \
    --set dist.level=$level --set where=after --run "all_$level" --threads 1
  grep -q "saved in all_$level/checkpoints/step_000000[23]" out.txt || { cat out.txt; fail "not saved"; }
done
# An error of rank 0 that the others wait for is rank 0's in the last line, too.
wants 2 "xrun: error: all_1: " "$xrun" launch -n 2 alone.lua --run all_1 --threads 1
is "$(grep -c 'all_1: ' out.txt)" 2
grep -q '^rank 0 of 2: before step 0: all_1: ' out.txt || { cat out.txt; fail "no last line"; }

# An error in an objective on one rank: all save, and the last line names that rank, whichever
# process ends first.
cat >objective.lua <<'LUA'
local xrun = require "xrun"
local cfg = xrun.config {
  model = "tiny", steps = 6, data = { { path = "chats.jsonl" } }, max_length = 64, over_length = "cut",
  optim = { lr = 1e-3 }, batch = { sequences = 9, max_tokens = 80 }, dist = { level = 1 },
}
local policy = xrun.policy(cfg.model)
local adamw = xrun.adamw(policy, cfg.optim)
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
local now = 0
local function nll(t)
  if now == 4 and os.getenv("RANK") == "1" then error("my objective is wrong") end
  return -policy:token_logprob(t)
end
for step, batch in run:steps(xrun.chat(cfg.data, policy), cfg.batch) do
  now = step
  run:log(adamw:step(batch, nll))
end
LUA
for level in 1 3; do
  wants 1 "my objective is wrong" "$xrun" launch -n 4 objective.lua --set dist.level=$level \
    --run "objective_$level" --threads 1
  tail -1 out.txt | grep -q "^rank 1 of 4: step 4: .*my objective is wrong" ||
    { cat out.txt; fail "the last line does not name the rank"; }
  grep -q "saved in objective_$level/checkpoints/step_0000004" out.txt || { cat out.txt; fail "not saved"; }
  ! grep "could not save" out.txt || fail "a failed save is reported"
done

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
