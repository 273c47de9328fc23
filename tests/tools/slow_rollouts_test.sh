#!/usr/bin/env bash
# Recipes over sampled answers as commands: check on random answers, kills and resumes, the report.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"
sums() {
  local size=prompts
  [ "$2" != dapo ] || size=groups
  "$xrun" "$1" "$root/recipes/$2.lua" --set model=tiny --set template=chatml --set batch.$size=3 \
    --set sampling.max_tokens=6 --set data.1.path="$root/recipes/data/sums.jsonl" "${@:3}"
}

# No weights: random tokens, which a rule rewards alike. The penalty of dapo.lua varies.
for recipe in grpo dapo policy_losses; do
  wants 0 'would train' sums check $recipe
  tr -s ' \n' ' ' <out.txt >text.txt
  for line in 'policy:sample gave random tokens, since no weights are loaded; rewards are of those' \
    'the reward gave every random answer the same value' 'equals finite differences'; do
    [[ $recipe != dapo || $line != 'the reward gave'* ]] || continue
    grep -qF "$line" text.txt || { cat out.txt; fail "no line $line"; }
  done
done

# Killed by SIGKILL between bodies, with several updates in each.
wants 0 'gives the same bits' sums verify-resume grpo
wants 0 'gives the same bits' sums verify-resume dapo
wants 0 'gives the same bits' sums verify-resume policy_losses --set updates.epochs=2 \
  --set updates.groups=2

# The record of every body is whole and readable, and the report takes the run.
wants 0 'run ' "$xrun" "$root/recipes/grpo.lua" --set model=tiny --set template=chatml \
  --set batch.prompts=3 --set sampling.max_tokens=6 \
  --set data.1.path="$root/recipes/data/sums.jsonl" --steps 2 --run r
[ "$(ls r/rollouts | tr '\n' ' ')" = "step_0000000.jsonl.zst step_0000001.jsonl.zst " ] ||
  fail "$(ls r/rollouts)"
wants 0 'report.html' "$xrun" report r
grep -q 'rewards of step 1</h3>' report.html || fail "no best and worst answers in the report"
wants 0 'step 1 · 3 groups · 24 answers' "$xrun" inspect r
grep -q '^group 0 · row [0-9]* · 8 answers, mean reward' out.txt || { cat out.txt; fail "no group"; }
wants 0 'step 0 · 3 groups · 24 answers · 1 shown' "$xrun" inspect r --step 0 --rows 1
wants 2 'the run has rollouts of 2 steps, 0 to 1' "$xrun" inspect r --step 7
grep -q 'rollout/reward' report.html || grep -rq 'rollout/reward' r/*.html || fail "no reward in the report"
echo ok
