#!/usr/bin/env bash
# Recipes over sampled answers as commands: check on random answers, kills and resumes, the report.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"
sums() {
  local size=prompts
  [ "$2" != dapo ] || size=groups
  "$xrun" "$1" "$root/recipes/$2.lua" --set model=tiny --set template=chatml --set batch.$size=3 \
    --set sampling.max_tokens=6 --set data.1.path="$root/recipes/data/sums.jsonl" "${@:3}"
}

# No weights: random tokens, which a rule rewards alike. The penalty of dapo.lua varies; cispo.lua
# stops the gradient of its ratio, so differences of the loss are not its gradient.
for recipe in grpo dr_grpo dapo gspo cispo rloo reinforce ppo; do
  wants 0 'would train' sums check $recipe
  tr -s ' \n' ' ' <out.txt >text.txt
  for line in 'policy:sample gave random tokens, since no weights are loaded; rewards score those' \
    'the reward gave every random answer the same value' 'equals finite differences'; do
    [[ $recipe != dapo || $line != 'the reward gave'* ]] || continue
    [[ $recipe != cispo || $line != equals* ]] || line='the recipe detaches a term'
    grep -qF "$line" text.txt || { cat out.txt; fail "no line $line"; }
  done
done

# Killed by SIGKILL between bodies, with several updates in each.
wants 0 'gives the same bits' sums verify-resume grpo
wants 0 'gives the same bits' sums verify-resume dapo
wants 0 'gives the same bits' sums verify-resume ppo --set updates.epochs=2 --set updates.groups=2
# A KL term without a gradient is refused before any weights load.
wants 2 'kl = "k1" cannot be a term of a loss: its mean gradient is 0' sums check grpo --set kl=k1

# The record of every body is whole and readable, and the report takes the run.
wants 0 'run ' "$xrun" "$root/recipes/grpo.lua" --set model=tiny --set template=chatml \
  --set batch.prompts=3 --set sampling.max_tokens=6 \
  --set data.1.path="$root/recipes/data/sums.jsonl" --steps 2 --run r
[ "$(ls r/rollouts | tr '\n' ' ')" = "step_0000000.jsonl.zst step_0000001.jsonl.zst " ] ||
  fail "$(ls r/rollouts)"
wants 0 'report.html' "$xrun" report r
grep -q 'rewards of step 1</h3>' report.html || fail "no best and worst answers in the report"
wants 0 'step 1 · 3 groups · 24 answers' "$xrun" inspect r
grep -q '^group 0 · .*sums.jsonl:[0-9]* · 8 answers, mean reward' out.txt || { cat out.txt; fail "no group"; }
wants 0 'step 0 · 3 groups · 24 answers · 1 shown' "$xrun" inspect r --step 0 --rows 1
wants 2 'the run has rollouts of 2 steps, 0 to 1' "$xrun" inspect r --step 7
grep -q 'rollout/reward' report.html || grep -rq 'rollout/reward' r/*.html || fail "no reward in the report"

# SIGTERM while answers are sampled: the state of the last update is saved, and the resume has the
# bits of the undisturbed run. The answers of step 2 take seconds, so they are hit; a file marks them.
sed -e 's|^for step, prompts in.*|&\n  if step == 2 then io.open(cfg.mark, "w"):close() end|' \
  -e 's|policy:sample(prompts, cfg.sampling)|policy:sample(prompts, { samples = step == 2 and 32 or 8, max_tokens = step == 2 and 3000 or 6 })|' \
  -e 's|return xrun.rewards.number(s.text, s.answer)|return #s.text % 3|' \
  -e 's|^  steps    = 30,|  steps    = 4, mark = "mark",|' "$root/recipes/reinforce.lua" >long.lua
long=("$xrun" long.lua --set model=tiny --set template=chatml --set batch.prompts=3
  --set batch.max_tokens=4000 --set data.1.path="$root/recipes/data/sums.jsonl"
  --set valid.fraction=0.01)
"${long[@]}" --run whole >whole.log 2>&1 || { cat whole.log; fail "the long run"; }
rm mark
"${long[@]}" --run term >term.log 2>&1 &
pid=$!
for _ in $(seq 1200); do [ ! -e mark ] || break; sleep 0.05; done
kill -TERM $pid
status=0
wait $pid || status=$?
[ $status = 143 ] || { cat term.log; fail "SIGTERM while sampling ended with $status"; }
grep -qF 'saved in term/checkpoints/step_0000002' term.log || { cat term.log; fail "nothing saved"; }
[ "$(ls term/rollouts | wc -l)" = 2 ] || fail "an unfinished step has a record"
"$xrun" long.lua --run term --resume >resumed.log 2>&1 || { cat resumed.log; fail "no resume"; }
same_run whole term
for file in whole/rollouts/*; do cmp "$file" "term/rollouts/$(basename "$file")"; done
echo ok
