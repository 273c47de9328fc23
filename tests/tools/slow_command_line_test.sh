#!/usr/bin/env bash
# The command line: help, options in unusual positions, numbers, missing files, explain.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"

# Help lists every command; COMMAND --help describes that command.
wants 0 'usage: xrun RECIPE.lua' "$xrun" help
for command in $("$xrun" help | sed -n '/^commands:/,$s/^  \([a-z-]*\) .*/\1/p'); do
  case $command in help | --version) continue ;; esac
  wants 0 'Usage:' "$xrun" "$command" --help
  # An option without a description is alone on its line, and no indented line follows.
  awk '/^  +-/ { if (held != "") print held; held = NF < 3 ? $0 : ""; next }
    /^                    / { held = ""; next } { if (held != "") print held; held = "" }
    END { if (held != "") print held }' out.txt >bare
  [ ! -s bare ] || { cat bare; fail "options of $command without a description"; }
  # Only a text that ends an answer may be any text.
  ! grep -E '^  +-.* TEXT' out.txt | grep -v -e --stop >any || { cat any; fail "$command: TEXT says nothing"; }
  grep -qF "\`$command" "$root/docs/commands.md" || fail "docs/commands.md lacks $command"
done
wants 0 '--count' "$xrun" help tokenize
wants 2 'did you mean tokenize?' "$xrun" help tokenise
wants 0 'build and run the tests' "$xrun" help
wants 0 'Usage: xrun test [--quick] [FILTER]' "$xrun" help test
# Outside the source tree help does not need its scripts.
mkdir -p away/build/bin
cp "${xrun%/*}"/{xrun,libxrun_core.so} away/build/bin
wants 1 '`rm build/built-run; ./xrun --version` in the source tree sets it up again' away/build/bin/xrun doctor
wants 0 'Usage: xrun bench [NAME] [--json]' away/build/bin/xrun bench --help
wants 0 'Usage: xrun test [--quick] [FILTER]' away/build/bin/xrun help test
wants 1 'tests need the source tree around the build' away/build/bin/xrun test
wants 0 'the most tokens of an answer; 1024 on a terminal (128)' "$xrun" sample --help
wants 0 'gpt2-tiny (tiny)' "$xrun" init-model --help
# Help and errors are in plain words, not in the parser's own.
wants 0 'xrun cache [OPTIONS] RECIPE.lua | ls | verify | rm' "$xrun" cache --help
wants 2 'xrun cache [OPTIONS] RECIPE.lua | ls | verify | rm' "$xrun" cache
wants 2 'xrun cache has no subcommand lss; did you mean ls?' "$xrun" cache lss
wants 0 'xrun diff [OPTIONS] A B' "$xrun" diff --help
wants 2 'B is required' "$xrun" diff one
wants 2 'three is one argument too many' "$xrun" diff one two three
wants 2 'b is one argument too many' "$xrun" init a b
wants 2 '--temperature: got hot, wanted a number' "$xrun" sample --model tiny --temperature hot
wants 2 '--width: got 99999999999, wanted a smaller number' "$xrun" inspect echo.lua --width 99999999999
wants 2 '--jsn is not an option of xrun diff; did you mean --json?' "$xrun" diff --jsn one two
wants 2 'xrun check [OPTIONS] RECIPE' "$xrun" check
wants 2 '--steps needs a value' dpo --steps
wants 2 '--run needs a folder, got --steps' dpo --run --steps 1
wants 2 '--run needs a folder, got an empty name' dpo --run ""
wants 2 '--run needs a folder, got --json' "$xrun" check "$root/recipes/dpo.lua" --run --json
[ ! -e ./--steps ] || fail "an option became a run's folder"
wants 2 'config keys are set with --set beta=0.2' dpo beta=0.2
wants 2 'a setting is one word: --set beta=0.2' dpo --set beta 0.2

# Options before the recipe are read; before a command they are explained.
printf '%s\n' 'local xrun = require "xrun"' 'local cfg = xrun.config { beta = 1 }' \
  'print("ran " .. cfg.beta)' >echo.lua
wants 0 'ran 2' "$xrun" --set beta=2 echo.lua
wants 2 'xrun tokenize --json' "$xrun" --json tokenize
wants 2 'xrun RECIPE.lua --resume' "$xrun" --resume

# Numbers: the error gives the value and the expected range in readable digits.
wants 2 '--steps: got 0, wanted a whole number of at least 1' dpo --steps 0
wants 2 '--steps: got abc, wanted a whole number of at least 1' dpo --steps abc
wants 2 '--threads is given twice' dpo --threads 1 --threads 2
wants 2 '--steps is given 3 times' dpo --steps 1 --steps 2 --steps 3
wants 2 '--threads: got 99999, wanted a whole number from 1 to' dpo --threads 99999
wants 2 '--utilisation: got 2, wanted a number from 0.01 to 1' "$xrun" plan echo.lua --utilisation 2
wants 2 '--utilisation: got half, wanted a number from 0.01 to 1' "$xrun" plan echo.lua --utilisation half
wants 0 '--utilisation NUMBER' "$xrun" plan --help
wants 2 '--batch: got 0, wanted a whole number of at least 1' "$xrun" sample --model tiny --batch 0
wants 2 '--max-new-tokens: got -1, wanted a whole number of at least 0' \
  "$xrun" sample --model tiny --max-new-tokens -1
