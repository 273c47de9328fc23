#!/usr/bin/env bash
# A small share of the checks of several ranks (each dist_*.py runs more of them), and errors that
# only one rank has.
source "$(dirname "${BASH_SOURCE[0]}")/launch_fixture.sh"
check() { python3 "$root/tests/tools/dist_$1.py" "${@:2}" || fail "dist_$1.py ${*:2}"; }
check exact one_pair:3:0 sft:2:2 grpo:2:3 moe:2:3 distill:2:1
check chains --chains 2
check kills --kills 1
check checks --actions 30

# LINE LEVEL: the shipped recipe with a line in the body of step 3, an average, and an error of rank 1.
with() {
  sed -e "s|^for step, batch in.*|&\n  if step == 3 then $1 end|" -e "s|^local run .*|\
local function fails() if os.getenv('RANK') == '1' then error('no luck') end end\n\
local ema = xrun.ema(policy)\n&|" "$root/recipes/dpo.lua" >own.lua
  wants 1 "rank 1 of 2: step 3: own.lua:33: no luck" "$xrun" launch -n 2 own.lua --threads 1 \
    --set model=tiny --set answers=0 --set steps=6 --set dist.level="$2" --set valid.every=100 \
    --set data.1.path="$root/tests/data/pairs.jsonl" --run own
  is "$(grep -c 'xrun: error' out.txt)" 1
  no_ranks_left
  rm -rf own
}
# The others make the collectives of a step, while a save of shared state or the end of an average
# would need theirs.
for level in 1 3; do with "fails()" $level; done
with "ema:use(function() fails() return run:evaluate(valid, dpo) end)" 1
