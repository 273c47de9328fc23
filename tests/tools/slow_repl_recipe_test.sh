#!/usr/bin/env bash
# xrun repl RECIPE.lua: the locals of a recipe paused at its loop are the names at the prompt; recipes
# that fail or never reach a loop still open one. xrun RECIPE.lua --profile writes the time of each line.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"
export XDG_STATE_HOME=$work/state PYTHONPATH=$root/tests/tools
sets=(--set model=tiny --set answers=0 --set steps=3 --set batch.pairs=2
  --set data.1.path="$root/tests/data/pairs.jsonl")
# STATUS RECIPE: runs the script on standard input; its output goes to out.txt, notices to err.txt.
script() {
  local status=0
  "$xrun" repl "$2" "${sets[@]}" >out.txt 2>err.txt || status=$?
  [ "$status" = "$1" ] || { cat out.txt err.txt; fail "status $status, wanted $1"; }
}
says() { grep -qF -- "$2" "$1" || { cat out.txt err.txt; fail "$1 does not say '$2'"; }; }

script 0 "$root/recipes/dpo.lua" <<'LUA'
cfg.beta
:set beta 0.25
cfg.beta
dpo
local function dpo(p) return p.chosen end
:src dpo
train
reference
LUA
says err.txt "is paused at line 35, before step 0."
says err.txt "policy, reference, train"
[ "$(sed -n 1p out.txt)" = 0.1 ] || fail "cfg.beta: $(cat out.txt)"
says out.txt "cfg.beta = 0.25  (was 0.1)"
says out.txt "0.25"
says out.txt "function(p)  $root/recipes/dpo.lua:21"
says out.txt "    5 | local function dpo(p) return p.chosen end"
[ ! -e runs ] || fail "inspecting a recipe left a run folder"

# The prompt opens with the error, and the names defined so far.
cat >broken.lua <<'LUA'
local xrun = require "xrun"
local before = 12
local t = { 1, 2 }
t.missing.field = 1
local never = 1
LUA
sets=()
script 1 broken.lua <<<'before'
says err.txt "broken.lua:4: "
says err.txt "4 | t.missing.field = 1"
says err.txt "before, t, xrun"
says out.txt 12
printf 'local x = 1\nlocal y = = 2\n' >syntax.lua
script 1 syntax.lua <<<'1 + 1'
says err.txt "syntax.lua:2: "
says out.txt 2
printf 'local xrun = require "xrun"\nlocal answer = 42\n' >no_loop.lua
script 0 no_loop.lua <<<'answer'
says err.txt "ends without a loop"
says out.txt 42
# A wrong configuration is bad usage.
sets=(--set nosuch=1)
script 2 "$root/recipes/dpo.lua" <<<'1 + 1'
says err.txt '--set nosuch=1: there is no key `nosuch`'
says out.txt 2
wants 2 "missing.lua: " "$xrun" repl missing.lua

cat >drive.py <<'PYTHON'
import sys
from terminal import Terminal

t = Terminal(sys.argv[1:])
t.until("before step 0.")
t.until("xrun> ")
t.send("polic\t:token_lo\t(\x1b[200~train\x1b[201~)\r")
t.until("policy:token_logprob(train)")
t.until("wanted a View")
t.send("cfg.be\t\r")
t.wants_screen("0.1")
t.send("print(600 * 70) while true do end\r")
t.until("42000")  # it runs
t.send("\x03")
t.until("interrupted at input")
t.send("\x04")
assert t.wait() == 0
PYTHON
python3 drive.py "$xrun" repl "$root/recipes/dpo.lua" --set model=tiny --set answers=0 \
  --set steps=3 --set batch.pairs=2 --set data.1.path="$root/tests/data/pairs.jsonl"

# The profile by line goes to the run's folder.
dpo --run profiled --set steps=2 --profile >out.txt
grep -qF "time and bytes by line: profiled/profile.json" out.txt || fail "$(cat out.txt)"
python3 - "$root/recipes/dpo.lua" <<'PYTHON'
import json, sys
profile = json.load(open("profiled/profile.json"))
lines = {line["line"]: line for line in profile["lines"]}
source = open(sys.argv[1]).read().split("\n")
for number, line in lines.items():
    assert line["file"] == sys.argv[1] and line["text"] == source[number - 1].strip(), line
    assert 0 <= line["own_s"] <= line["total_s"] + 1e-6 <= profile["seconds"] + 1e-3, line
step = next(n for n, text in enumerate(source, 1) if "run:log(adamw:step(batch, dpo))" in text)
chosen = next(n for n, text in enumerate(source, 1) if "local chosen" in text)
assert lines[step]["total_s"] > lines[step]["own_s"], "the objective runs within the step"
assert lines[chosen]["allocated_bytes"] > 0
assert sum(line["own_s"] for line in lines.values()) <= profile["seconds"]
PYTHON

# A resume adds the time of its process.
cp profiled/profile.json first_profile.json
dpo --run profiled --set steps=4 --resume --profile >out.txt
python3 - <<'PYTHON'
import json
def calls(file):
    lines = json.load(open(file))["lines"]
    return [line["calls"] for line in lines if "run:log(adamw:step(batch, dpo))" in line["text"]]
(first,), (whole,) = calls("first_profile.json"), calls("profiled/profile.json")
assert whole == 2 * first > 0, (first, whole)
PYTHON