echo '{"ids":[1,2]}' >ids
wants 0 'threads on a machine that runs' "$xrun" score --model tiny --json --threads 64 ids

# An unknown device, or one that this machine lacks, is refused before anything runs or is recorded.
wants 2 '--device: got tpu, wanted cpu or cuda' dpo --device tpu --run device
wants 2 '--device: got tpu, wanted one of cpu, cuda' "$xrun" doctor --device tpu
CUDA_VISIBLE_DEVICES='' wants 2 '; use --device cpu' dpo --device cuda --run device
[ ! -e device ] || fail "a refused device left a run"
wants 0 'steps' dpo --device cpu --run device --steps 1

# An option that names something impossible is bad usage: status 2, and nothing is created.
wants 2 '--layers: got 0, wanted a whole number of at least 1' "$xrun" init-model new --layers 0
wants 2 '--seed: got -1, wanted a whole number of at least 0' "$xrun" init-model new --seed -1
wants 2 'is not a multiple of' "$xrun" init-model new --layers 1 --hidden 33 --heads 2
wants 2 "unknown dtype 'int8'" "$xrun" init-model new --dtype int8
wants 2 "unknown dtype 'int8'" "$xrun" score --model tiny --dtype int8 ids
for command in tokenize render "init-model new"; do
  # shellcheck disable=SC2086
  wants 2 'nowhere' "$xrun" $command --tokenizer nowhere
done
wants 2 'did you mean smollm2-135m-instruct?' "$xrun" init-model new --tokenizer smollm2
[ ! -e new ] || fail "refused options made a folder"
# Commands to copy are spelled as the program was called.
XRUN_CALLED_AS=./xrun wants 0 'try it:  cd start && ' "$xrun" init start --recipe kto
grep -qF "cd start && $PWD/xrun kto.lua" out.txt || { cat out.txt; fail "not the wrapper's name"; }
wants 1 "; to pass the text itself, pipe it in: echo 'Once upon' | xrun ..." "$xrun" tokenize --tokenizer tiny 'Once upon'
echo '{"ids":[1.5]}' >half
wants 1 'holds 1.5, wanted whole numbers from 0 to' "$xrun" score --model tiny --json half

# An unknown option that means a config key gives the --set.
wants 2 '--lr is not an option; config keys are set with --set optim.lr=1e-5' dpo --lr 1e-5
wants 2 '--set optim.lr=1e-5' dpo --learning-rate=1e-5
wants 2 'the size of a whole step: per_device_train_batch_size x gradient_accumulation_steps' dpo \
  --per_device_train_batch_size 4
wants 2 'is the size of a whole step, per_device_train_batch_size x' dpo --gradient_accumulation_steps 4
# One of another library is explained unless a --set of its value is all there is to say.
wants 2 "--output_dir is not an option; the run's folder is the option --run DIR" dpo --output_dir out
wants 2 'dtype=bf16' dpo --bf16 True
wants 2 'config keys are set with --set recompute=true' dpo --gradient_checkpointing True
wants 2 'it is the first of `optim.betas`: --set optim.betas.1=0.9' dpo --adam_beta1 0.9
wants 2 '`valid.every` is the number of steps between evaluations' dpo --eval_strategy steps
wants 2 'here it is `optim.schedule` (xrun explain optim.schedule)' dpo --lr_scheduler_type polynomial
wants 2 '`optim` is a table of the config: xrun explain optim' dpo --optim adamw_torch
wants 2 'there is no option --xyzzy; xrun explain lists the config keys' dpo --xyzzy 4
wants 2 'did you mean --set beta=0.2?' dpo --betta 0.2
wants 2 '--with-weights is not an option; did you mean --with-data or --with-model?' \
  "$xrun" bundle "$root/recipes/dpo.lua" --with-weights
