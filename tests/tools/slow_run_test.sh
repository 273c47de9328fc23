#!/usr/bin/env bash
# Whole runs on a tiny model: another compute type, another device, other packing, an export that
# chats, bad settings, files and disks.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"

# --force continues in another compute type with the weights of the folder.
dpo --run half --steps 2 >/dev/null
wants 2 'did you mean `half`?' dpo --run hlaf --resume
wants 1 'dtype' dpo --run half --steps 4 --resume --set dtype=bf16
wants 0 'resumed half at step 2' dpo --run half --steps 4 --resume --force --set dtype=bf16

dpo_check() {
  "$xrun" check "$root/recipes/dpo.lua" --set model=tiny --set batch.pairs=2 "$@" \
    --set data.1.path="$root/tests/data/pairs.jsonl"
}
dpo --run a >/dev/null
# Commands that look at a recipe take the settings of a run, as --resume does.
wants 0 'a: taking the settings of this run' "$xrun" check "$root/recipes/dpo.lua" --run a
grep -qE '^ok +steps +11 steps of 2 ' out.txt || { cat out.txt; fail "check did not take the settings"; }
# The line wraps within it where the recipe's path is long.
wants 0 "pair 0" "$xrun" inspect "$root/recipes/dpo.lua" --run a --set batch.pairs=1
tr '\n' ' ' <out.txt | grep -q 'step 0 of 11 ' || { cat out.txt; fail "inspect did not take the steps"; }
wants 0 'a: taking the settings of this run' "$xrun" cache "$root/recipes/dpo.lua" --run a
wants 2 'is another recipe' "$xrun" check "$root/recipes/sft.lua" --run a
wants 0 'would train' dpo_check --run to_come
# Packing and micro-batch size change nothing beyond rounding.
dpo --run d --set batch.max_tokens=400 >/dev/null
python3 - <<'PYTHON'
import json
for x, y in zip(open("a/metrics.jsonl"), open("d/metrics.jsonl")):
    x, y = json.loads(x), json.loads(y)
    if "train/loss" in x: assert abs(x["train/loss"] - y["train/loss"]) < 1e-5, (x, y)
PYTHON

# An export answers a chat with the template that trained it, though its tokenizer had none.
tokenizer=$root/tests/data/tokenizers/smol
"$xrun" init-model bare --tokenizer "$tokenizer" --layers 1 --hidden 32 --heads 2 \
  --ffn 64 >/dev/null
dpo --set model=bare --set template=chatml --set steps=2 --run chat >/dev/null
echo hi >question
wants 0 "the tokenizer's own" "$xrun" sample --model chat/hf --chat --max-new-tokens 2 question

# A run that was on a GPU is not moved to the CPU in silence.
dpo --run g --set save.every=3 --steps 1 >/dev/null
sed -i 's/"device": *"cpu"/"device":"cuda"/' g/run.json
CUDA_VISIBLE_DEVICES= wants 2 'to continue it on the CPU, where the last digits may differ, add --device cpu' \
  "$xrun" "$root/recipes/dpo.lua" --run g --resume
wants 0 'machine.device: "cuda" -> "cpu"' \
  "$xrun" "$root/recipes/dpo.lua" --run g --resume --device cpu --steps 2

# Bad files and disks: one clear error, the right status, nothing lost.
wants 1 "missing.jsonl" dpo --run e --set data.1.path=missing.jsonl
wants 2 "nowhere" dpo --run e --set model=nowhere
wants 1 "max_length" dpo --run e --set max_length=40
head -c 3000 tiny/model.safetensors >short && cp -r tiny cut && mv short cut/model.safetensors
wants 1 "model.safetensors" dpo --run e --set model=cut
wants 0 "dropped" dpo --run e --set max_length=135 --set over_length=drop
mkdir shut && chmod 555 shut
[ "$(id -u)" = 0 ] || wants 1 "shut" dpo --run shut/run
wants 1 "No space left" env XRUN_FILE_FAULT=write:30 "$xrun" "$root/recipes/dpo.lua" --run f \
  --set model=tiny --set answers=0 --set data.1.path="$root/tests/data/pairs.jsonl" \
  --set batch.pairs=2
# Columns that the row does not have are named with a setting to copy.
echo '{"question":"a","A":"b","B":"c"}' >columns.jsonl
wants 1 "still missing: chosen, rejected; name them, for example --set 'data.1.fields={ prompt = " \
  dpo --run none --set data.1.path=columns.jsonl --set data.1.keep={} \
  --set 'data.1.fields={ prompt = "question" }'
# A setting that the recipe does not read is noted in the opening report.
wants 0 'sampling has no effect' dpo --run unread --set sampling.temperature=0.3 --steps 1
# A setting that only the data or the loop can refuse is a wrong configuration too.
wants 2 '"nolaw" is not a template law' dpo --run none --set laws.nolaw=false
wants 2 'batch has both pairs and sequences' dpo --run none --set batch.sequences=4
wants 2 'mixture.stages[1].weights has 2 numbers, data has 1 source; give' dpo --run none \
  --set 'mixture.stages={ { start = 0, weights = { 1, 2 } } }'
wants 2 'quota of' dpo --run none --set 'data.1.quota={ rows = 3, tokens = 4 }'
[ ! -e none ] || fail "a start that trained nothing left a folder"
