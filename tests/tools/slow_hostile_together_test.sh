#!/usr/bin/env bash
# The hostile recipes that an error ends, in one process, and the options of trust.
# slow_hostile_test.sh runs every one in a process of its own.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"

"$xrun" --version >/dev/null
python3 "$root/tests/tools/hostile.py" "$xrun" "$work" together

# Options of trust: bad values, the contradiction, ranks.
echo 'print("ran")' >script.lua
range="wanted a whole number from 1 to 1,099,511,627,776"
wants 2 "--limit-seconds: got 0, $range" "$xrun" script.lua --untrusted --limit-seconds 0
wants 2 "--limit-memory: got 1099511627777, $range" "$xrun" script.lua --untrusted --limit-memory 1099511627777
# More nanoseconds than 64 bits hold.
wants 0 "ran" "$xrun" script.lua --untrusted --limit-seconds 9223372037
wants 2 "give one" "$xrun" script.lua --untrusted --trusted
wants 2 "no such path" "$xrun" script.lua --untrusted --read nowhere
MASTER_ADDR=localhost MASTER_PORT=1 WORLD_SIZE=2 RANK=0 wants 2 "ranks talk over the network" "$xrun" script.lua --untrusted
# No command runs a stranger's code without limits: a recipe below a bundle's lock, a file that has
# only the name of a bundle. The commands left out build this tree.
mkdir -p sent/recipe/deeper && echo '{}' >sent/bundle.json
echo "os.execute('touch $work/ran')" >sent/recipe/deeper/r.lua
cp sent/recipe/deeper/r.lua text.xrb && cp sent/recipe/deeper/r.lua sent/recipe/deeper/r.txt
wants 2 "bundle.json): not trusted" "$xrun" plan sent/recipe/deeper/r.lua
wants 2 "is not for a recipe that is not trusted" "$xrun" plan sent/recipe/deeper/r.lua
wants 1 "os.execute is not for a recipe" "$xrun" sent/recipe/deeper/r.lua
ln -s sent/recipe/deeper linked && wants 1 "is not for a recipe" "$xrun" linked/r.lua
commands=$("$xrun" help | sed -n '/^commands:/,$p' | awk 'NR > 1 { print $1 }' | grep -vx -e test -e bench)
while read -r command; do
  for file in sent/recipe/deeper/r.lua sent/recipe/deeper/r.txt text.xrb; do
    timeout 60 "$xrun" $command $file >out.txt 2>&1 </dev/null || true
    [ ! -e ran ] || { cat out.txt; fail "$command $file ran a stranger's code"; }
  done
done <<<"$commands

launch -n 1
explain --where beta
cache --threads 1"
# Links that a stranger's folder may hold: the default folder of runs, a value of --set.
mkdir -p theirs elsewhere && ln -s ../elsewhere theirs/runs
echo '{"text": "a"}' >elsewhere/x.jsonl && ln -s ../elsewhere/x.jsonl theirs/x.jsonl
cp script.lua theirs/r.lua
echo 'local xrun = require "xrun"
local cfg = xrun.config { file = "none" }
xrun.text({ { path = cfg.file } }, xrun.policy("../tiny"))
print("read")' >theirs/reads.lua
cd theirs
wants 2 "choose the run's folder with --run DIR" "$xrun" r.lua --untrusted
wants 0 "ran" "$xrun" r.lua --untrusted --run ../own
wants 1 "x.jsonl: may not be read" "$xrun" reads.lua --untrusted --run ../own --read ../tiny --set file=x.jsonl
wants 0 "read" "$xrun" reads.lua --untrusted --run ../own --read ../tiny --set file=../elsewhere/x.jsonl
cd "$work"
[ "$(ls elsewhere)" = x.jsonl ] || fail "a link of a stranger's folder was followed"
# A run's recipe is as little trusted as it was.
dpo --untrusted --steps 1 --run limited >/dev/null
wants 2 "run.json): not trusted" "$xrun" check limited/recipe.lua
dpo --steps 1 --run free >/dev/null
! grep -q '"untrusted"' free/run.json || fail "a trusted run says that it is not"
# A lock beside a recipe makes it a stranger's; --trusted lifts it.
echo 'print(io and "has io")' >mine.lua
wants 0 "has io" "$xrun" mine.lua
echo '{}' >bundle.json
wants 1 "is not for a recipe that is not trusted" "$xrun" mine.lua
wants 0 "has io" "$xrun" mine.lua --trusted
# A kernel without Landlock is reported, and xrun still refuses.
XRUN_LANDLOCK_VERSION=0 wants 0 "no Landlock" "$xrun" script.lua --untrusted
[ ! -e runs ] || fail "a script left a folder of runs"
