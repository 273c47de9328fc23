#!/usr/bin/env bash
# xrun explain finds every command, key and operator; xrun init sets up a folder.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"

"$xrun" explain >names
for command in $("$xrun" help | sed -n '/^commands:/,$s/^  \([a-z-]*\) .*/\1/p'); do
  case $command in help | --version) continue ;; esac
  grep -q "^xrun $command " names || fail "explain does not know $command"
done
wants 0 'xrun doctor: test whether' "$xrun" explain doctor
grep -q '^over_length ' names || fail 'no keys'
wants 0 'log_sigmoid(Tensor self)' "$xrun" explain log_sigmoid
wants 2 'did you mean doctor' "$xrun" explain docter

# Recipes, their keys and losses, options of functions, templates.
wants 0 'Group Relative Policy Optimization' "$xrun" explain grpo
wants 0 'xrun init DIR --recipe kto' "$xrun" explain recipes/kto.lua
wants 0 'recipes/pair_losses.lua: -- Azar et al. 2023' "$xrun" explain ipo
wants 0 'Group Sequence Policy Optimization' "$xrun" explain gspo
wants 0 'on_error, an option of Policy:sample, Rollouts:score' "$xrun" explain on_error
wants 0 'sampling.samples: Answers to each prompt.' "$xrun" explain sampling.samples
wants 2 'did you mean optim.warmup?' "$xrun" explain optim.wamup
wants 2 'did you mean beta?' "$xrun" explain betta
wants 0 '--resume, an option of xrun RECIPE.lua' "$xrun" explain resume
wants 0 'samples, an option of Policy:sample' "$xrun" explain samples
wants 0 'data[].quota: ' "$xrun" explain data.quota
# A key inside a table by its last name, beside a Lua name of that name.
wants 0 'data[].fields: ' "$xrun" explain fields
wants 0 'data[].fields: ' "$xrun" explain 'data[i].fields'
wants 0 'data[].keep: ' "$xrun" explain keep
grep -qF 'xrun.keep(' out.txt || { cat out.txt; fail "explain keep leaves xrun.keep out"; }
wants 0 'save.every: ' "$xrun" explain every
wants 0 'recipes/grpo.lua: beta' "$xrun" explain beta
wants 0 'here it is `sampling.samples`' "$xrun" explain num_generations
wants 0 'it is `sampling.max_tokens` of the recipe' "$xrun" explain max_completion_length
wants 0 'here it is `sampling.temperature`' "$xrun" explain temperature
wants 0 'sampling.temperature: Divides the logits' "$xrun" explain temperature
wants 0 'it is `train/margin` of metrics.jsonl' "$xrun" explain rewards/margins
wants 0 'it is `valid/loss` of metrics.jsonl' "$xrun" explain eval_loss
wants 0 'XRUN_CACHE, a variable of the environment: the folder of caches' "$xrun" explain XRUN_CACHE
wants 0 'here it is `shuffle`' "$xrun" explain shuffle_dataset
wants 0 'a built-in chat template: --set template=qwen2.5' "$xrun" explain qwen2.5
wants 0 'prefix, a law of templates: a prefix of the messages renders' "$xrun" explain prefix
wants 0 '--set laws.turns=false switches it off' "$xrun" explain laws.turns
wants 0 'no_prompt, a reason to drop a row (of pairs, prompts, feedback): no turn' \
  "$xrun" explain no_prompt
grep -q '^too_long ' names || fail 'no reasons to drop a row'
wants 0 'train/grad_norm, train/lr, of metrics.jsonl: the gradient norm' "$xrun" explain train/grad_norm
wants 0 'the objective'"'"'s loss' "$xrun" explain valid/other/loss
wants 2 'did you mean train/grad_norm?' "$xrun" explain grad_norm
grep -q '^rollout/length_p50 ' names || fail 'no metrics'
grep -q '^shared_prompt ' names || fail 'no laws'

# The definitions, and a folder with them; existing files stay.
"$xrun" types >types.lua
grep -q '^---@meta xrun' types.lua || fail "types"
"$xrun" types -o other.lua
cmp types.lua other.lua
wants 0 'wrote mine/dpo.lua' "$xrun" init mine
cmp mine/.xrun/types/xrun.lua types.lua
cmp mine/data/preferences.jsonl "$root/recipes/data/preferences.jsonl"
diff mine/dpo.lua "$root/recipes/dpo.lua" >changed || true
[ "$(grep -c '^>' changed)" = 1 ] || { cat changed; fail "more than a path differs"; }
python3 -c 'import json; json.load(open("mine/.luarc.json"))'
echo "-- mine" >mine/dpo.lua
wants 0 'kept  mine/dpo.lua' "$xrun" init mine
is_mine=$(cat mine/dpo.lua)
[ "$is_mine" = "-- mine" ] || fail "init wrote over a file"
echo stale >mine/.xrun/types/xrun.lua
wants 0 'wrote mine/.xrun' "$xrun" init mine --types
cmp mine/.xrun/types/xrun.lua types.lua
wants 2 'unknown recipe "dop" (did you mean dpo?); recipes: ' "$xrun" init other --recipe dop
[ ! -e other ] || fail "a refused init made a folder"

# A recipe starts in its new folder and finds its data; one trains offline.
for name in kto joint pretrain pair_losses; do
  "$xrun" init "all/$name" --recipe "$name" >/dev/null
  for file in $(grep -o '"data/[a-z_.]*"' "all/$name/$name.lua" | tr -d '"'); do
    [ -s "all/$name/$file" ] || fail "$name lacks $file"
  done
  ! grep -q recipes/ "all/$name/$name.lua" || fail "$name reads outside its folder"
done
"$xrun" init-model bytes_model --tokenizer bytes --layers 1 --hidden 32 --heads 2 >/dev/null
cd all/pair_losses
wants 0 'run/hf' "$xrun" pair_losses.lua --set model="$work/bytes_model" --steps 1 --run run
echo ok
