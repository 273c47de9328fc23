#!/usr/bin/env bash
# The planned memory equals the measured peak: in a first run, whose reference loads its frozen
# twin, and in a second run, which finds every value of the reference in its sidecar. That of answers
# to prompts is planned by their longest.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"
"$xrun" init-model large --preset tiny --tokenizer "$root/tests/data/tiny_tokenizer" >/dev/null

for run in cold warm; do
  dpo --set model=large --run $run >out.txt 2>&1 || { cat out.txt; fail "the $run run"; }
  python3 - $run <<'PYTHON' || fail "the plan of the $run run"
import json, sys
memory = json.load(open(sys.argv[1] + "/run.json"))["memory"]
planned, measured = memory["planned"], memory["measured"]
ratio = planned["total"] / measured["total"]
print(sys.argv[1], f"{ratio:.3f}", planned, measured)
if not 0.9 < ratio < 1.1:
    sys.exit("planned and measured differ by more than a tenth")
if ("reference" in planned) != (sys.argv[1] == "cold"):
    sys.exit("the frozen twin is counted where there is none, or left out")
PYTHON
done

# Answers to many prompts in one micro-batch, of about one answer to each, and an adapter, whose
# export merges a copy of the weights. run:sample answers the held-out prompts.
answers() {
  local name=$1
  shift
  "$xrun" "$root/recipes/grpo.lua" --set model=large --set template=chatml --set steps=3 \
    --set sampling.samples=16 --set sampling.max_tokens=60 --set batch.prompts=3 \
    --set valid.fraction=0.01 --set valid.every=100 \
    --set data.1.path="$root/recipes/data/sums.jsonl" --run $name "$@" >out.txt 2>&1 ||
    { cat out.txt; fail "the run $name"; }
  python3 - $name <<'PYTHON' || fail "the plan of the run $name"
import json, sys
memory = json.load(open(sys.argv[1] + "/run.json"))["memory"]
ratio = memory["planned"]["total"] / memory["measured"]["total"]
print(sys.argv[1], f"{ratio:.3f}", memory)
if not 0.9 < ratio < 1.15:
    sys.exit("planned and measured differ by more than a tenth")
PYTHON
}
answers answers
answers one --set batch.max_tokens=126 --set sampling.samples=4
answers held_out --set batch.max_tokens=126 --set sampling.samples=4 --set valid.fraction=0.2 \
  --set valid.every=2
answers adapter --set batch.max_tokens=126 --set sampling.samples=4 --set lora.rank=8