wants 2 '--recipe is not an option; RECIPE is a plain argument' "$xrun" repl --recipe dpo
wants 2 '--out is not an option of xrun types; did you mean --output?' "$xrun" types --out x
wants 2 '--al is not an option of xrun cache; did you mean --all?' "$xrun" cache rm --al
wants 2 'takes one name; did you mean --where?' "$xrun" explain --were beta echo.lua
wants 2 '--step is not an option; did you mean --steps?' dpo --step 4
wants 2 '--set answers=0' dpo --answers 0
# A list of tables is set by a key of its first one.
wants 2 '--set data.1.path=pairs.jsonl' dpo --data pairs.jsonl
wants 2 '; --set data.1.path=pairs.jsonl sets it in the first one' dpo --set data=pairs.jsonl
wants 2 'a shell removes quotes, so put the whole setting between single ones' dpo --set 'data={{path=pairs.jsonl}}'
# A key of the recipe comes before the nearest option, which is --set.
wants 2 '--beta is not an option; config keys are set with --set beta=0.2' dpo --beta 0.2
wants 2 '--set beta=0.2' "$xrun" check "$root/recipes/dpo.lua" --beta=0.2
wants 2 'a setting has no blanks around its =: --set key=value' dpo --set beta = 0.2
wants 2 'a recipe trains: xrun RECIPE.lua' "$xrun" train
wants 2 'a recipe trains: xrun RECIPE.lua' "$xrun" run "$root/recipes/dpo.lua"
wants 2 'there is no command "compare"; `xrun diff A B` compares' "$xrun" compare a b
wants 2 '`xrun sample --model DIR --chat` chats' "$xrun" chat
wants 2 '`xrun RECIPE.lua --resume` continues a run' "$xrun" resume
wants 2 '`xrun --version` prints the version' "$xrun" version
wants 2 '`run:export` in the recipe writes' "$xrun" export
mkdir a_run && echo '{}' >a_run/run.json
wants 2 "a_run is the folder of a run: $xrun report a_run shows it, " "$xrun" a_run --resume
wants 2 "there is no command \"dpo\"; a recipe is a Lua file: $xrun init dpo --recipe dpo" "$xrun" dpo
mkdir own && touch own/dpo.lua own/mine.lua
(cd own && XRUN_CALLED_AS=xrun wants 2 'there is no command "dpo"; a recipe is a Lua file: xrun dpo.lua' "$xrun" dpo
  XRUN_CALLED_AS=xrun wants 2 'a recipe is a Lua file: xrun dpo.lua' "$xrun" dpo.lau
  XRUN_CALLED_AS=xrun wants 2 'a recipe is a Lua file: xrun mine.lua' "$xrun" mine
  XRUN_CALLED_AS=xrun wants 2 'try xrun dpo.lua; ' "$xrun" my_dpo.yaml)
mkdir -p shipped/recipes && touch shipped/recipes/{dpo_lora,grpo}.lua
(cd shipped && XRUN_CALLED_AS=xrun wants 2 'a Lua file: xrun recipes/dpo_lora.lua' "$xrun" dpo-lora)
wants 2 'config.yaml: a recipe is a Lua file that contains its settings; try ' "$xrun" config.yaml
wants 2 'contains its settings; try ' "$xrun" support.yaml
(cd shipped && wants 2 'xrun recipes/grpo.lua; docs/coming-from.md lists other tools'\'' keys' "$xrun" --config my_grpo.yml)
wants 2 '--config is not an option: a recipe has its settings in its Lua file' dpo --config c.yaml
wants 2 'config keys are set with --set optim.lr=1e-5' "$xrun" --lr 1e-5 echo.lua
# Data in place of a recipe.
echo '{"prompt": "q"}' >rows.jsonl
cp rows.jsonl rows
wants 2 'rows.jsonl: is data, not a recipe; name a recipe and give it the file: RECIPE.lua --set data.1.path=rows.jsonl' \
  "$xrun" rows.jsonl
wants 2 'rows.jsonl: is data, not a recipe' "$xrun" check rows.jsonl
wants 2 'rows: is data, not a recipe' "$xrun" check rows
mkdir recipes && cp echo.lua recipes/other.lua
wants 2 'ehco.lua: cannot be opened: there is no such file; did you mean echo.lua?' "$xrun" ehco.lua
wants 2 'did you mean recipes/other.lua?' "$xrun" other.lua
wants 2 'did you mean recipes/other.lua?' "$xrun" recipes/otehr.lua
for command in check inspect repl verify-resume; do
  wants 2 'did you mean recipes/other.lua?' "$xrun" $command recipes/otehr.lua
  [ "$(grep -c 'error:' out.txt)" = 1 ] || { cat out.txt; fail "$command reports two errors"; }
done

# explain describes a key or a name and suggests the nearest one for a typo.
wants 0 'here it is `optim.lr`' "$xrun" explain learning_rate
wants 0 'The learning rate after warmup.' "$xrun" explain learning_rate
wants 0 'every step is logged' "$xrun" explain logging_steps
wants 0 'The learning rate after warmup.' "$xrun" explain optim.lr
wants 0 '--resume, an option of xrun RECIPE.lua: continue a run' "$xrun" explain --resume
wants 0 'here it is `optim.lr`' "$xrun" explain --learning-rate
wants 0 'xrun.policy(model: string|xrun.Config.model, {lora?, recompute?, train?}) -> Policy: Opens the model' "$xrun" explain xrun.policy
wants 0 'Tensor:item() -> number|boolean' "$xrun" explain Tensor:item
wants 0 'keys: pairs, sequences, prompts, groups, tokens, schedule, max_tokens' "$xrun" explain batch
wants 0 'recipes/dpo.lua: answers = 128' "$xrun" explain answers
wants 0 'recipes/pair_losses.lua has it as `alpha`' "$xrun" explain rpo_alpha
wants 0 'optim.lr: The learning rate after warmup.' "$xrun" explain lr
wants 2 'did you mean max_length?' "$xrun" explain max_lenght
wants 2 'did you mean Policy:token_logprob, ' "$xrun" explain token_logprob
wants 2 'unknown key or name "xylophone"; xrun explain lists all' "$xrun" explain xylophone
