#!/usr/bin/env bash
# xrun check reports errors with file, line and fix, and reads no weights.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"
ln -s "$root/recipes" recipes
export TMPDIR=$work/temporary
mkdir "$TMPDIR"
spoil_weights # nothing reads the values
dpo=$root/recipes/dpo.lua
check() {
  "$xrun" check "$1" --set model=tiny --set answers=0 --set batch.pairs=2 \
    --set data.1.path="$root/tests/data/pairs.jsonl" "${@:2}"
}
# NAME SED-EXPRESSION: writes dpo.lua with a change.
changed() { sed "$2" "$dpo" >"$1"; ! cmp -s "$1" "$dpo" || fail "$1 is unchanged"; }

wants 0 'dpo.lua would train' check "$dpo"
for line in 'ok +config +[0-9]+ values set' 'ok +ledger .* rows kept|ok +ledger .* kept' \
  'ok +template +these laws hold on the data: bos, eot_trained' 'ok +steps +16 steps of 2 of [0-9]+ pairs' \
  'ok +memory +[0-9.]+ [kMG]B of tensors: ' 'ok +dry step +the body of step 0 ran .*train/loss' \
  'ok +gradient +the gradient at [0-9]+ log-probs equals finite differences; the loss decreases when chosen'; do
  grep -qE "^$line" out.txt || { cat out.txt; fail "no line $line"; }
done
grep -qE 'beta +0.1 +.*dpo.lua:[0-9]+$' out.txt || { cat out.txt; fail "no origin"; }
[ ! -e runs ] || fail "check left a run"
# --run is taken as a run takes it, so that a command line needs only its first word changed.
wants 0 'dpo.lua would train' check "$dpo" --run named
[ ! -e named ] || fail "check made the run's folder"
[ -z "$(ls -A "$TMPDIR")" ] || fail "check left $(ls "$TMPDIR")"

# Configuration, a recipe without a loop, an error before it.
wants 2 'there is no key `betta`' check "$dpo" --set betta=1
changed betta.lua 's/cfg.beta \* (chosen/cfg.betta * (chosen/'
wants 2 'wrong    config' check betta.lua
grep -qE 'betta.lua:[0-9]+: .*betta' out.txt || { cat out.txt; fail "no location"; }
printf 'local xrun = require "xrun"\nprint(1)\n' >none.lua
wants 2 'none.lua:2: the recipe ends without a loop' "$xrun" check none.lua
printf 'local xrun = require "xrun"\nlocal x = nil + 1\n' >fails.lua
wants 2 'fails.lua:2: attempt to perform arithmetic on a nil value' "$xrun" check fails.lua
printf 'local x = = 1\n' >syntax.lua
wants 2 'syntax.lua:1' "$xrun" check syntax.lua
! grep -q '^ok ' out.txt || { cat out.txt; fail "a recipe that was not read has a passing check"; }
wants 2 'nowhere.lua: cannot be opened' "$xrun" check nowhere.lua

printf 'while true do end\n' >endless.lua
wants 2 "endless.lua:1: the recipe's own code ran longer than 10 s" "$xrun" check endless.lua
status=0
timeout --preserve-status -s INT 2 "$xrun" check endless.lua >out.txt 2>&1 || status=$?
[ $status = 130 ] || { cat out.txt; fail "exit $status after Ctrl-C, wanted 130"; }

# Rows: bad ones are noted with file and line; a row that fits no micro-batch is named.
sed '3s/.*/{"prompt": 3}/' "$root/tests/data/pairs.jsonl" >some.jsonl
wants 0 'note     ledger' check "$dpo" --set data.1.path=some.jsonl
grep -q 'some.jsonl:3 ' out.txt || { cat out.txt; fail "the bad row has no location"; }
head -20 "$root/tests/data/pairs.jsonl" >reasons.jsonl
printf '{"a":1}\n{"a":1}\nnot json\n' >>reasons.jsonl
check "$dpo" --set data.1.path=reasons.jsonl >out.txt || true
grep -q 'reasons.jsonl:21 ' out.txt && grep -q 'reasons.jsonl:23:' out.txt ||
  { cat out.txt; fail "a reason without a row"; }
! grep -q 'reasons.jsonl:22 ' out.txt || { cat out.txt; fail "a reason with two rows"; }
wants 2 'pairs.jsonl:' check "$dpo" --set batch.max_tokens=30
[ "$(grep -c -- '--set batch.max_tokens=' out.txt)" = 1 ] || { cat out.txt; fail "no setting that helps"; }
wants 0 'note     warmup' check "$dpo" --set optim.warmup=100
wants 0 'note     notice' check "$dpo" --set sampling.temperature=0.3
tr -s ' \n' ' ' <out.txt | grep -q 'sampling.temperature=0.3: sampling has no effect: no line of' ||
  { cat out.txt; fail "no note on a setting that the recipe does not read"; }
