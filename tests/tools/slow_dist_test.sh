#!/usr/bin/env bash
# A small share of the checks of several ranks (each dist_*.py runs more of them), and errors that
# only one rank has.
source "$(dirname "${BASH_SOURCE[0]}")/launch_fixture.sh"
check() { python3 "$root/tests/tools/dist_$1.py" "${@:2}" || fail "dist_$1.py ${*:2}"; }
check exact one_pair:3:0 sft:2:2 grpo:2:3 moe:2:3 distill:2:1
check chains --chains 2
check kills --kills 1
check checks --actions 30

# The shipped recipe with an average and with an error of one rank in the body of a step: before the
# update, after it, or in the use of the average. The others are in collectives of their step then, and
# yet the last update is saved; the run goes on as if nothing had been. In the last case another rank
# has an error of its own.
sed -e "s|^for step, batch in.*|&\n  fails(step, 'before')|" -e "s|^  run:log(adamw:step.*|&\n\
  fails(step, 'after')\n\
  ema:use(function() fails(step, 'ema') return run:evaluate(valid, dpo) end)|" \
  -e "s|^local run .*|local function fails(...)\n\
  if (os.getenv('FAULT') or ''):find(table.concat({ os.getenv('RANK') or '', ... }, ' '), 1, true) then\n\
  error('no luck') end\nend\n\
local ema = xrun.ema(policy)\n&, ema = ema })|" -e "s|adamw = adamw }), ema|adamw = adamw, ema|" \
  "$root/recipes/dpo.lua" >own.lua
own() { # RANKS [OPTION...]: 0 ranks are one process without a launcher
  local start=("$xrun")
  [ "$1" = 0 ] || start=("$xrun" launch -n "$1")
  "${start[@]}" own.lua --threads 1 "${@:2}"
}
own_settings="--set model=tiny --set answers=0 --set steps=6 --set valid.every=100 --set batch.pairs=5
  --set batch.max_tokens=240 --set data.1.path=$root/tests/data/pairs.jsonl"
own 0 $own_settings --run whole >/dev/null
line=$(grep -n "no luck" own.lua | cut -d: -f1)
while read -r level ranks rank where resumed other elsewhere; do
  step=$((1 + RANDOM % 4))
  saved=$step
  [ "$where" = before ] || saved=$((step + 1))
  echo "level $level: $where the update of step $step, rank $rank of $ranks"
  FAULT="$rank $step $where,$other $step $elsewhere" wants 1 ": step $step: own.lua:$line: no luck" \
    own "$ranks" $own_settings --set dist.level="$level" --run own
  is "$(grep -c 'xrun: error' out.txt)" 1
  tail -1 out.txt | grep -q "^rank [$rank$other] of $ranks: step $step: own.lua:$line: no luck" ||
    { cat out.txt; fail "no last line"; }
  grep -q "saved in own/checkpoints/step_000000$saved" out.txt || { cat out.txt; fail "not saved"; }
  no_ranks_left
  own "$resumed" --run own --resume >own.log 2>&1 || { cat own.log; fail "no resume on $resumed"; }
  same_run whole own
  rm -rf own
done <<END
0 2 1 before 3
1 3 0 after 0
2 2 1 ema 0
3 3 0 before 2
3 2 1 ema 0
1 2 1 ema 3 0 after
END
