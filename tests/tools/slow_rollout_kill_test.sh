#!/usr/bin/env bash
# kill -9 at random times in runs over rollouts, XRUN_KILLS of them (30): after the last resume the
# metrics (except perf/*), the record of every answer and the final weights equal those of the
# undisturbed run. All of them fold the answers to a prompt. The runs take turns: dynamic sampling
# with carried groups and prompts that teach nothing, a queue two steps deep with several updates in a
# body, and the plain loop with several updates. Kills fall into sampling, into streaks of equal
# rewards and between two inner updates.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"
kills=${XRUN_KILLS:-30}
cat >rollouts.lua <<'LUA'
local xrun = require "xrun"
local cfg = xrun.config {
  model = "tiny", data = { { path = "prompts.jsonl", keep = { "kind" } } }, template = "chatml",
  optim = { lr = 1e-3 }, batch = { groups = 3, max_tokens = 2000, fold_min = 8 }, steps = 30, save = { every = 3 },
  sampling = { samples = 4, max_tokens = 12, temperature = 0.9 },
  round = 5, depth = 0, updates = { epochs = 1, groups = 3 },
}
local policy = xrun.policy(cfg.model)
local data = xrun.prompts(cfg.data, policy)
local adamw = xrun.adamw(policy, cfg.optim)
local function reward(s)                         -- every second kind of prompt teaches nothing
  if s.kind == 0 then return 1 end
  return s.ids[1] % 2 + math.random(3), { first = s.ids[1] % 2 }
end
local function dapo(r)
  local ratio = (policy:token_logprob(r) - r.old_logprob):exp()
  local a = r:spread(r.advantage)
  return -(ratio * a):minimum(ratio:clamp(0.8, 1.28) * a), { ratio = ratio }
end
local source = xrun.rollouts {
  prompts = data, sampling = cfg.sampling, reward = reward, round = cfg.round, depth = cfg.depth,
}
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, rollouts in run:steps(source, cfg.batch) do
  rollouts.advantage = xrun.group_advantage(rollouts.reward, rollouts.group)
  for mini in rollouts:minibatches(cfg.updates) do run:log(adamw:step(mini, dapo)) end
end
run:export(policy)
LUA
for i in $(seq 0 39); do
  echo "{\"prompt\": \"say the word number $i\", \"kind\": $((i / 4 % 2))}"
done >prompts.jsonl
run() { # FORM RUN
  case $1 in
    carried) "$xrun" rollouts.lua --run "$2" ;;
    ahead) "$xrun" rollouts.lua --run "$2" --set depth=2 --set updates.epochs=2 \
      --set updates.groups=1 ;;
    updates) "$xrun" "$root/recipes/ppo.lua" --run "$2" --set model=tiny \
      --set template=chatml --set batch.prompts=3 --set batch.fold_min=8 \
      --set sampling.max_tokens=12 --set steps=30 \
      --set valid.fraction=0.01 --set valid.every=100 --set save.every=3 --set updates.epochs=2 \
      --set updates.groups=1 --set data.1.path="$root/recipes/data/sums.jsonl" ;;
  esac
}
recipe_of() { [ "$1" = updates ] && echo "$root/recipes/ppo.lua" || echo rollouts.lua; }
declare -A took_ms
for form in carried ahead updates; do
  began=$(date +%s%N)
  run $form whole_$form >whole.log 2>&1 || { cat whole.log; fail "the run $form"; }
  grep -q "folds [0-9.]*x: " whole.log || { cat whole.log; fail "the run $form does not fold"; }
  took_ms[$form]=$((($(date +%s%N) - began) / 1000000))
done
for metric in zero_variance_groups waiting_groups; do
  grep -q "\"rollout/$metric\":[1-9]" whole_carried/metrics.jsonl || fail "no $metric"
done
go() { # FORM RUN: starts it, or resumes it; its folder has the settings
  if [ -e "$2/run.json" ]; then "$xrun" "$(recipe_of "$1")" --run "$2" --resume; else run "$1" "$2"; fi
}
RANDOM=${XRUN_SEED:-20}
kill_once() { # FORM RUN LOG: returns 1 if the run had ended before
  go "$1" "$2" >"$3" 2>&1 &
  local pid=$! status=0
  sleep "$(awk -v r=$RANDOM -v t="${took_ms[$1]}" \
    'BEGIN {printf "%.3f", (0.05 + 0.55 * r / 32768) * t / 1000}')"
  pkill -9 -P $pid 2>/dev/null || true
  wait $pid 2>/dev/null || status=$?
  [ $status = 137 ]
}
same_answers() { # RUN RUN: the records of answers
  local file
  [ "$(ls "$1/rollouts")" = "$(ls "$2/rollouts")" ] || { diff <(ls "$1/rollouts") <(ls "$2/rollouts"); fail "the records of $1 and $2 are not alike"; }
  for file in "$1"/rollouts/*; do
    cmp "$file" "$2/rollouts/$(basename "$file")" || fail "$file differs in $2"
  done
}
hits=0
for trial in $(seq 1 $((2 * kills))); do
  form=$(echo carried ahead updates | cut -d' ' -f$((trial % 3 + 1)))
  # Up to three kills per trial, so that a resume is killed too.
  for _ in 1 2 3; do
    [ $hits = $kills ] || ! kill_once $form "run$trial" "log$trial" || hits=$((hits + 1))
  done
  go $form "run$trial" >"log$trial" 2>&1 || { cat "log$trial"; fail "trial $trial does not resume"; }
  same_run whole_$form "run$trial"
  same_answers whole_$form "run$trial"
  rm -rf "run$trial"
  [ $hits -lt $kills ] || break
done
echo "$hits kills"
[ $hits = $kills ] || fail "only $hits kills hit a running process"