cp "$dpo" $'\e[32mgreen.lua'
wants 0 'green.lua would train' check $'\e[32mgreen.lua'
! grep -q $'\e' out.txt || fail "a name sends escapes to the terminal"
XRUN_MEMORY_MB=1 wants 2 'wrong    memory' check "$dpo"

# Rows whose prompts differ in a word are named with the word and the line of the template; a pack that
# a setting keeps unfolded is named with the setting.
for row in 'Monday 2' 'Friday 3' 'Sunday 4'; do
  printf '{"prompt": "Today is %s. Answer in one word and explain nothing at all, whatever you are asked: %s?", "chosen": "Yes.", "rejected": "No."}\n' $row
done >days.jsonl
wants 0 'note     prefixes' check "$dpo" --set data.1.path=days.jsonl --set batch.fold_min=16
grep -q 'from the text of the user message (line 1 of the chat template), after' out.txt ||
  { cat out.txt; fail "no origin of the token"; }
wants 0 'FLOPs' check "$dpo" --set data.1.path=days.jsonl --set batch.fold_min=16
folds='folds 1\.[0-9]x: [0-9]+ tokens computed as [0-9]+, [5-9][0-9] % of the FLOPs'
tr -s ' \n' ' ' <out.txt | grep -qE "$folds" || { cat out.txt; fail "no line $folds"; }
wants 0 'steps' "$xrun" check "$root/recipes/grpo.lua" --set model=tiny --set batch.prompts=2 \
  --set batch.fold_min=8 --set data.1.path="$root/recipes/data/sums.jsonl"
tr -s ' \n' ' ' <out.txt | grep -qE 'answers of up to [0-9]+ tokens to each fold at least 2\.[0-9]x' ||
  { cat out.txt; fail "no line on the answers"; }
wants 0 'is not folded: batch.fold is false; folding would compute' \
  check "$dpo" --set data.1.path=days.jsonl --set batch.fold_min=16 --set batch.fold=false
! grep -q 'prefixes' out.txt || { cat out.txt; fail "rows that are not to be folded are compared"; }

# Objectives: a wrong length, a wrong sign, a term without gradient, rows that depend on each other.
changed mean.lua 's/return -margin:log_sigmoid(), {/return (-margin:log_sigmoid()):mean(), {/'
wants 2 'wanted 2 elements (one per pair' check mean.lua
grep -qE 'mean.lua:[0-9]+: ' out.txt || { cat out.txt; fail "no location of the loss"; }
changed tokens.lua 's/return -margin:log_sigmoid()/return -policy:token_logprob(p.chosen)/'
wants 2 'one per trained token of the chosen side, 2 one per pair; view:sum(x)' check tokens.lua
changed sign.lua 's/return -margin:log_sigmoid()/return -(-margin):log_sigmoid()/'
wants 0 'makes chosen answers less likely' check sign.lua
changed part.lua 's/return -margin:log_sigmoid()/return -(margin + xrun.tensor(chosen:tolist())):log_sigmoid()/'
wants 2 'the gradient differs from finite differences' check part.lua
grep -qE 'pairs.jsonl:[0-9]+: the gradient' out.txt || { cat out.txt; fail "no row"; }
changed detached.lua 's/return -margin:log_sigmoid()/return -(margin + chosen:detach()):log_sigmoid()/'
wants 0 'detaches a term' check detached.lua
changed couples.lua 's/return -margin:log_sigmoid()/return -(margin - 0.5 * margin:mean()):log_sigmoid()/'
wants 0 'depends on the log-probs of others' check couples.lua
changed constant.lua 's/return -margin:log_sigmoid()/return -(0 * margin):log_sigmoid()/'
wants 2 'does not depend on the log-probs' check constant.lua
changed centred.lua 's/return -margin:log_sigmoid()/return margin:mean() - margin/'
wants 2 'losses less their own mean sum to 0' check centred.lua
changed infinite.lua 's/return -margin:log_sigmoid()/return (margin - margin):log()/'
wants 2 'is -inf' check infinite.lua
changed root.lua 's/return -margin:log_sigmoid()/return (margin * margin):sqrt()/'
wants 2 'in step 0, where policy and reference are equal, the gradient of the loss is not finite' check root.lua
grep -qE 'root.lua:[0-9]+: ' out.txt || { cat out.txt; fail "no line of the step"; }
changed zero.lua 's/return -margin:log_sigmoid()/return -margin:log_sigmoid() + margin \/ margin/'
wants 2 'policy and reference are equal, the loss is not finite' check zero.lua
wants 2 'is -inf' check infinite.lua
! grep -q 'is saved in' out.txt || { cat out.txt; fail "it names a removed file"; }

