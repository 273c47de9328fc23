#!/usr/bin/env bash
# A whole run on a tiny model: step 0, the folder, a second run, resume, refusals, bad input.
# slow_run_test.sh has the rest.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"

# Step 0 starts at ln 2, accuracy one half, rewards exactly zero.
dpo --run a --set save.every=3 >/dev/null
python3 - <<'PYTHON'
import json, math
first = json.loads(open("a/metrics.jsonl").readline())
assert first["step"] == 0 and abs(first["train/loss"] - math.log(2)) < 1e-6, first
for side in ("train", "valid"):
    assert first[side + "/accuracy"] == 0.5, first
    assert first[side + "/reward_chosen"] == 0 and first[side + "/reward_rejected"] == 0, first
lines = [json.loads(line) for line in open("a/metrics.jsonl")]
assert [line["step"] for line in lines] == list(range(len(lines))), lines
assert lines[-1]["valid/loss"] < math.log(2), lines[-1]
PYTHON
for file in recipe.lua config.json run.json ledger.json metrics.jsonl hf/config.json \
  hf/tokenizer.json \
  checkpoints/latest tb; do
  [ -e "a/$file" ] || fail "the run has no $file"
done
ls a/hf a/checkpoints/*/ | grep -q reference && fail "the reference was saved"

# The same run twice gives the same bits, and its folder is not reused.
dpo --run b --set save.every=3 >/dev/null
same_run a b
wants 2 "--resume" dpo --run a --set save.every=3
wants 0 "finished" dpo --run a --set save.every=3 --resume

# Stopped by --steps and resumed without repeating a setting: the same bits. A changed recipe is
# refused with the field, a mistyped folder with the run that is meant.
dpo --run c --set save.every=3 --steps 4 >/dev/null
[ "$(cat c/checkpoints/latest)" = step_0000004 ] ||
  fail "--steps 4 saved $(cat c/checkpoints/latest)"
# An interrupted run has no model yet: the command that is named exports it, from another folder too.
rm -r c/hf
wants 2 "no model was exported yet" "$xrun" sample --model c/hf
wants 1 "to export the last save, of 4 steps, without training: " "$xrun" sample --model c
(cd / && XRUN_CALLED_AS=$xrun "$xrun" sample --model "$work/c" 2>&1 </dev/null || true) >out.txt
(cd / && eval "$(sed -n 's/.*without training: //p' "$work/out.txt")" >/dev/null) ||
  fail "the command does not work: $(cat out.txt)"
[ "$(wc -l <c/metrics.jsonl)" = 5 ] && [ -f c/hf/config.json ] ||
  fail "trained $(wc -l <c/metrics.jsonl) steps, exported $(ls c/hf)"
wants 1 "config.beta: 0.1 -> 0.5" dpo --run c --set save.every=3 --resume --set beta=0.5
"$xrun" "$root/recipes/dpo.lua" --run c --resume >/dev/null
same_run a c

# Bad input: one clear error with the right status.
wants 2 "did you mean" dpo --run e --set betta=0.2
printf '{"prompt":"a","chosen":"b","rejected":"c"}\n{"prompt":"a",' >broken.jsonl
wants 1 "broken.jsonl:2:" dpo --run e --set data.1.path=broken.jsonl --set strict=true
wants 1 "batch.max_tokens" dpo --run e --set batch.max_tokens=8
sed 's/p.chosen)/p.chosenn)/' "$root/recipes/dpo.lua" >typo.lua
wants 1 "chosenn" "$xrun" typo.lua --run e --set model=tiny --set answers=2 --set steps=11 \
  --set data.1.path="$root/tests/data/pairs.jsonl" --set batch.pairs=2
[ ! -e e ] || fail "a start that trained nothing left a folder"