# An objective over policy:logits gets seeded logits; its gradient is checked like any other.
changed logits.lua 's/return -margin:log_sigmoid()/return of(p.rejected) - of(p.chosen)/'
sed -i 's/^local function dpo(p).*/local function of(view)\n  local logits = policy:logits(view)\n  return view:mean((logits:softmax(-1) * logits:log_softmax(-1)):sum(-1))\nend\n\n&/' logits.lua
wants 0 'logits.lua would train' check logits.lua
grep -qE '^(ok|note) +gradient +the gradient at' out.txt || { cat out.txt; fail "logits are not checked"; }
# A field that nothing makes, one that the first row lacks, and one that a later step makes.
changed field.lua 's/return -margin:log_sigmoid()/return -(margin * p.gap):log_sigmoid()/'
wants 2 'no line assigns the field gap' check field.lua
changed short.lua 's/return -margin:log_sigmoid()/return -(margin * p.len):log_sigmoid()/'
wants 2 'did you mean `length`' check short.lua
{
  head -n 8 "$root/tests/data/pairs.jsonl"
  echo '{"prompt":"a","chosen":"b","rejected":"c","gap":1}'
} >gaps.jsonl
wants 2 'so `keep` leaves the column out; 1 of 9 rows have it' check field.lua \
  --set data.1.path=gaps.jsonl --set 'data.1.keep={"gap"}'
sed -i 's/^  run:log(adamw:step/  if step > 5 then batch.gap = nil end\n&/' field.lua
wants 0 'could not be checked: field gap is made by the recipe at run time' check field.lua
changed slip.lua 's/return -margin:log_sigmoid()/return -(margin * p.weigth):log_sigmoid()/'
wants 2 'did you mean "weight"' check slip.lua

# Objects for programs; two loops.
check "$dpo" --json >lines
python3 - <<'PYTHON' || fail "json"
import json
found = [json.loads(line) for line in open("lines")]
assert {"config", "ledger", "steps", "memory", "dry step", "gradient"} <= {f["subject"] for f in found}
assert all(f["verdict"] in ("ok", "note") for f in found)
PYTHON
wants 0 'loop 2' "$xrun" check recipes/sft_dpo.lua --set model=tiny
wants 0 'would train' "$xrun" check recipes/kto.lua --set model=tiny
grep -qE 'ok +steps .*; [0-9]+ good, [0-9]+ bad; [0-9.]+ epochs?$' out.txt ||
  { cat out.txt; fail "no labels or epochs"; }
grep -qE 'decreases when good answers become more likely' out.txt ||
  { cat out.txt; fail "no slope by label"; }
# Half of KTO's loss is missing where all answers have one label.
for i in 1 2 3; do echo "{\"prompt\":\"q$i\",\"completion\":\"a\",\"label\":true}"; done >good.jsonl
wants 0 'answers are labelled good: KTO needs both good and bad ones' \
  "$xrun" check recipes/kto.lua --set model=tiny --set data.1.path=good.jsonl
wants 0 'each step holds every row' check "$dpo" --set batch.pairs=100
wants 0 'note: keep: ' check "$dpo" --set 'data.1.keep={"nothing"}'
"$xrun" init-model gpt2 --preset gpt2-tiny --tokenizer "$root/tests/data/tiny_tokenizer" >/dev/null
wants 2 'max_length is 9,000, but gpt2 has 2,048 learned positions' \
  check "$dpo" --set model=gpt2 --set max_length=9000
wants 0 'max_length is 9,000, beyond the 2,048 positions' check "$dpo" --set max_length=9000
wants 0 'gradient 2' "$xrun" check recipes/joint.lua --set model=tiny
wants 0 'would train' "$xrun" check recipes/reward.lua --set model=tiny
wants 0 'would train' "$xrun" check recipes/pretrain.lua --set model=tiny
# A body that never ends: Ctrl-C reports the line that it reached.
changed hang.lua 's/^  local margin .*/  io.stderr:write("go\\n"); while true do end; local margin/'
python3 - "$xrun" "$root/tests/data/pairs.jsonl" <<'PYTHON'
import signal, subprocess, sys
check = subprocess.Popen(
    [sys.argv[1], "check", "hang.lua", "--set", "model=tiny", "--set", "answers=0", "--set",
     "batch.pairs=2", "--set", "data.1.path=" + sys.argv[2]],
    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
assert check.stderr.readline() == "go\n"
check.send_signal(signal.SIGINT)
said, _ = check.communicate(timeout=60)
assert check.returncode == 130, check.returncode
assert any(line.startswith("note     stopped") and " at hang.lua:" in line and
           line.endswith(", so some checks are missing") for line in said.splitlines()), said
PYTHON

rm tiny/model.safetensors
wants 2 'tiny: has neither model.safetensors nor' check "$dpo"

echo ok
